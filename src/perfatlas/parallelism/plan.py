"""Parallelism plans: the sizes that divide a replica, and the rules for legal plans.

Shape legend: C candidates. Rank order: tp innermost (stride 1), then attention_dp, cp, pp and the
replicas (dp); of cp, ranks that exchange heads, then those of a ring, then groups of guidance. The
tp x attention_dp ranks hold the experts as ep groups of moe_tp ranks, with moe_tp innermost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perfatlas.networks import DividedSize, Network
    from perfatlas.operators import FloatArray

BoolArray = NDArray[np.bool_]
Size = TypeVar("Size", int, float, "FloatArray")
IN_REPLICA: Final = ("tp", "attention_dp", "cp", "pp")  # sizes that multiply to its GPUs
WITHIN_CONTEXT: Final = ("ring_degree", "guidance_degree")  # sizes that divide cp
DEGREES: Final = (*WITHIN_CONTEXT, "dcp")  # sizes that divide others and add no GPUs
_MAX_WAYS: Final = 65536  # limit of the search for the nearest valid size


@dataclass(frozen=True, kw_only=True)
class PlanColumns:
    """The plans of C candidates; every field is an integer-valued column (C,)."""

    tp: FloatArray  # Tensor-parallel ranks
    pp: FloatArray  # Pipeline stages
    cp: FloatArray  # Context-parallel ranks of prefill
    attention_dp: FloatArray  # Attention data-parallel ranks inside a replica
    ep: FloatArray  # Expert-parallel ranks; ep x moe_tp = tp x attention_dp
    moe_tp: FloatArray  # Tensor-parallel ranks inside an expert
    dp: FloatArray  # Replicas, each with its own requests
    ring_degree: FloatArray  # Context-parallel ranks among which keys and values rotate
    # Context-parallel ranks that divide the passes with and without a prompt. The other
    # cp / (ring_degree x guidance_degree) exchange heads
    guidance_degree: FloatArray
    # Tensor-parallel ranks over which the cached keys of a sequence are striped (decode context
    # parallelism)
    dcp: FloatArray

    @property
    def gpus_per_replica(self) -> FloatArray:
        """Return GPUs per replica (C,)."""
        return gpus_of_sizes(vars(self))

    @property
    def ranks(self) -> FloatArray:
        """Return GPUs of all replicas (C,)."""
        return self.gpus_per_replica * self.dp


def gpus_of_sizes(sizes: Mapping[str, Size]) -> Size:
    """Return the GPUs of a replica or worker with sizes, which are numbers or columns (C,).

    Args:
        sizes: Sizes by name; those that are missing are 1.

    Example:
        >>> from perfatlas.parallelism import gpus_of_sizes
        >>> gpus_of_sizes({"tp": 8, "pp": 2, "dp": 3})
        16
    """
    return cast("Size", math.prod(sizes.get(name, 1) for name in IN_REPLICA))


def default_moe_split(
    tp: FloatArray, attention_dp: FloatArray, ep: FloatArray, moe_tp: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return (ep, moe_tp) with defaults filled in, each (C,).

    Args:
        tp: Tensor-parallel ranks (C,).
        attention_dp: Attention data-parallel ranks (C,).
        ep: Expert-parallel ranks, NaN if unset (C,).
        moe_tp: Expert-tensor ranks, NaN if unset (C,).

    Returns:
        Values that are set, unchanged; a missing one is tp x attention_dp over the other (1 if it
        does not divide, which violates the product rule); with neither set, ep = 1 and every
        expert is divided over the whole group.

    Source: vLLM documentation, "Expert Parallel Deployment": experts are tensor-parallel over
        tp x dp ranks unless expert parallelism is enabled.

    Example:
        >>> import numpy as np
        >>> from perfatlas.parallelism import default_moe_split
        >>> nan, eight, one = np.array([np.nan]), np.array([8.0]), np.array([1.0])
        >>> [float(x[0]) for x in default_moe_split(eight, one, nan, nan)]
        [1.0, 8.0]
    """
    group = tp * attention_dp
    no_ep, no_moe_tp = np.isnan(ep), np.isnan(moe_tp)
    divisor = np.where((moe_tp > 0) & (np.mod(group, moe_tp) == 0), moe_tp, group)
    filled_ep = np.where(no_ep, np.where(no_moe_tp, 1.0, group / divisor), ep)
    divisor = np.where((filled_ep > 0) & (np.mod(group, filled_ep) == 0), filled_ep, group)
    return filled_ep, np.where(no_moe_tp, group / divisor, moe_tp)


