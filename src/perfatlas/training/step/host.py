"""Host time of a training step: launches of kernels that no CUDA graph replaces.

Shape legend: C candidates, R ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.training.step.pipeline import copies_of_layers
from perfatlas.training.step.stages import moe_share

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray
    from perfatlas.training.step.question import TrainingQuestion
    from perfatlas.training.step.stages import StageColumns

# Share of the launches of a MoE layer that CUDA graphs leave to the host.
LAUNCHED: Final = {"none": 1.0, "attention": 0.5, "full": 0.0}


def launch_s(question: TrainingQuestion, stages: StageColumns, busiest_C: FloatArray) -> FloatArray:
    """Return the host time of the MoE layers of a step on the busiest rank (C,) [s].

    The host launches kernels ahead of the device; a rank whose kernels are shorter waits for it.

    Args:
        question: The candidates.
        stages: The pipeline stages.
        busiest_C: Rank with most work (C,).

    Limits: Bubbles give the host no time to catch up. Graphs of attention and router leave half
        of the launches (assumption).
    """
    layouts = question.layouts
    moe = moe_share(question.architecture)
    held_CR = stages.over_ranks(stages.layers_CS)
    layers_C = moe * held_CR[np.arange(layouts.size), busiest_C]
    batches_C = layouts.micro_batches / copies_of_layers(question.schedule)
    each_s = question.engine.host_s_per_moe_layer * LAUNCHED[question.cuda_graphs]
    launched_s_C: FloatArray = each_s * layers_C * batches_C
    return launched_s_C
