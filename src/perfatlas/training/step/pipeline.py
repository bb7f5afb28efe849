"""The pipeline of a step: which rank holds which stages, and how long all micro-batches last.

Shape legend: C candidates, S pipeline stages in the order of the layers, R ranks of a pipeline,
V stages that a rank holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfatlas.training.schedules import Pipelines, find_schedule, stages_of_ranks

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.training.layouts import Layouts


def stages_held(schedule: str, layouts: Layouts) -> IntArray:
    """Return the stages that each rank holds (C, R, V), -1 beyond the last rank.

    Args:
        schedule: Pipeline schedule.
        layouts: The layouts (C,).
    """
    sizes_C2 = np.stack([layouts.pp, layouts.vpp], axis=1).astype(np.int64)
    distinct, which_C = np.unique(sizes_C2, axis=0, return_inverse=True)
    tables = [stages_of_ranks(schedule, int(pp), int(vpp)) for pp, vpp in distinct]
    shape = (max(t.shape[0] for t in tables), max(t.shape[1] for t in tables))
    held_DRV = np.full((len(tables), *shape), -1, np.int64)
    for place, table in enumerate(tables):
        held_DRV[place, : table.shape[0], : table.shape[1]] = table
    return held_DRV[which_C.reshape(-1)]


def sum_over_ranks(values_CS: FloatArray, held_CRV: IntArray) -> FloatArray:
    """Return the sum over the stages of each rank (C, R).

    Args:
        values_CS: A value of each stage (C, S).
        held_CRV: Stages of each rank, -1 for none (C, R, V).
    """
    row_C11 = np.arange(values_CS.shape[0])[:, None, None]
    picked_CRV = values_CS[row_C11, held_CRV]
    sums_CR: FloatArray = np.where(held_CRV >= 0, picked_CRV, 0.0).sum(axis=2)
    return sums_CR


def copies_of_layers(schedule: str) -> int:
    """Return how many ranks hold every layer: 2 in a schedule with both directions, else 1.

    Args:
        schedule: Pipeline schedule.
    """
    return 2 if find_schedule(schedule).overlaps_pairs else 1


def pipelines_of(
    schedule: str,
    layouts: Layouts,
    stage_s_PCS: FloatArray,
    send_s_C: FloatArray,
    *,
    overlap: bool,
    pair_s_CS: FloatArray | None = None,
) -> Pipelines:
    """Return the pipelines of the candidates.

    Args:
        schedule: Pipeline schedule.
        layouts: The layouts (C,).
        stage_s_PCS: Forward pass, input gradient and weight gradient of each stage (3, C, S) [s].
        send_s_C: Transfer between two stages (C,) [s].
        overlap: Whether ranks compute while they send.
        pair_s_CS: Overlapped pairs of passes, for schedules that have them (C, S) [s].
    """
    forward_s_CS, input_s_CS, weight_s_CS = stage_s_PCS
    return Pipelines(
        schedule_C=[schedule] * layouts.size,
        ranks_C=layouts.pp.astype(np.int64),
        micro_batches_C=np.round(layouts.micro_batches).astype(np.int64),
        chunks_C=layouts.vpp.astype(np.int64),
        forward_s_CS=forward_s_CS,
        input_gradient_s_CS=input_s_CS,
        weight_gradient_s_CS=weight_s_CS,
        send_s_CS=np.broadcast_to(send_s_C[:, None], forward_s_CS.shape),
        sends_overlap_C=np.full(layouts.size, overlap),
        pair_s_CS=pair_s_CS,
    )
