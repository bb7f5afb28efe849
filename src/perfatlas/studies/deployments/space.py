"""The search space: resolved scenarios, and their legal plans and limits as columns.

Shape legend: U plans, C candidates, V values of a size.
"""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass, replace
from itertools import islice, product
from math import isqrt
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas import parallelism
from perfatlas.operators import unique_rows
from perfatlas.quantities import InvalidSpecError, PerfatlasError
from perfatlas.scenario.fields import FIELD_NAMES
from perfatlas.scenario.resolution import (
    LIMITS,
    read_scenario,
    resolve_scenarios,
)
from perfatlas.scenario.resolution.default_limits import LimitedLoad, filled_limits
from perfatlas.step import EngineLimits, Load, take_columns
from perfatlas.studies.deployments.choices import EXCHANGE, SETTINGS, SIZES, TOKENS, settings_of
from perfatlas.studies.deployments.launch import divides_prompts, whole_fields
from perfatlas.studies.refusals import refused_by_rule

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from perfatlas.networks import ModelFormats, Network
    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.step import Candidates
    from perfatlas.studies.deployments.question import SearchInputs

    BoolArray = NDArray[np.bool_]


REPLICA: Final = ("tp", "pp", "cp", "attention_dp")
MAX_PLANS: Final = 2_000_000  # of one combination of system, engine and formats: 112 MB
BLOCK: Final = 128.0  # rows and columns of a block of fp8_block weights


def all_plans(
    inputs: SearchInputs, network: Network, *, divides_prompts: bool = False
) -> parallelism.PlanColumns:
    """Return every division of the GPUs into replicas, stages and ranks (U,), legal or not.

    With `gpus` the sizes multiply to it. With `max_gpus` a replica has at most so many, and there
    are as many replicas as fit. Sizes that are given are kept, of listed ones no others are tried.
    """
    free = {"tp", "pp"} | ({"attention_dp"} if network.divides_weights else set())
    free |= {"cp"} if divides_prompts else set()
    if network.item:  # only tokens of a denoiser and tables are divided
        free = {"cp"} if network.divides_denoiser else free & {"attention_dp"}
    rows = _rows(inputs, free, divides_weights=network.divides_weights)
    names = [field.name for field in dataclasses.fields(parallelism.PlanColumns)]
    row = np.dtype((np.float64, len(names)))
    table: FloatArray = np.fromiter(islice(rows, MAX_PLANS + 1), row)
    if len(table) > MAX_PLANS:
        field = "gpus" if inputs.gpus is not None else "max_gpus"
        raise InvalidSpecError(
            f"{inputs.most_gpus:,} GPUs have more than {MAX_PLANS:,} plans, too many for one"
            f" search; set some of {', '.join(sorted(free, key=REPLICA.index))}, or fewer {field}"
        )
    return parallelism.PlanColumns(**{name: table[:, index] for index, name in enumerate(names)})


def _rows(
    inputs: SearchInputs, free: set[str], *, divides_weights: bool
) -> Iterator[tuple[int, ...]]:
    """Yield tp, pp, cp, attention_dp, ep, moe_tp, dp and degrees within others of every plan."""
    exact, replicas = inputs.gpus is not None, inputs.allowed("dp")
    experts = inputs.allowed("ep"), inputs.allowed("moe_tp")
    most = inputs.most_gpus
    sizes = [inputs.allowed(name) or (None if name in free else (1,)) for name in REPLICA]
    degrees = list(product(*(inputs.allowed(name) or (1,) for name in parallelism.DEGREES)))
    for tp, pp, cp, attention_dp in _divisions(sizes, most, exact=exact):
        dp = most // (tp * pp * cp * attention_dp)
        for wanted, within in product(replicas or (dp,), degrees):
            if wanted > dp or (exact and wanted != dp):
                continue
            for ep, moe_tp in _expert_sizes(
                tp * attention_dp, experts, divides_weights=divides_weights
            ):
                yield (tp, pp, cp, attention_dp, ep, moe_tp, wanted, *within)


