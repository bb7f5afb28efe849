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

    def sentence(i: int) -> str:
        wanted = sizes_C[i]
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
        lambda i: (
            f"{name} = {sizes_C[i]:g} must divide the {whole} {size.noun} or be a multiple of them"
        ),
    )


def _batch_rules(layouts: Layouts) -> Iterator[Problem]:
    each_C = layouts.dp * layouts.micro_batch

    def batch(i: int) -> str:
        least = each_C[i] * max(round(layouts.global_batch[i] / each_C[i]), 1)
        return (
            f"global_batch = {layouts.global_batch[i]:,.0f} must be a multiple of dp x micro_batch"
            f" = {layouts.dp[i]:,.0f} x {layouts.micro_batch[i]:g}; the nearest is global_batch ="
            f" {least:,.0f}"
        )

    yield Problem("batch_divides", np.mod(layouts.global_batch, each_C) != 0, batch)
    parts_C = np.where(layouts.cp > 1, 2.0 * layouts.cp, 1.0)
    yield Problem(
        "cp_divides_sequence",
        np.mod(layouts.sequence_length, parts_C) != 0,
        lambda i: (
            f"sequence_length = {layouts.sequence_length[i]:,.0f} must be a multiple of 2 x cp ="
            f" {parts_C[i]:g}: each rank holds an early and a late part of the sequence; the"
            " nearest is sequence_length ="
            f" {_nearest_multiple(layouts.sequence_length[i], parts_C[i]):,}"
        ),
    )
    yield Problem(
        "tp_divides_tokens",
        np.mod(layouts.tokens, layouts.token_ranks) != 0,
        lambda i: (
            f"the {layouts.tokens[i]:,.0f} tokens of a micro-batch must be a multiple of tp ="
            f" {layouts.tp[i]:g} with sequence_parallel; set sequence_parallel = false or another"
            " tp"
        ),
    )


def _pipeline_rules(network: Network, layouts: Layouts, schedule: str) -> Iterator[Problem]:
    layers = network.num_layers
    chunks_C = layouts.pp * layouts.vpp
    yield Problem(
        "stages_within_layers",
        chunks_C > layers + END_LAYERS,
        lambda i: (
            f"pp x vpp = {layouts.pp[i]:g} x {layouts.vpp[i]:g} chunks need as many layers, and"
            f" the model has {layers}; the largest vpp is {max(layers // int(layouts.pp[i]), 1)}"
            if layouts.pp[i] <= layers
            else f"pp = {layouts.pp[i]:g} stages need as many layers, and the model has {layers};"
            f" the largest is pp = {layers}"
        ),
    )
    whole_C = np.maximum(np.round(layouts.micro_batches), 1.0)
    passes_C = chunks_C * whole_C
    yield Problem(
        "passes_within_limit",
        passes_C > MAX_PASSES,
        lambda i: (
            f"{layouts.micro_batches[i]:,.0f} micro-batches through pp x vpp = {chunks_C[i]:g}"
            f" stages are {passes_C[i]:,.0f} forward passes, and at most {MAX_PASSES:,.0f} are"
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
        lambda i: reasons[index_C[i]] + _nearest_batch(layouts, schedule, i),
    )


def _nearest_batch(layouts: Layouts, schedule: str, i: int) -> str:
    """Return the nearest batch that a schedule runs on a layout, "" where batches do not decide."""
    micro_batches, ranks = int(layouts.micro_batches[i]), int(layouts.pp[i])
    counts_N = np.arange(max(micro_batches - 2 * ranks, 1), micro_batches + 2 * ranks + 1)
    sizes = (np.full_like(counts_N, ranks), counts_N, np.full_like(counts_N, layouts.vpp[i]))
    refusals = pipeline_refusals([schedule] * counts_N.size, *sizes)
    runs = [int(count) for count, why in zip(counts_N, refusals, strict=True) if not why]
    if not runs:
        return ""
    nearest = min(runs, key=lambda count: (abs(count - micro_batches), count))
    batch = nearest * layouts.dp[i] * layouts.micro_batch[i]
    return f"; the nearest is global_batch = {batch:,.0f}"


def _table_rules(network: Network, layouts: Layouts) -> Iterator[Problem]:
    """Yield the rules of embedding tables, which all data-parallel ranks divide."""
    ways_C = layouts.ep * layouts.expert_tp
    yield Problem(
        "tables_on_all_ranks",
        ways_C != layouts.dp,
        lambda i: (
            f"ep x expert_tp = {layouts.ep[i]:g} x {layouts.expert_tp[i]:g} must equal dp ="
            f" {layouts.dp[i]:,.0f}: all ranks divide the embedding tables, ep by table and"
            " expert_tp by row"
        ),
    )
    yield Problem(
        "ep_within_tables",
        layouts.ep > network.tables,
        lambda i: (
            f"ep = {layouts.ep[i]:g}: the model has {network.tables} embedding tables; ep is at"
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
            lambda i: (
                f"ep = {layouts.ep[i]:g} and expert_tp = {layouts.expert_tp[i]:g} apply to MoE"
                " models; this model is dense"
            ),
        )
        return
    yield from _size_rules(network, layouts, _EXPERT_SIZES)
    ranks_C = layouts.tp * layouts.cp * layouts.dp
    yield Problem(
        "experts_divide_ranks",
        np.mod(ranks_C, layouts.ep * layouts.expert_tp) != 0,
        lambda i: (
            f"ep x expert_tp = {layouts.ep[i]:g} x {layouts.expert_tp[i]:g} must divide the"
            f" {ranks_C[i]:,.0f} ranks of a stage (tp x cp x dp)"
        ),
    )
