"""1F1B: after a warm-up, forward and backward passes alternate."""

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
    warm_up = min(ranks - 1 - i, micro_batches)
    for j in range(warm_up):
        n = put(pass_PNA, i, n, FORWARD, i, j)
    for j in range(micro_batches):
        if j + warm_up < micro_batches:
            n = put(pass_PNA, i, n, FORWARD, i, j + warm_up)
        n = put(pass_PNA, i, n, BACKWARD, i, j)
    return n


ONE_F_ONE_B: Final = PipelineSchedule(
    name="1f1b",
    title="1F1B",
    description="Rank i of P runs P - 1 - i forward passes, then alternates one forward and one"
    " backward pass, then runs the remaining backward passes.",
    source="Narayanan et al., arXiv 2104.04473, section 2.2.1",
    rules=(ONE_CHUNK,),
    order=order,
    stages=looped_stages,
)
