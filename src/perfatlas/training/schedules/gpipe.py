"""GPipe: all forward passes, then all backward passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.compiled import part
from perfatlas.training.schedules.passes import (
    BACKWARD,
    FORWARD,
    put,
)
from perfatlas.training.schedules.schedule import (
    ONE_CHUNK,
    PipelineSchedule,
    looped_stages,
)

if TYPE_CHECKING:
    from perfatlas.training.schedules.passes import Passes


@part
def order(pass_PNA: Passes, i: int, ranks: int, micro_batches: int, chunks: int) -> int:  # noqa: ARG001 - as all schedules
    """Write the passes of rank i and return their number; arguments as in `PipelineSchedule`."""
    n = 0
    for j in range(micro_batches):
        n = put(pass_PNA, i, n, FORWARD, i, j)
    for j in range(micro_batches - 1, -1, -1):
        n = put(pass_PNA, i, n, BACKWARD, i, j)
    return n


GPIPE: Final = PipelineSchedule(
    name="gpipe",
    holds_all=True,
    title="GPipe",
    description="Every rank runs the forward passes of all micro-batches, then the backward"
    " passes, the last micro-batch first.",
    source="Huang et al., arXiv 1811.06965, section 2.3",
    rules=(ONE_CHUNK,),
    order=order,
    stages=looped_stages,
)