class _Rule(NamedTuple):
    """The candidates that violate a rule (C,), the message for one of them, and its name."""

    broken: BoolArray
    sentence: Callable[[int], str]
    name: str


def plan_problems(network: Network, plan: PlanColumns) -> list[str | None]:
    """Return, per candidate, the first rule that its plan violates as a message, or None.

    Args:
        plan: The plans (C,).

    Returns:
        C entries.

    Limits: Engines that pad heads to support a tp are not modeled, and block-scaled formats whose
        blocks do not divide with the layer are accepted. Vocabulary rows are padded by every
        engine, so no rule applies to them.

    Example:
        >>> import numpy as np
        >>> from perfatlas.networks import Architecture, DenseFfn, GqaAttention, LayerGroup
        >>> from perfatlas.parallelism import PlanColumns, plan_problems
        >>> mixer = GqaAttention(num_heads=64, num_kv_heads=8, head_dim=128, value_head_dim=128)
        >>> layer = LayerGroup(count=80, mixer=mixer, ffn=DenseFfn(intermediate_size=28672))
        >>> llama = Architecture(model_type="llama", hidden_size=8192, vocab_size=128256,
        ...     tie_word_embeddings=False, layers=(layer,))
        >>> one = np.ones(2)
        >>> plan = PlanColumns(tp=np.array([8.0, 12.0]), pp=one, cp=one, attention_dp=one, ep=one,
        ...     moe_tp=one, dp=one, ring_degree=one,
        ...     guidance_degree=one, dcp=one)
        >>> plan_problems(llama, plan)[1]
        'tp = 12: num_heads = 64 must be divisible by tp; nearest valid tp: 8 or 16'
    """
    problems: list[str | None] = [None] * len(plan.tp)
    whole = _not_whole(plan)
    _note(problems, whole)
    safe = _sanitised(plan, np.logical_or.reduce([rule.broken for rule in whole]))
    _note(problems, _size_rules(network, safe))
    _note(problems, _layer_rules(network, safe))
    return problems


def plan_rules(network: Network, plan: PlanColumns) -> dict[str, BoolArray]:
    """Return the candidates whose plan violates each rule (C,), by the name of the rule.

    Args:
        plan: The plans (C,), of positive integers.

    Example:
        >>> import numpy as np
        >>> from perfatlas.networks import resolve_model
        >>> from perfatlas.parallelism import PlanColumns, plan_rules
        >>> one = np.ones(2)
        >>> plan = PlanColumns(tp=np.array([8.0, 12.0]), pp=one, cp=one, attention_dp=one, ep=one,
        ...     moe_tp=one, dp=one, ring_degree=one,
        ...     guidance_degree=one, dcp=one)
        >>> llama = resolve_model("meta-llama/Llama-3.1-8B").network
        >>> plan_rules(llama, plan)["tp_divides_num_heads"].tolist()
        [False, True]
    """
    rules = [*_size_rules(network, plan), *_layer_rules(network, plan)]
    broken: dict[str, BoolArray] = {}
    for rule in rules:  # layers of several kinds may have rules of one name
        broken[rule.name] = broken.get(rule.name, False) | rule.broken
    return broken


