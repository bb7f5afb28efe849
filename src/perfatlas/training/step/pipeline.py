"""Times of pipeline stages, and the schedule that runs them.

Shape legend: C candidates, S pipeline stages in the order of the layers, R ranks of a pipeline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.quantities import UnsupportedError

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.training.layouts import Layouts

CLOSED_FORMS: Final = ("gpipe", "1f1b", "interleaved", "zb_h1")


class PipelineTimes(NamedTuple):
    """The pipeline of one step.

    Args:
        step_s_C: Time of all micro-batches (C,) [s].
        exposed_send_s_C: Transfers that delay it (C,) [s].
        in_flight_CR: Most forward passes of stages whose activations a rank holds (C, R).
    """

    step_s_C: FloatArray
    exposed_send_s_C: FloatArray
    in_flight_CR: FloatArray


def rank_of_stage(layouts: Layouts) -> IntArray:
    """Return the rank that holds each pipeline stage (C, S), -1 beyond the last.

    Args:
        layouts: The layouts (C,).
    """
    stages_C1 = (layouts.pp * layouts.vpp)[:, None]
    position_S = np.arange(int(stages_C1.max()))
    rank_CS = np.mod(position_S, layouts.pp[:, None])
    return np.where(position_S < stages_C1, rank_CS, -1).astype(np.int64)


def sum_over_ranks(values_CS: FloatArray, rank_CS: IntArray, ranks: int) -> FloatArray:
    """Return the sum over the stages of each rank (C, R).

    Args:
        values_CS: A value of each stage (C, S).
        rank_CS: Rank of each stage, -1 for none (C, S).
        ranks: Ranks of the widest pipeline (R).
    """
    sums_CR = np.zeros((values_CS.shape[0], ranks))
    for rank in range(ranks):
        sums_CR[:, rank] = np.where(rank_CS == rank, values_CS, 0.0).sum(axis=1)
    return sums_CR


def pipeline_times(
    schedule: str, layouts: Layouts, stage_s_PCS: FloatArray, send_s_C: FloatArray, *, overlap: bool
) -> PipelineTimes:
    """Return the time of all micro-batches in a pipeline.

    Args:
        schedule: Pipeline schedule.
        layouts: The layouts (C,).
        stage_s_PCS: Forward, input gradient and weight gradient of each stage (3, C, S) [s].
        send_s_C: Transfer between two stages (C,) [s].
        overlap: Whether ranks compute while they send.

    Raises:
        UnsupportedError: There is no closed form of the schedule.

    Source: GPipe (arXiv 1811.06965), 1F1B and interleaving (arXiv 2104.04473, section 2.2), ZB-H1
        (arXiv 2401.10241).
    Limits: Bubbles are those of equal stages of the mean duration.
    """
    if schedule not in CLOSED_FORMS:
        raise UnsupportedError(
            f"pipeline_schedule = {schedule} is not supported; use {', '.join(CLOSED_FORMS)}"
        )
    ranks_C, chunks_C, batches_C = layouts.pp, layouts.vpp, layouts.micro_batches
    mean_PC = stage_s_PCS.sum(axis=2) / (ranks_C * chunks_C)
    forward_C, input_C, weight_C = mean_PC
    each_C = forward_C + input_C + weight_C
    if schedule == "zb_h1":
        each_C = forward_C + input_C - weight_C
    bubble_C = (ranks_C - 1.0) * np.maximum(each_C, 0.0)
    rank_CS = rank_of_stage(layouts)
    busy_CR = sum_over_ranks(stage_s_PCS.sum(axis=0), rank_CS, int(ranks_C.max()))
    piped_C = ranks_C > 1
    ends_C = 2.0 * (ranks_C - 1.0) * send_s_C
    steady_C = np.where(overlap, 0.0, 2.0 * batches_C * chunks_C * send_s_C)
    exposed_C = np.where(piped_C, ends_C + steady_C, 0.0)
    step_C = batches_C * busy_CR.max(axis=1) + bubble_C + exposed_C
    return PipelineTimes(step_C, exposed_C, _in_flight(schedule, layouts, busy_CR.shape[1]))


def _in_flight(schedule: str, layouts: Layouts, ranks: int) -> FloatArray:
    """Return the most forward passes of stages that each rank holds (C, R)."""
    behind_CR = layouts.pp[:, None] - np.arange(ranks)
    most_C1 = (layouts.micro_batches * layouts.vpp)[:, None]
    if schedule == "gpipe":
        held_CR = np.broadcast_to(most_C1, behind_CR.shape)
    else:
        rounds_C1 = (layouts.vpp[:, None] - 1.0) * layouts.pp[:, None]
        interleaved_C1 = layouts.vpp[:, None] > 1
        held_CR = np.where(interleaved_C1, 2.0 * (behind_CR - 1.0) + rounds_C1 + 1.0, behind_CR)
    return np.where(behind_CR > 0, np.minimum(held_CR, most_C1), 0.0)
