"""The pipeline of a step: which rank holds which stages, and how long all micro-batches last.

Shape legend: C candidates, D distinct sizes, S pipeline stages in the order of the layers, R ranks
of a pipeline, E stages of ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from perfatlas.training.layouts import distinct_rows
from perfatlas.training.schedules import Pipelines, find_schedule, stages_of_ranks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.training.layouts import Layouts


class HeldStages(NamedTuple):
    """Which rank holds which stage, an entry for each stage of each rank."""

    candidate_E: IntArray  # Candidate of the entry (E,)
    rank_E: IntArray  # Rank (E,)
    stage_E: IntArray  # Stage (E,)
    shape: tuple[int, int]  # Candidates and most ranks of a pipeline


def stages_held(schedule: str, layouts: Layouts) -> HeldStages:
    """Return the stages that each rank holds.

    Args:
        layouts: The layouts (C,).
    """
    sizes_C2 = np.stack([layouts.pp, layouts.vpp], axis=1).astype(np.int64)
    first_D, which_C = distinct_rows(sizes_C2)
    tables = [stages_of_ranks(schedule, int(pp), int(vpp)) for pp, vpp in sizes_C2[first_D]]
    candidates, ranks, stages = [], [], []
    for index, table in enumerate(tables):
        own_C = np.flatnonzero(which_C == index)
        candidates.append(np.repeat(own_C, table.size))
        ranks.append(np.tile(np.repeat(np.arange(table.shape[0]), table.shape[1]), own_C.size))
        stages.append(np.tile(table.ravel(), own_C.size))
    return HeldStages(
        candidate_E=np.concatenate(candidates),
        rank_E=np.concatenate(ranks),
        stage_E=np.concatenate(stages),
        shape=(layouts.size, max(len(table) for table in tables)),
    )


def sum_over_ranks(values_CS: FloatArray, stages: HeldStages) -> FloatArray:
    """Return the sum over the stages of each rank (C, R)."""
    candidates, ranks = stages.shape
    sums_A: NDArray[Any] = np.bincount(
        stages.candidate_E * ranks + stages.rank_E,
        weights=values_CS[stages.candidate_E, stages.stage_E],
        minlength=candidates * ranks,
    )
    sums_CR: FloatArray = sums_A.reshape(candidates, ranks)
    return sums_CR


def copies_of_layers(schedule: str) -> int:
    """Return how many ranks hold every layer: 2 in a schedule with both directions, else 1."""
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
        layouts: The layouts (C,).
        stage_s_PCS: Forward pass, input gradient and weight gradient of each stage (3, C, S) [s].
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