def _note(problems: list[str | None], rules: list[_Rule]) -> None:
    for rule in rules:
        for index in np.flatnonzero(rule.broken).tolist():
            if problems[index] is None:
                problems[index] = rule.sentence(index)


def _not_whole(plan: PlanColumns) -> list[_Rule]:
    """Return one rule per field: it is a positive integer."""

    def rule(name: str, column: FloatArray) -> _Rule:
        broken = ~(np.isfinite(column) & (column >= 1.0) & (column == np.floor(column)))
        return _Rule(
            broken,
            lambda i: f"{name} = {column[i]:g}: must be a positive integer, 1 or more",
            f"{name}_is_a_positive_integer",
        )

    return [rule(field.name, getattr(plan, field.name)) for field in fields(plan)]


def _sanitised(plan: PlanColumns, broken: BoolArray) -> PlanColumns:
    """Return the plan with 1 in all invalid candidates, so that remainders are defined."""
    return PlanColumns(
        **{f.name: np.where(broken, 1.0, getattr(plan, f.name)) for f in fields(plan)}
    )


def _size_rules(network: Network, plan: PlanColumns) -> list[_Rule]:
    """Return the rules between the sizes of the plan and the model."""
    recurrent = any(group.is_recurrent for group in network.layers)
    layers = network.num_layers
    rules = [
        *_whole_graph(network, plan),
        *_denoiser_rules(network, plan),
        _Rule(
            plan.pp > layers,
            lambda i: f"pp = {plan.pp[i]:g}: the model has {layers} layers; pp is at most {layers}",
            "pp_within_layers",
        ),
    ]
    rules += _striping_rules(network, plan)
    if recurrent:
        rules.append(
            _Rule(
                plan.cp > 1,
                lambda i: (
                    f"cp = {plan.cp[i]:g}: recurrent mixers process tokens sequentially and cannot"
                    " be divided along the sequence; use cp = 1"
                ),
                "recurrent_mixers_without_cp",
            )
        )
    if network.images is not None:
        rules.append(
            _Rule(
                plan.pp > 1,
                lambda i: (
                    f"pp = {plan.pp[i]:g}: the first stage alone encodes images, which is not"
                    " modeled; use pp = 1, or set images = 0"
                ),
                "images_without_pp",
            )
        )
    experts = [group.experts for group in network.layers if group.experts is not None]
    if any(expert.redundant_experts for expert in experts):
        rules.append(
            _Rule(
                plan.ep == 1,
                lambda _: (
                    "redundant_experts balance the loads of expert-parallel ranks, and ep = 1; set"
                    " ep, or leave redundant_experts out"
                ),
                "redundant_experts_with_ep",
            )
        )
    if network.tables:
        why = "all ranks hold tables"
        return [*rules, *_moe_rules(plan, why), _tables(network, plan)]
    return rules + (_moe_rules(plan) if experts else _dense_rules(plan, network))


def _striping_rules(network: Network, plan: PlanColumns) -> list[_Rule]:
    """Return the rules of the ranks that stripe cached keys, which would otherwise repeat them.

    Source: vllm-project/vllm, config/parallel.py (tp_size must be divisible by dcp_size) and
        config/model.py, verify_with_parallel_config; SGLang documentation, "Decode Context
        Parallelism": a group lies inside the tensor-parallel ranks of an attention-DP replica.
    """
    dcp, tp = plan.dcp, plan.tp
    heads = max((size.size for size in network.divided_sizes if size.copied), default=1)
    whole = not any(layout.striped for layout in network.cache_layouts(1.0))
    each = f"num_kv_heads x dcp = {heads} x " if heads > 1 else "dcp = "
    return [
        _Rule(
            (dcp > 1) & whole,
            lambda i: f"dcp = {dcp[i]:g}: no layer caches keys of all tokens; use dcp = 1",
            "dcp_of_cached_keys",
        ),
        _Rule(
            (dcp > 1) & (np.mod(tp, heads * dcp) != 0),
            lambda i: (
                f"dcp = {dcp[i]:g}: tp = {tp[i]:g} must be a multiple of {each}{dcp[i]:g}, as only"
                " ranks with copies of the same keys can stripe them"
            ),
            "dcp_divides_copies_of_keys",
        ),
        _Rule(
            (dcp > 1) & (plan.cp > 1),
            lambda i: (
                f"dcp = {dcp[i]:g} with cp = {plan.cp[i]:g}: striped keys of divided prompts are"
                " not modeled; use cp = 1, or dcp = 1"
            ),
            "dcp_without_cp",
        ),
    ]


