"""ZB-H1: 1F1B whose weight gradients fill part of the bubble."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.training.schedules.schedule import (
    ONE_CHUNK,
    PipelineSize,
    Schedule,
    UniformStages,
    looped_stages,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def _bubble_s(size: PipelineSize, stages: UniformStages) -> NDArray[np.float64]:
    """Return (P - 1)(F + B - W) [s] (C,)."""
    return (size.ranks - 1) * (
        stages.forward_s + stages.input_gradient_s - stages.weight_gradient_s
    )


ZB_H1: Final = Schedule(
    name="zb_h1",
    title="ZB-H1",
    description="1F1B with weight gradients as passes of their own, which rank i starts after i"
    " further micro-batches, so that every rank holds P micro-batches.",
    source="Qi et al., arXiv 2401.10241, section 2.3",
    rules=(ONE_CHUNK,),
    splits_backward=True,
    stages=looped_stages,
    bubble_s=_bubble_s,
)
