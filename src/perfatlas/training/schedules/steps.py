"""Step time, bubbles and exposed transfers of pipelines.

Shape legend: C candidates, S pipeline stages, P ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfatlas.training.schedules.columns import Pipelines, PipelineSteps
from perfatlas.training.schedules.schedule import PipelineSize, UniformStages
from perfatlas.training.schedules.table import find_schedule

if TYPE_CHECKING:
    from perfatlas.training.schedules.columns import FloatArray


def pipeline_steps(pipelines: Pipelines) -> PipelineSteps:
    """Return the steps of candidates.

    Args:
        pipelines: The candidates, all of which their schedules accept (`pipeline_refusals`).

    Limits: Closed forms of stages that all last as long as the longest; free transfers.
    """
    ranks_C = np.asarray(pipelines.ranks_C)
    count, widest = len(ranks_C), int(ranks_C.max(initial=1))
    step_s_C = np.zeros(count)
    busy_s_CP, bubble_s_CP = np.zeros((count, widest)), np.zeros((count, widest))
    for c in range(count):
        schedule = find_schedule(pipelines.schedule_C[c])
        ranks, chunks = int(ranks_C[c]), int(pipelines.chunks_C[c])
        stages_PV = schedule.stages(ranks, chunks)
        longest = _longest(pipelines, c, int(stages_PV.max()) + 1)
        copies = 2 if schedule.overlaps_pairs else 1
        passes = pipelines.micro_batches_C[c] * stages_PV.shape[1] / copies
        one_s = longest.forward_s + longest.input_gradient_s + longest.weight_gradient_s
        size = PipelineSize(
            ranks=ranks_C[c : c + 1],
            micro_batches=pipelines.micro_batches_C[c : c + 1],
            chunks=pipelines.chunks_C[c : c + 1],
        )
        bubble_s = schedule.bubble_s(size, longest)
        busy_s_CP[c, :ranks], bubble_s_CP[c, :ranks] = passes * one_s, bubble_s
        step_s_C[c] = float(passes * one_s[0] + bubble_s[0])
    return PipelineSteps(
        step_s_C=step_s_C,
        busy_s_CP=busy_s_CP,
        bubble_s_CP=bubble_s_CP,
        exposed_send_s_C=np.zeros(count),
        span_s_CP=np.repeat(step_s_C[:, None], widest, axis=1),
        peak_in_flight_CP=np.zeros((count, widest), dtype=np.int64),
    )


def _longest(pipelines: Pipelines, c: int, stages: int) -> UniformStages:
    """Return the longest stage of a candidate."""

    def at(column_CS: FloatArray) -> FloatArray:
        return np.max(column_CS[c, :stages], keepdims=True)

    f, b, w = (
        at(column_CS)
        for column_CS in (
            pipelines.forward_s_CS,
            pipelines.input_gradient_s_CS,
            pipelines.weight_gradient_s_CS,
        )
    )
    return UniformStages(forward_s=f, input_gradient_s=b, weight_gradient_s=w, pair_s=f + b + w)