def _denoiser_rules(network: Network, plan: PlanColumns) -> list[_Rule]:
    """Return the rules of the ranks of a denoiser that do not exchange heads."""
    ring, passes, cp = plan.ring_degree, plan.guidance_degree, plan.cp
    most = 2.0 if network.guided else 1.0
    rules = [
        _Rule(
            passes > most,
            lambda i: (
                f"guidance_degree = {passes[i]:g}: only the passes of a denoiser with a prompt and"
                f" without are divided; guidance_degree is at most {most:g}"
            ),
            "guidance_degree_within_passes",
        ),
        _Rule(
            np.mod(cp, passes) != 0,
            lambda i: f"guidance_degree = {passes[i]:g}: must divide cp = {cp[i]:g}",
            "guidance_degree_divides_cp",
        ),
        _Rule(
            cp / passes > network.denoiser_tokens,
            lambda i: (
                f"cp = {cp[i]:g}: the denoiser has {network.denoiser_tokens:,.0f} tokens, and"
                " each GPU needs one"
            ),
            "cp_within_tokens",
        ),
    ]
    if not network.divides_denoiser:
        return [
            *rules,
            _Rule(
                ring > 1,
                lambda i: (
                    f"ring_degree = {ring[i]:g}: only a denoiser that is a transformer is divided"
                    " by ring attention; leave ring_degree out"
                ),
                "ring_degree_of_denoisers",
            ),
        ]

    def sentence(i: int) -> str:
        remaining = cp[i] / passes[i]
        by = "cp / guidance_degree" if passes[i] > 1 else "cp"
        degrees = np.arange(1.0, min(remaining, _MAX_WAYS) + 1.0)
        nearest = _on_both_sides(degrees[np.mod(remaining, degrees) == 0], ring[i])
        return (
            f"ring_degree = {ring[i]:g}: must divide {by} = {remaining:g}, whose other ranks"
            f" exchange heads; nearest valid ring_degree: {nearest}"
        )

    return [*rules, _Rule(np.mod(cp, ring * passes) != 0, sentence, "ring_degree_divides_cp")]


def _tables(network: Network, plan: PlanColumns) -> _Rule:
    """Return the rule that each group of ranks holds a table."""
    return _Rule(
        plan.ep > network.tables,
        lambda i: (
            f"ep = {plan.ep[i]:g}: {network.model_type} has {network.tables} embedding tables; ep"
            f" is at most {network.tables}, and moe_tp divides their rows"
        ),
        "ep_within_tables",
    )


def _moe_rules(
    plan: PlanColumns, why: str = "attention and experts use the same ranks"
) -> list[_Rule]:
    group = plan.tp * plan.attention_dp

    def sentence(i: int) -> str:
        return (
            f"tp x attention_dp = {plan.tp[i]:g} x {plan.attention_dp[i]:g} = {group[i]:g} must"
            f" equal ep x moe_tp = {plan.ep[i]:g} x {plan.moe_tp[i]:g} ="
            f" {plan.ep[i] * plan.moe_tp[i]:g}; {why}"
        )

    return [_Rule(group != plan.ep * plan.moe_tp, sentence, "experts_on_the_ranks_of_attention")]


