"""Rules of layouts: which candidates cannot run, and why.

Shape legend: C candidates.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.quantities import Rule
from perfatlas.training.layouts.layout import Layouts, take_layouts
from perfatlas.training.profiles import END_LAYERS
from perfatlas.training.schedules import PipelineSize, find_schedule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perfatlas.networks import DividedSize, Network
    from perfatlas.operators import FloatArray


# every pass of a pipeline is a row of its program; published steps have some thousands
MAX_PASSES: Final = 2e6
# sizes of layouts by the fields of plans that divide layers, and experts
_LAYER_SIZES: Final = {"tp": "tp", "cp": "cp"}
_EXPERT_SIZES: Final = {"ep": "ep", "moe_tp": "expert_tp"}


def layout_rules(network: Network, schedule: str) -> list[Rule[Layouts]]:
    """Return the rules of the layouts of a network and a pipeline schedule."""
    rules = [
        *_size_rules(network, _LAYER_SIZES),
        *BATCHES,
        *_pipeline_rules(network.num_layers, schedule),
    ]
    if network.tables:
        whole = Rule[Layouts](
            lambda c: c.ep > network.tables,
            f"ep = {{ep:g}}: the model has {network.tables} embedding tables; ep is at most"
            f" {network.tables}, and expert_tp divides their rows",
            name="ep_within_tables",
        )
        return [*rules, TABLES, whole]
    if network.has_experts:
        return [*rules, *_size_rules(network, _EXPERT_SIZES), EXPERTS]
    return [*rules, DENSE]


def nearest_divisor(number: int, wanted: float) -> int:
    """Return the divisor of a number that is nearest to another number, the smaller of two."""
    divisors = [n for n in range(1, min(number, 65536) + 1) if number % n == 0]
    return min(divisors, key=lambda n: (abs(n - wanted), n))


def _nearest_multiple(wanted: float, of: float) -> int:
    """Return the multiple, at least one, that is nearest to a number."""
    return max(round(wanted / of), 1) * int(of)


def _size_rules(network: Network, fields: Mapping[str, str]) -> Iterator[Rule[Layouts]]:
    """Yield the rules of the sizes of layers that some fields of a plan divide."""
    for size in network.divided_sizes:
        if size.noun and size.by in fields:
            name = fields[size.by]
            label = "kv_heads" if size.copied else size.noun.rsplit(maxsplit=1)[-1]
            yield Rule(
                partial(lambda size, name, c: ~size.allows(getattr(c, name)), size, name),
                partial(_size_message, size, name),
                name=f"{name}_divides_{label}",
            )


def _size_message(size: DividedSize, name: str, layouts: Layouts, row: int) -> str:
    wanted, whole = getattr(layouts, name)[row], size.size
    if size.copied:
        return f"{name} = {wanted:g} must divide the {whole} {size.noun} or be a multiple of them"
    return (
        f"{name} = {wanted:g} must divide the {whole:,} {size.noun}; the nearest that does is"
        f" {name} = {nearest_divisor(whole, wanted)}"
    )


def _batch_message(layouts: Layouts, row: int) -> str:
    each = layouts.dp[row] * layouts.micro_batch[row]
    return (
        f"global_batch = {layouts.global_batch[row]:,.0f} must be a multiple of dp x micro_batch ="
        f" {layouts.dp[row]:,.0f} x {layouts.micro_batch[row]:g}; the nearest is global_batch ="
        f" {_nearest_multiple(layouts.global_batch[row], each):,}"
    )


def _sequence_parts(layouts: Layouts) -> FloatArray:
    """Return the parts of a sequence that context-parallel ranks divide (C,)."""
    return np.where(layouts.cp > 1, 2.0 * layouts.cp, 1.0)


def _sequence_message(layouts: Layouts, row: int) -> str:
    length, parts = layouts.sequence_length[row], _sequence_parts(layouts)[row]
    return (
        f"sequence_length = {length:,.0f} must be a multiple of 2 x cp = {parts:g}: each rank holds"
        " an early and a late part of the sequence; the nearest is sequence_length ="
        f" {_nearest_multiple(length, parts):,}"
    )


BATCHES: Final[tuple[Rule[Layouts], ...]] = (
    Rule(
        lambda c: np.mod(c.global_batch, c.dp * c.micro_batch) != 0,
        _batch_message,
        name="batch_divides",
    ),
    Rule(
        lambda c: np.mod(c.sequence_length, _sequence_parts(c)) != 0,
        _sequence_message,
        name="cp_divides_sequence",
    ),
    Rule(
        lambda c: np.mod(c.tokens, c.token_ranks) != 0,
        "the {tokens:,.0f} tokens of a micro-batch must be a multiple of tp = {tp:g} with"
        " sequence_parallel",
        "set sequence_parallel = false or another tp",
        name="tp_divides_tokens",
    ),
)
TABLES: Final = Rule[Layouts](
    lambda c: c.ep * c.expert_tp != c.dp,
    "ep x expert_tp = {ep:g} x {expert_tp:g} must equal dp = {dp:,.0f}: all ranks divide the"
    " embedding tables, ep by table and expert_tp by row",
    name="tables_on_all_ranks",
)
DENSE: Final = Rule[Layouts](
    lambda c: (c.ep > 1) | (c.expert_tp > 1),
    "ep = {ep:g} and expert_tp = {expert_tp:g} apply to MoE models; this model is dense",
    name="dense_without_ep",
)
EXPERTS: Final = Rule[Layouts](
    lambda c: np.mod(c.stage_ranks, c.ep * c.expert_tp) != 0,
    "ep x expert_tp = {ep:g} x {expert_tp:g} must divide the {stage_ranks:,.0f} ranks of a stage"
    " (tp x cp x dp)",
    name="experts_divide_ranks",
)


def _pipelines(layouts: Layouts, schedule: str) -> PipelineSize:
    """Return the sizes of the pipelines of layouts."""
    counts_C = np.clip(np.round(layouts.micro_batches), 1.0, MAX_PASSES)
    sizes = (layouts.pp, counts_C, layouts.vpp)
    return PipelineSize(schedule, *(size_C.astype(np.int64) for size_C in sizes))


def _pipeline_rules(layers: int, schedule: str) -> Iterator[Rule[Layouts]]:
    """Yield the rules of pipelines of some layers."""
    most = layers + END_LAYERS
    yield Rule(
        lambda c: c.pp * c.vpp > most, partial(_chunks_message, layers), name="stages_within_layers"
    )
    yield Rule(lambda c: _passes(c) > MAX_PASSES, _passes_message, name="passes_within_limit")
    for rule in find_schedule(schedule).rules:
        yield Rule(
            partial(lambda rule, c: rule.applies(_pipelines(c, schedule)), rule),
            partial(_schedule_message, rule, schedule),
            name="schedule",
        )


def _chunks_message(layers: int, layouts: Layouts, row: int) -> str:
    stages, chunks = layouts.pp[row], layouts.vpp[row]
    if stages > layers:
        return (
            f"pp = {stages:g} stages need as many layers, and the model has {layers}; the largest"
            f" is pp = {layers}"
        )
    return (
        f"pp x vpp = {stages:g} x {chunks:g} chunks need as many layers, and the model has"
        f" {layers}; the largest vpp is {max(layers // int(stages), 1)}"
    )


def _passes(layouts: Layouts) -> FloatArray:
    """Return the forward passes of a pipeline per step (C,)."""
    passes_C: FloatArray = layouts.pp * layouts.vpp * np.maximum(np.round(layouts.micro_batches), 1)
    return passes_C


def _passes_message(layouts: Layouts, row: int) -> str:
    return (
        f"{layouts.micro_batches[row]:,.0f} micro-batches through pp x vpp ="
        f" {layouts.pp[row] * layouts.vpp[row]:g} stages are {_passes(layouts)[row]:,.0f} forward"
        f" passes, and at most {MAX_PASSES:,.0f} are scheduled; lower global_batch, or raise"
        " micro_batch or dp"
    )


def _schedule_message(rule: Rule[PipelineSize], schedule: str, layouts: Layouts, row: int) -> str:
    """Return why a schedule does not run, with the nearest batch that runs if batches decide."""
    one = take_layouts(layouts, np.array([row]))
    why = str(rule.broken_by(_pipelines(one, schedule), 0))
    micro_batches, ranks = int(one.micro_batches[0]), int(one.pp[0])
    counts_N = np.arange(max(micro_batches - 2 * ranks, 1), micro_batches + 2 * ranks + 1)
    ranks_N, chunks_N = np.full_like(counts_N, ranks), np.full_like(counts_N, one.vpp[0])
    sizes = PipelineSize(schedule, ranks_N, counts_N, chunks_N)
    rules = find_schedule(schedule).rules
    runs = counts_N[~np.logical_or.reduce([rule.refused(sizes) for rule in rules])].tolist()
    if not runs:
        return why
    nearest = min(runs, key=lambda count: (abs(count - micro_batches), count))
    batch = nearest * one.dp[0] * one.micro_batch[0]
    return f"{why}; the nearest is global_batch = {batch:,.0f}"
