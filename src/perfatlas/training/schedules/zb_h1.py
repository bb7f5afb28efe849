"""ZB-H1: 1F1B whose weight gradients fill part of the bubble."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.compiled import part
from perfatlas.training.schedules.passes import (
    FORWARD,
    INPUT_GRADIENT,
    WEIGHT_GRADIENT,
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
    weights = 0
    for j in range(micro_batches):
        if j + warm_up < micro_batches:
            n = put(pass_PNA, i, n, FORWARD, i, j + warm_up)
        n = put(pass_PNA, i, n, INPUT_GRADIENT, i, j)
        if j >= i:
            n = put(pass_PNA, i, n, WEIGHT_GRADIENT, i, weights)
            weights += 1
    for j in range(weights, micro_batches):
        n = put(pass_PNA, i, n, WEIGHT_GRADIENT, i, j)
    return n


ZB_H1: Final = PipelineSchedule(
    name="zb_h1",
    title="ZB-H1",
    description="1F1B with weight gradients as separate passes, which rank i starts after i"
    " further micro-batches, so that every rank holds P micro-batches.",
    source="Qi et al., arXiv 2401.10241, section 2.3",
    rules=(ONE_CHUNK,),
    splits_backward=True,
    order=order,
    stages=looped_stages,
)
