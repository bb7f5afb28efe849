"""All parallelism plans of a number of GPUs, and the rules that refuse some of them.

Shape legend: U plans, V values of a size.
"""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache
from itertools import islice, product
from math import isqrt
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.parallelism import PlanColumns, cuts_groups, most_replicas, node_gpus, plan_rules
from perfatlas.quantities import InvalidSpecError
from perfatlas.verbs.search.launch import whole_fields

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from perfatlas.networks import ModelFormats, Network
    from perfatlas.operators import FloatArray
    from perfatlas.step import Candidates
    from perfatlas.verbs.search.question import SearchInputs

    BoolArray = NDArray[np.bool_]

REPLICA: Final = ("tp", "pp", "cp", "attention_dp")
MOST_PLANS: Final = 2_000_000  # of one combination of system, engine and formats: 112 MB
BLOCK: Final = 128.0  # rows and columns of a block of fp8_block weights


def all_plans(
    inputs: SearchInputs, network: Network, *, divides_prompts: bool = False
) -> PlanColumns:
    """Return every division of the GPUs into replicas, stages and ranks (U,), legal or not.

    With `gpus` the sizes multiply to it. With `max_gpus` a replica has at most so many, and there
    are as many replicas as fit. Sizes that are given are kept, of listed ones no others are tried.

    Args:
        inputs: The search.
        network: The network; only experts are divided by attention data parallelism, ep and
            moe_tp.
        divides_prompts: Whether the engine runs context parallelism.

    Raises:
        InvalidSpecError: There are more than `MOST_PLANS`.
    """
    free = {"tp", "pp"} | ({"attention_dp"} if network.has_experts else set())
    free |= {"cp"} if divides_prompts else set()
    rows = _rows(inputs, free, has_experts=network.has_experts)
    names = [field.name for field in fields(PlanColumns)]
    row = np.dtype((np.float64, len(names)))
    table: FloatArray = np.fromiter(islice(rows, MOST_PLANS + 1), row)
    if len(table) > MOST_PLANS:
        asked = "gpus" if inputs.gpus is not None else "max_gpus"
        raise InvalidSpecError(
            f"{inputs.most_gpus:,} GPUs have more than {MOST_PLANS:,} plans, too many for one"
            f" search; set some of {', '.join(sorted(free, key=REPLICA.index))}, or fewer {asked}"
        )
    return PlanColumns(**{name: table[:, place] for place, name in enumerate(names)})


def _rows(inputs: SearchInputs, free: set[str], *, has_experts: bool) -> Iterator[tuple[int, ...]]:
    """Yield tp, pp, cp, attention_dp, ep, moe_tp and dp of every plan."""
    exact, replicas = inputs.gpus is not None, inputs.allowed("dp")
    experts = inputs.allowed("ep"), inputs.allowed("moe_tp")
    most = inputs.most_gpus
    sizes = [inputs.allowed(name) or (None if name in free else (1,)) for name in REPLICA]
    for tp, pp, cp, attention_dp in _divisions(sizes, most, exact=exact):
        dp = most // (tp * pp * cp * attention_dp)
        for wanted in replicas or (dp,):
            if wanted > dp or (exact and wanted != dp):
                continue
            for ep, moe_tp in _expert_sizes(tp * attention_dp, experts, has_experts=has_experts):
                yield (tp, pp, cp, attention_dp, ep, moe_tp, wanted)