def _divisions(
    sizes: Sequence[tuple[int, ...] | None], gpus: int, *, exact: bool
) -> Iterator[tuple[int, ...]]:
    """Yield all sizes whose product divides the GPUs, or is at most them.

    Args:
        sizes: The values of each size, None for all.
    """
    if not sizes:
        yield ()
        return
    values, *others = sizes
    for size in _sizes(gpus, exact=exact) if values is None else values:
        if size <= gpus and not (exact and gpus % size):
            for rest in _divisions(others, gpus // size, exact=exact):
                yield (size, *rest)


def _sizes(gpus: int, *, exact: bool) -> Sequence[int]:
    """Return the sizes that divide some GPUs, or all up to them, in ascending order."""
    return [size for size, _ in _divisors(gpus)] if exact else range(1, gpus + 1)


def _expert_sizes(
    ranks: int,
    allowed: tuple[tuple[int, ...] | None, tuple[int, ...] | None],
    *,
    divides_weights: bool,
) -> list[tuple[int, int]]:
    """Return the divisions of the ranks into ep and moe_tp, of which all or some are allowed."""
    own_ep, own_tp = allowed
    if not divides_weights:
        return list(product(own_ep or (1,), own_tp or (ranks,)))
    return [
        (ep, moe_tp)
        for ep, moe_tp in _divisors(ranks)
        if (own_ep is None or ep in own_ep) and (own_tp is None or moe_tp in own_tp)
    ]


@functools.cache
def _divisors(number: int) -> tuple[tuple[int, int], ...]:
    """Return all pairs of sizes whose product is a number, the smallest first size first."""
    small = [n for n in range(1, isqrt(number) + 1) if number % n == 0]
    large = [number // n for n in reversed(small) if n * n != number]
    return tuple((n, number // n) for n in (*small, *large))


def placed_plans(
    base: Candidates, plan: parallelism.PlanColumns, inputs: SearchInputs
) -> parallelism.PlanColumns:
    """Return plans with as many replicas as the nodes hold, where their number is free (U,)."""
    if inputs.gpus is not None or inputs.allowed("dp"):
        return plan
    return replace(plan, dp=np.minimum(plan.dp, _most_replicas(base, plan, inputs.most_gpus)))


def _most_replicas(base: Candidates, plan: parallelism.PlanColumns, gpus: int) -> FloatArray:
    """Return the replicas that the nodes of all GPUs hold (U,)."""
    each, per_node = plan.gpus_per_replica, parallelism.node_gpus(base.placement.systems[0])
    return parallelism.most_replicas(each, per_node, np.full_like(each, gpus))


def refusing_rules(
    base: Candidates, plan: parallelism.PlanColumns, gpus: int
) -> dict[str, BoolArray]:
    """Return the plans that each rule refuses (U,), by its name.

    Source: scale-up domain: vLLM documentation, "Parallelism and Scaling" (tensor parallelism
        inside a node, pipeline parallelism between nodes). Blocks: vLLM 0.24,
        model_executor/layers/quantization/fp8.py, which rejects partitions that are no multiple of
        a block of 128.
    """
    network, formats, engine = base.model.network, base.formats, base.profile.name
    rules = dict(parallelism.plan_rules(network, plan))
    domain = base.placement.systems[0].device.scale_up.domain_size
    rules["tp_within_scale_up_domain"] = plan.tp > domain
    rules["groups_within_nodes"] = parallelism.cuts_groups(
        plan, parallelism.node_gpus(base.placement.systems[0])
    )
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
    network: Network, plan: parallelism.PlanColumns, formats: ModelFormats
) -> Iterator[tuple[float, NDArray[np.float64], str]]:
    """Yield the widths of feed-forward layers, the ranks that divide each, and their format."""
    stored = {"gemm": formats.gemm, "moe": formats.moe}
    for group in network.layers:
        for size in group.divided_sizes:
            if size.weights:
                yield float(size.size), getattr(plan, size.by), stored[size.weights]


# tokens per step beside the engine's default
CHUNKS: Final = (2048.0, 4096.0, 8192.0, 16384.0, 32768.0)
NOT_SHARED: Final = frozenset(("gpus", *SIZES, "concurrency"))
PREFIX: Final = "prefix"
UNSUPPORTED: Final = "supported_by_system_and_engine"
REBALANCED: Final = "eplb_step_interval"
DRAFTS: Final = ("speculative_depth", "speculative_acceptance", "acceptance_by_position")


@dataclass(frozen=True, kw_only=True)
class Family:
    """Candidates that share system, engine and its settings, formats and draft tokens."""

    fields: dict[str, Any]  # Their fields, without plan and load
    base: Candidates  # One of them, resolved
    plan: parallelism.PlanColumns  # Legal plans of all candidates (C,)
    limits: EngineLimits  # Their limits, NaN for the default of the engine (C,)

    @property
    def size(self) -> int:
        """Number of candidates C."""
        return int(self.plan.tp.size)

    @property
    def prefix(self) -> int:
        """Cached tokens of a prompt."""
        return int(self.fields.get(PREFIX) or 0)

    def spread(
        self, rows: IntArray, sequences: FloatArray, lengths: tuple[float, float]
    ) -> Candidates:
        """Return some candidates at loads.

        Args:
            sequences: Sequences of a replica, below 1 where some replicas are idle.
        """
        load = Load(
            occupancy=np.minimum(sequences, 1.0),
            sequences=np.maximum(sequences, 1.0),
            isl=np.full(sequences.shape, lengths[0]),
            osl=np.full(sequences.shape, lengths[1]),
            prefix=np.full(sequences.shape, float(self.prefix)),
            rounds=np.full(sequences.shape, np.nan),
            osl_spread=np.zeros(sequences.shape),
        )
        plan = parallelism.PlanColumns(**take_columns(self.plan, rows))
        limits = EngineLimits(**take_columns(self.limits, rows))
        return spread_candidates(self.base, plan, load, limits)


def families(
    inputs: SearchInputs,
    rejected: Counter[str],
    chunks: tuple[float, ...],
    reasons: set[str],
    *,
    pooled: bool = False,
) -> Iterator[Family]:
    """Yield the candidates of each system, engine, setting, format and number of draft tokens."""
    choices = list(combinations_of(inputs))
    refused = 0
    seen: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for fields in choices:
        try:
            base = _resolved(fields, pooled=pooled)
        except PerfatlasError as error:
            refused += 1
            alone = isinstance(error, InvalidSpecError) and not inputs.listed
            if alone or refused == len(choices):
                raise
            rejected[UNSUPPORTED] += 1
            reasons.add(str(error))
            continue
        shared, exchange = _identity(fields, base)
        if (shared, exchange) in seen:  # fp8 and fp8_dynamic may be one format
            continue
        runs_cp = divides_prompts(base.profile.name, base.model.network)
        plan = all_plans(inputs, base.model.network, divides_prompts=runs_cp)
        if any(shared == earlier for earlier, _ in seen):  # plans without an exchange are known
            plan = parallelism.PlanColumns(
                **take_columns(plan, np.flatnonzero(plan.attention_dp > 1.0))
            )
        seen.append((shared, exchange))
        plan = placed_plans(base, plan, inputs)
        unpriced = bool(inputs.missing_price(fields["system"]))
        rules = {"system_without_price": np.full(plan.tp.shape, unpriced)}
        rules |= refusing_rules(base, plan, inputs.most_gpus)
        if pooled and not base.profile.disaggregation.stages:
            rules["stages_of_pools"] = plan.pp > 1.0
        runs_UK = _distinct_chunks(inputs, fields, base, plan, np.array(chunks))
        is_allowed, counts = refused_by_rule(rules.items(), int(plan.tp.size), runs_UK.sum(axis=1))
        rejected.update(counts)
        rows, chunk = np.nonzero(runs_UK & is_allowed[:, None])
        if rows.size:
            taken = parallelism.PlanColumns(**take_columns(plan, rows))
            limits = _given_limits(inputs, np.array(chunks)[chunk])
            yield Family(fields=fields, base=base, plan=taken, limits=limits)


def _identity(fields: dict[str, Any], base: Candidates) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what distinguishes a family, but for the exchange of tokens, and that exchange.

    That is all of the candidate except what its plans and loads replace, and its sentences.
    """
    profile = dict(vars(base.profile))
    exchange = {name: profile.pop(name) for name in EXCHANGE}
    shared = {n: v for n, v in vars(base).items() if n not in (*SPREAD, "assumptions")}
    return shared | {"profile": profile, PREFIX: fields.get(PREFIX)}, exchange


def combinations_of(inputs: SearchInputs) -> Iterator[dict[str, Any]]:
    """Yield the fields of every combination that is not a plan or a load."""
    set_fields = inputs.given
    shared = {n: v for n, v in set_fields.items() if n in FIELD_NAMES and n not in NOT_SHARED}
    shared |= {"mode": inputs.mode}
    if inputs.accuracy_benchmark is not None:
        shared["benchmark"] = inputs.accuracy_benchmark
    formats = [{"format": text} for text in inputs.formats or ()] or [{}]
    caches = [{"kv_format": kv_format} for kv_format in inputs.kv_formats or ()] or [{}]
    settings = settings_of(inputs.listed, set_fields)
    combined = product(inputs.all_systems, *settings.values(), formats, caches, inputs.depths)
    for system, *values, weights, cache, depth in combined:
        chosen = {n: v for n, v in zip(settings, values, strict=True) if v is not None}
        fields = {n: v for n, v in shared.items() if n not in (*DRAFTS, *SETTINGS)}
        fields |= {**chosen, **weights, **cache, "system": system, **_drafts(inputs, depth)}
        yield from ({**fields, **prefix} for prefix in _prefixes(inputs))


def _drafts(inputs: SearchInputs, depth: int) -> dict[str, Any]:
    """Return the fields of a number of draft tokens."""
    if not depth:
        return {}
    drafts: dict[str, Any] = {"speculative_depth": depth}
    if inputs.speculative_acceptance is not None:
        drafts["speculative_acceptance"] = inputs.speculative_acceptance
    if inputs.acceptance_by_position is not None:
        drafts["acceptance_by_position"] = inputs.acceptance_by_position[:depth]
    return drafts


def _prefixes(inputs: SearchInputs) -> Iterator[dict[str, int]]:
    """Yield the cached part of a prompt, with prefix caching and without, as far as searched."""
    if not inputs.prefix:
        yield {}
        return
    if inputs.prefix_caching is not False:
        yield {PREFIX: inputs.prefix}
    if not inputs.prefix_caching:
        yield {PREFIX: 0}


def _resolved(fields: dict[str, Any], *, pooled: bool) -> Candidates:
    """Return one candidate of a family."""
    exchanges = any(fields.get(name) is not None for name in EXCHANGE)
    # replaced by the plans of the search
    rebalances = fields.get(REBALANCED) is not None
    plan = {"dp": 1} | ({"attention_dp": 2} if exchanges or rebalances else {})
    plan |= {"ep": 2} if rebalances else {}
    question, errors = resolve_scenarios(
        [read_scenario({**fields, **plan})], pooled=pooled, queues=False
    )
    if question is None:
        raise next(error for error in errors if error is not None)
    return question


def of_plan(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a plan, without settings of ranks that it does not have."""

    def several(name: str) -> bool:
        return any((fields.get(f"{pool}{name}") or 1) > 1 for pool in ("", "prefill_", "decode_"))

    left_out = {*(() if several("attention_dp") else EXCHANGE)}
    left_out |= set() if several("ep") else {REBALANCED}
    return {name: value for name, value in fields.items() if name not in left_out}


def chunk_sizes(inputs: SearchInputs) -> tuple[float, ...]:
    """Return the numbers of tokens of a step to search, NaN for the default of the engine."""
    if inputs.of_items:  # one pass holds the batch
        return (np.nan,)
    if inputs.max_num_batched_tokens is not None:
        return (float(inputs.max_num_batched_tokens),)
    listed = inputs.listed.get(TOKENS)
    return (np.nan, *CHUNKS) if listed is None else tuple(float(tokens) for tokens in listed)


def _distinct_chunks(
    inputs: SearchInputs,
    fields: dict[str, Any],
    base: Candidates,
    plan: parallelism.PlanColumns,
    chunks: FloatArray,
) -> NDArray[np.bool_]:
    """Return which tokens of a step each plan has, without the default of the engine twice (U, K).

    The default depends on the attention-data-parallel ranks and the GPUs of a replica.
    """
    if not np.isnan(chunks).any():  # listed ones leave the default out
        return np.ones((plan.tp.size, chunks.size), np.bool_)
    first_G, group_U = unique_rows((plan.attention_dp, plan.gpus_per_replica))
    some = parallelism.PlanColumns(**take_columns(plan, first_G))
    default_G = _limited(inputs, fields, base, some).limits.max_num_batched_tokens
    new_GK: NDArray[np.bool_] = chunks[None, :] != default_G[:, None]  # NaN differs from all
    return new_GK[group_U]


def _limited(
    inputs: SearchInputs, fields: dict[str, Any], base: Candidates, plan: parallelism.PlanColumns
) -> Candidates:
    """Return candidates with one sequence, the engine's tokens of a step and all limits."""
    chunks = np.full(plan.tp.shape, np.nan)
    family = Family(fields=fields, base=base, plan=plan, limits=_given_limits(inputs, chunks))
    rows, ones = np.arange(chunks.size), np.ones(chunks.size)
    return family.spread(rows, ones, inputs.mix.classes.mean)


def _given_limits(inputs: SearchInputs, chunks: FloatArray) -> EngineLimits:
    """Return the limits that are given, NaN for others, and the tokens of a step (C,)."""
    values = {name: getattr(inputs, name, None) for name in LIMITS}
    limits = {
        name: np.full(chunks.shape, np.nan if value is None else float(value))
        for name, value in values.items()
    }
    return EngineLimits(**limits | {"max_num_batched_tokens": chunks})


# columns of candidates that are spread; all else is that of the scenario
SPREAD: Final = ("plan", "load", "limits", "recipe_C")


def spread_candidates(
    base: Candidates, plan: parallelism.PlanColumns, load: Load, limits: EngineLimits
) -> Candidates:
    """Return candidates with the model, engine, formats and system of one resolved scenario.

    Limits that are not given are filled in as for a scenario that states the load.
    """
    moved = replace(base.take([0] * load.isl.size), plan=plan, load=load)
    if base.model.network.item:  # one pass holds the batch
        limits = replace(limits, max_num_batched_tokens=np.ceil(load.sequences / plan.attention_dp))
    limited = LimitedLoad(
        isl=load.isl,
        requests=np.ceil(load.sequences),
        attention_dp=plan.attention_dp,
        dcp=plan.dcp,
        gpus=plan.gpus_per_replica,
        pooled=base.pooled,
    )
    filled, recipe_C = filled_limits(
        limits, base.model.base, base.profile, moved.placement, limited
    )
    return replace(moved, limits=filled, recipe_C=recipe_C)
