"""GPipe: all forward passes, then all backward passes."""

from __future__ import annotations

from typing import Final

from perfatlas.training.schedules.schedule import (
    ONE_CHUNK,
    Schedule,
    looped_stages,
    whole_backward_bubble_s,
)

GPIPE: Final = Schedule(
    name="gpipe",
    title="GPipe",
    description="Every rank runs the forward passes of all micro-batches, then the backward"
    " passes, the last micro-batch first.",
    source="Huang et al., arXiv 1811.06965, section 2.3",
    rules=(ONE_CHUNK,),
    stages=looped_stages,
    bubble_s=whole_backward_bubble_s,
)
