"""ZB-V: two chunks per rank in the shape of a V, no bubble where all passes last equally long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.training.schedules.schedule import (
    PipelineSize,
    Rule,
    Schedule,
    UniformStages,
    v_shaped_stages,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def _bubble_s(size: PipelineSize, stages: UniformStages) -> NDArray[np.float64]:
    """Return (P - 1) F, the time until the last rank starts [s] (C,)."""
    return (size.ranks - 1) * stages.forward_s


ZB_V: Final = Schedule(
    name="zb_v",
    title="ZB-V",
    description="Rank i holds stages i and 2 P - 1 - i, so that loss and embedding are on rank 0;"
    " weight gradients are passes of their own.",
    source="Qi et al., arXiv 2401.10241, section 6; arXiv 2405.15362",
    rules=(
        Rule(
            holds=lambda size: size.chunks == 2,
            reason="pipeline_schedule {schedule} runs two chunks of layers per rank, not {chunks};"
            " set vpp = 2",
        ),
    ),
    splits_backward=True,
    stages=v_shaped_stages,
    bubble_s=_bubble_s,
)
