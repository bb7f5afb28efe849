"""1F1B: after a warm-up, forward and backward passes alternate."""

from __future__ import annotations

from typing import Final

from perfatlas.training.schedules.schedule import (
    ONE_CHUNK,
    Schedule,
    looped_stages,
    whole_backward_bubble_s,
)

ONE_F_ONE_B: Final = Schedule(
    name="1f1b",
    title="1F1B",
    description="Rank i of P runs P - 1 - i forward passes, then alternates one forward and one"
    " backward pass, then runs the remaining backward passes.",
    source="Narayanan et al., arXiv 2104.04473, section 2.2.1",
    rules=(ONE_CHUNK,),
    stages=looped_stages,
    bubble_s=whole_backward_bubble_s,
)
