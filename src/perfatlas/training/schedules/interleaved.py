"""Interleaved 1F1B: each rank holds several chunks of layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.compiled import inlined, part
from perfatlas.quantities import Rule
from perfatlas.training.schedules.passes import (
    BACKWARD,
    FORWARD,
    put,
)
from perfatlas.training.schedules.schedule import PipelineSchedule, looped_stages

if TYPE_CHECKING:
    from perfatlas.training.schedules.passes import Passes


@inlined
def _forward(pass_PNA: Passes, i: int, n: int, k: int, ranks: int, chunks: int) -> int:
    """Write the k-th forward pass of rank i: groups of P micro-batches, chunk after chunk."""
    group, within = k // (ranks * chunks), k % (ranks * chunks)
    stage = within // ranks * ranks + i
    return put(pass_PNA, i, n, FORWARD, stage, group * ranks + within % ranks)


@inlined
def _backward(pass_PNA: Passes, i: int, n: int, k: int, ranks: int, chunks: int) -> int:
    """Write the k-th backward pass of rank i, which takes the chunks from the last one."""
    group, within = k // (ranks * chunks), k % (ranks * chunks)
    stage = (chunks - 1 - within // ranks) * ranks + i
    return put(pass_PNA, i, n, BACKWARD, stage, group * ranks + within % ranks)


@part
def order(pass_PNA: Passes, i: int, ranks: int, micro_batches: int, chunks: int) -> int:
    """Write the passes of rank i and return their number; arguments as in `PipelineSchedule`."""
    n = 0
    total = micro_batches * chunks
    warm_up = min(2 * (ranks - 1 - i) + (chunks - 1) * ranks, total)
    for k in range(warm_up):
        n = _forward(pass_PNA, i, n, k, ranks, chunks)
    for k in range(total):
        if k + warm_up < total:
            n = _forward(pass_PNA, i, n, k + warm_up, ranks, chunks)
        n = _backward(pass_PNA, i, n, k, ranks, chunks)
    return n


INTERLEAVED: Final = PipelineSchedule(
    name="interleaved",
    title="interleaved 1F1B",
    description="Chunk c of rank i holds stage c P + i; micro-batches pass in groups of P through"
    " each chunk, in the order of 1F1B.",
    source="Narayanan et al., arXiv 2104.04473, section 2.2.2",
    rules=(
        Rule(
            lambda size: size.chunks < 2,
            "pipeline_schedule {schedule} needs at least two chunks of layers per rank, not"
            " {chunks}",
            "set vpp = 2 or more, or use 1f1b",
        ),
        Rule(
            lambda size: size.ranks < 2,
            "pipeline_schedule {schedule} needs pp = 2 or more, not {ranks}",
        ),
        Rule(
            lambda size: size.micro_batches % size.ranks != 0,
            "pipeline_schedule {schedule} needs a number of micro-batches per step that pp"
            " divides, and {micro_batches} is not a multiple of {ranks}",
            "change global_batch or micro_batch, or use 1f1b",
        ),
    ),
    order=order,
    stages=looped_stages,
)