def _dense_rules(plan: PlanColumns, network: Network) -> list[_Rule]:
    without = "a graph without embedding tables" if network.item else "the model is dense"
    return [
        _Rule(
            plan.ep > 1,
            lambda i: f"ep = {plan.ep[i]:g}: {without}; use ep = 1",
            "dense_without_ep",
        ),
        _Rule(
            plan.attention_dp > 1,
            lambda i: (
                f"attention_dp = {plan.attention_dp[i]:g}: in a dense model it only replicates the"
                f" weights; use dp = {plan.attention_dp[i]:g} instead"
            ),
            "dense_without_attention_dp",
        ),
        _Rule(
            (plan.moe_tp > 1) & (plan.moe_tp != plan.tp),
            lambda i: f"moe_tp = {plan.moe_tp[i]:g}: {without}; leave moe_tp out",
            "dense_without_moe_tp",
        ),
    ]


def _whole_graph(network: Network, plan: PlanColumns) -> list[_Rule]:
    """Return the rules of the sizes that do not divide a graph of operators."""
    if not network.item:
        return []
    denoiser = network.divides_denoiser
    instead = ", or cp for ranks that share its denoiser" if denoiser else ""
    instead = ", or attention_dp for ranks that share its tables" if network.tables else instead
    why = {by: f"graphs of operators are not divided by {by}" for by in ("tp", "pp")}
    ways = {by: getattr(plan, by) for by in why}
    if not denoiser:
        why["cp"] = "only a denoiser that is a transformer is divided by cp"
        ways["cp"] = plan.cp / plan.guidance_degree

    def rule(by: str) -> _Rule:
        size = getattr(plan, by)

        def sentence(i: int) -> str:
            copies = f"set dp = {size[i]:g} for copies{instead}"
            return f"{by} = {size[i]:g}: {why[by]}; {copies}, and leave {by} out"

        return _Rule(ways[by] > 1, sentence, f"{by}_of_graphs")

    return [rule(by) for by in why]


def _layer_rules(network: Network, plan: PlanColumns) -> list[_Rule]:
    """Return the divisibility rules of all kinds of layers, without duplicates."""
    sizes = network.divided_sizes
    return [_divides(size, list(sizes), plan) for size in sizes]


def _divides(size: DividedSize, all_sizes: list[DividedSize], plan: PlanColumns) -> _Rule:
    """Return the rule of one size; its advice considers all sizes that the field divides."""
    ranks = getattr(plan, size.by)
    others = plan.ring_degree * plan.guidance_degree if size.by == "cp" else np.ones_like(ranks)
    column = ranks / others

    def sentence(i: int) -> str:
        degrees = [name for name in WITHIN_CONTEXT if getattr(plan, name)[i] > 1]
        by = " / ".join([size.by, *degrees]) if others[i] > 1 else size.by
        copies = f", or {by} a multiple of it so that heads are replicated evenly"
        nearest = _nearest(all_sizes, size.by, float(column[i]))
        return (
            f"{by} = {column[i]:g}: {size.label} = {size.size} must be divisible by {by}"
            f"{copies if size.copied else ''}; nearest valid {by}: {nearest}"
        )

    label = size.label.lower().replace(" ", "_").replace("-", "_")
    return _Rule(~size.allows(column), sentence, f"{size.by}_divides_{label}")


def _nearest(sizes: list[DividedSize], by: str, value: float) -> str:
    """Return the nearest valid values of a plan field on both sides, as "8 or 16"."""
    bound = min(_MAX_WAYS, *(size.size for size in sizes if size.by == by and not size.copied))
    ways = np.arange(1.0, bound + 1.0)
    valid = ways[np.logical_and.reduce([size.allows(ways) for size in sizes if size.by == by])]
    return _on_both_sides(valid, value)


def _on_both_sides(valid: FloatArray, value: float) -> str:
    """Return the values next to another one, as "8 or 16"."""
    chosen = np.concatenate([valid[valid < value][-1:], valid[valid > value][:1]])
    return " or ".join(f"{way:g}" for way in chosen)