def _divisions(
    sizes: Sequence[tuple[int, ...] | None], left: int, *, exact: bool
) -> Iterator[tuple[int, ...]]:
    """Yield all sizes whose product divides the GPUs, or is at most them.

    Args:
        sizes: The values of each size, None for all.
        left: GPUs over the sizes chosen so far.
        exact: Whether the product divides the GPUs.
    """
    if not sizes:
        yield ()
        return
    values, *others = sizes
    for size in _sizes(left, exact=exact) if values is None else values:
        if size <= left and not (exact and left % size):
            for rest in _divisions(others, left // size, exact=exact):
                yield (size, *rest)


def _sizes(left: int, *, exact: bool) -> Sequence[int]:
    """Return the sizes that divide some GPUs, or all up to them, in ascending order."""
    return [size for size, _ in _divisors(left)] if exact else range(1, left + 1)


def _expert_sizes(
    ranks: int,
    allowed: tuple[tuple[int, ...] | None, tuple[int, ...] | None],
    *,
    has_experts: bool,
) -> list[tuple[int, int]]:
    """Return the divisions of the ranks into ep and moe_tp, of which all or some are allowed."""
    own_ep, own_tp = allowed
    if not has_experts:
        return list(product(own_ep or (1,), own_tp or (ranks,)))
    return [
        (ep, moe_tp)
        for ep, moe_tp in _divisors(ranks)
        if (own_ep is None or ep in own_ep) and (own_tp is None or moe_tp in own_tp)
    ]


@cache
def _divisors(number: int) -> tuple[tuple[int, int], ...]:
    """Return all pairs of sizes whose product is a number, the smallest first size first."""
    small = [n for n in range(1, isqrt(number) + 1) if number % n == 0]
    large = [number // n for n in reversed(small) if n * n != number]
    return tuple((n, number // n) for n in (*small, *large))


def placed_plans(base: Candidates, plan: PlanColumns, inputs: SearchInputs) -> PlanColumns:
    """Return plans with as many replicas as the nodes hold, where their number is free (U,).

    Args:
        base: A candidate with their system.
        plan: The plans.
        inputs: The search.
    """
    if inputs.gpus is not None or inputs.allowed("dp"):
        return plan
    return replace(plan, dp=np.minimum(plan.dp, _most_replicas(base, plan, inputs.most_gpus)))


def _most_replicas(base: Candidates, plan: PlanColumns, gpus: int) -> FloatArray:
    """Return the replicas that the nodes of all GPUs hold (U,)."""
    each, per_node = plan.gpus_per_replica, node_gpus(base.placement.systems[0])
    return most_replicas(each, per_node, np.full_like(each, gpus))


def refusing_rules(base: Candidates, plan: PlanColumns, gpus: int) -> dict[str, BoolArray]:
    """Return the plans that each rule refuses (U,), by its name.

    Args:
        base: A candidate with their model, engine, formats and system.
        plan: The plans.
        gpus: All GPUs.

    Source: scale-up domain: vLLM documentation, "Parallelism and Scaling" (tensor parallelism
        inside a node, pipeline parallelism between nodes). Blocks: vLLM 0.24,
        model_executor/layers/quantization/fp8.py, which rejects partitions that are no multiple of
        a block of 128.
    """
    network, formats, engine = base.model.network, base.formats, base.profile.name
    rules = dict(plan_rules(network, plan))
    domain = base.placement.systems[0].device.scale_up.domain_size
    rules["tp_within_scale_up_domain"] = plan.tp > domain
    rules["groups_within_nodes"] = cuts_groups(plan, node_gpus(base.placement.systems[0]))
    rules["workers_fit_on_nodes"] = plan.dp > _most_replicas(base, plan, gpus)
    for name in whole_fields(engine):
        ways, ranks = getattr(plan, name), plan.tp * plan.attention_dp
        rules["sizes_supported_by_engine"] = (ways != 1.0) & (ways != ranks)
    for width, ways, stored in _block_widths(network, plan, formats):
        if stored == "fp8_block":
            partial = np.mod(np.floor(width / ways), BLOCK) != 0.0
            broken = rules.get("fp8_blocks_whole_per_rank", np.zeros(plan.tp.shape, np.bool_))
            rules["fp8_blocks_whole_per_rank"] = broken | (partial & (np.mod(width, BLOCK) == 0))
    return rules


def _block_widths(
    network: Network, plan: PlanColumns, formats: ModelFormats
) -> Iterator[tuple[float, NDArray[np.float64], str]]:
    """Yield the widths of feed-forward layers, the ranks that divide each, and their format."""
    stored = {"gemm": formats.gemm, "moe": formats.moe}
    for group in network.layers:
        for size in group.divided_sizes:
            if size.weights:
                yield float(size.size), getattr(plan, size.by), stored[size.weights]
