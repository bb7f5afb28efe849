"""Rules of layouts: which candidates cannot run, and why.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.training.layouts.layout import distinct_rows
from perfatlas.training.profiles import END_LAYERS
from perfatlas.training.schedules import pipeline_refusals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from perfatlas.networks import DividedSize, Network
    from perfatlas.training.layouts.layout import Layouts


# every pass of a pipeline is a row of its program; published steps have some thousands
MAX_PASSES: Final = 2e6
# sizes of layouts by the fields of plans that divide layers, and experts
_LAYER_SIZES: Final = {"tp": "tp", "cp": "cp"}
_EXPERT_SIZES: Final = {"ep": "ep", "moe_tp": "expert_tp"}


class Problem(NamedTuple):
    """A rule with the candidates that break it."""

    rule: str  # Name of the rule, the same for all candidates
    broken_C: NDArray[np.bool_]  # Whether the layout of a candidate is invalid by the rule (C,)
    sentence: Callable[[int], str]  # Describes the problem of a candidate


def layout_problems(network: Network, layouts: Layouts, schedule: str) -> list[Problem]:
    """Return the rules that some candidates break, each with a message.

    Args:
        layouts: The layouts (C,).
    """
    rules = (
        *_size_rules(network, layouts, _LAYER_SIZES),
        *_batch_rules(layouts),
        *_pipeline_rules(network, layouts, schedule),
        *_expert_rules(network, layouts),
    )
    return [rule for rule in rules if bool(np.any(rule.broken_C))]


def nearest_divisor(number: int, wanted: float) -> int:
    """Return the divisor of a number that is nearest to another number, the smaller of two."""
    divisors = [n for n in range(1, min(number, 65536) + 1) if number % n == 0]
    return min(divisors, key=lambda n: (abs(n - wanted), n))


def _nearest_multiple(wanted: float, of: float) -> int:
    """Return the multiple, at least one, that is nearest to a number."""
    return max(round(wanted / of), 1) * int(of)


def _divides(size: DividedSize, layouts: Layouts, name: str) -> Problem:
    """Return the rule that a size divides a number of the model."""
    sizes_C, whole, what = getattr(layouts, name), size.size, size.noun

    def sentence(at: int) -> str:
        wanted = sizes_C[at]
        return (
            f"{name} = {wanted:g} must divide the {whole:,} {what}; the nearest that does is"
            f" {name} = {nearest_divisor(whole, wanted)}"
        )

    return Problem(
        f"{name}_divides_{what.rsplit(maxsplit=1)[-1]}", np.mod(whole, sizes_C) != 0, sentence
    )


def _size_rules(network: Network, layouts: Layouts, fields: Mapping[str, str]) -> Iterator[Problem]:
    """Yield the rules of the sizes of layers that some fields of a plan divide.

    Args:
        layouts: The layouts (C,).
    """
    for size in network.divided_sizes:
        if size.noun and size.by in fields:
            divides = _divides_or_copies if size.copied else _divides
            yield divides(size, layouts, fields[size.by])


def _divides_or_copies(size: DividedSize, layouts: Layouts, name: str) -> Problem:
    """Return the rule that a size divides a number of the model, or is a multiple of it."""
    sizes_C, whole = getattr(layouts, name), size.size
    return Problem(
        f"{name}_divides_kv_heads",
        ~size.allows(sizes_C),
        lambda at: (
            f"{name} = {sizes_C[at]:g} must divide the {whole} {size.noun} or be a multiple of them"
        ),
    )


def _batch_rules(layouts: Layouts) -> Iterator[Problem]:
    each_C = layouts.dp * layouts.micro_batch

    def batch(at: int) -> str:
        least = each_C[at] * max(round(layouts.global_batch[at] / each_C[at]), 1)
        return (
            f"global_batch = {layouts.global_batch[at]:,.0f} must be a multiple of dp x micro_batch"
            f" = {layouts.dp[at]:,.0f} x {layouts.micro_batch[at]:g}; the nearest is global_batch ="
            f" {least:,.0f}"
        )

    yield Problem("batch_divides", np.mod(layouts.global_batch, each_C) != 0, batch)
    parts_C = np.where(layouts.cp > 1, 2.0 * layouts.cp, 1.0)
    yield Problem(
        "cp_divides_sequence",
        np.mod(layouts.sequence_length, parts_C) != 0,
        lambda at: (
            f"sequence_length = {layouts.sequence_length[at]:,.0f} must be a multiple of 2 x cp ="
            f" {parts_C[at]:g}: each rank holds an early and a late part of the sequence; the"
            " nearest is sequence_length ="
            f" {_nearest_multiple(layouts.sequence_length[at], parts_C[at]):,}"
        ),
    )
    yield Problem(
        "tp_divides_tokens",
        np.mod(layouts.tokens, layouts.token_ranks) != 0,
        lambda at: (
            f"the {layouts.tokens[at]:,.0f} tokens of a micro-batch must be a multiple of tp ="
            f" {layouts.tp[at]:g} with sequence_parallel; set sequence_parallel = false or another"
            " tp"
        ),
    )


def _pipeline_rules(network: Network, layouts: Layouts, schedule: str) -> Iterator[Problem]:
    layers = network.num_layers
    chunks_C = layouts.pp * layouts.vpp
    yield Problem(
        "stages_within_layers",
        chunks_C > layers + END_LAYERS,
        lambda at: (
            f"pp x vpp = {layouts.pp[at]:g} x {layouts.vpp[at]:g} chunks need as many layers, and"
            f" the model has {layers}; the largest vpp is {max(layers // int(layouts.pp[at]), 1)}"
            if layouts.pp[at] <= layers
            else f"pp = {layouts.pp[at]:g} stages need as many layers, and the model has {layers};"
            f" the largest is pp = {layers}"
        ),
    )
    whole_C = np.maximum(np.round(layouts.micro_batches), 1.0)
    passes_C = chunks_C * whole_C
    yield Problem(
        "passes_within_limit",
        passes_C > MAX_PASSES,
        lambda at: (
            f"{layouts.micro_batches[at]:,.0f} micro-batches through pp x vpp = {chunks_C[at]:g}"
            f" stages are {passes_C[at]:,.0f} forward passes, and at most {MAX_PASSES:,.0f} are"
            " scheduled;"
            " lower global_batch, or raise micro_batch or dp"
        ),
    )
    whole_C = np.minimum(whole_C, MAX_PASSES)
    sizes_C3 = np.stack([layouts.pp, whole_C, layouts.vpp], axis=1).astype(np.int64)
    first_D, index_C = distinct_rows(sizes_C3)
    reasons = pipeline_refusals([schedule] * len(first_D), *sizes_C3[first_D].T)
    refused_D = np.array([bool(reason) for reason in reasons])
    yield Problem(
        "schedule",
        refused_D[index_C],
        lambda at: reasons[index_C[at]] + _nearest_batch(layouts, schedule, at),
    )


def _nearest_batch(layouts: Layouts, schedule: str, at: int) -> str:
    """Return the nearest batch that a schedule runs on a layout, "" where batches do not decide."""
    asked, ranks = int(layouts.micro_batches[at]), int(layouts.pp[at])
    counts_N = np.arange(max(asked - 2 * ranks, 1), asked + 2 * ranks + 1)
    sizes = (np.full_like(counts_N, ranks), counts_N, np.full_like(counts_N, layouts.vpp[at]))
    refusals = pipeline_refusals([schedule] * counts_N.size, *sizes)
    runs = [int(count) for count, why in zip(counts_N, refusals, strict=True) if not why]
    if not runs:
        return ""
    nearest = min(runs, key=lambda count: (abs(count - asked), count))
    batch = nearest * layouts.dp[at] * layouts.micro_batch[at]
    return f"; the nearest is global_batch = {batch:,.0f}"


def _table_rules(network: Network, layouts: Layouts) -> Iterator[Problem]:
    """Yield the rules of embedding tables, which all data-parallel ranks divide."""
    ways_C = layouts.ep * layouts.expert_tp
    yield Problem(
        "tables_on_all_ranks",
        ways_C != layouts.dp,
        lambda at: (
            f"ep x expert_tp = {layouts.ep[at]:g} x {layouts.expert_tp[at]:g} must equal dp ="
            f" {layouts.dp[at]:,.0f}: all ranks divide the embedding tables, ep by table and"
            " expert_tp by row"
        ),
    )
    yield Problem(
        "ep_within_tables",
        layouts.ep > network.tables,
        lambda at: (
            f"ep = {layouts.ep[at]:g}: the model has {network.tables} embedding tables; ep is at"
            f" most {network.tables}, and expert_tp divides their rows"
        ),
    )


def _expert_rules(network: Network, layouts: Layouts) -> Iterator[Problem]:
    if network.tables:
        yield from _table_rules(network, layouts)
        return
    if not network.has_experts:
        yield Problem(
            "dense_without_ep",
            (layouts.ep > 1) | (layouts.expert_tp > 1),
            lambda at: (
                f"ep = {layouts.ep[at]:g} and expert_tp = {layouts.expert_tp[at]:g} apply to MoE"
                " models; this model is dense"
            ),
        )
        return
    yield from _size_rules(network, layouts, _EXPERT_SIZES)
    ranks_C = layouts.tp * layouts.cp * layouts.dp
    yield Problem(
        "experts_divide_ranks",
        np.mod(ranks_C, layouts.ep * layouts.expert_tp) != 0,
        lambda at: (
            f"ep x expert_tp = {layouts.ep[at]:g} x {layouts.expert_tp[at]:g} must divide the"
            f" {ranks_C[at]:,.0f} ranks of a stage (tp x cp x dp)"
        ),
    )
