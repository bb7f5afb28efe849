"""Pipelines of the tests as columns, with random durations."""

from __future__ import annotations

import numpy as np

from perfatlas.training.schedules import Pipelines
from tests.training.reference_pipeline import Case

SIZES = {
    "gpipe": [(1, 1, 1), (3, 2, 1), (4, 9, 1)],
    "1f1b": [(1, 3, 1), (4, 2, 1), (5, 13, 1)],
    "interleaved": [(2, 2, 3), (4, 4, 2), (4, 12, 2), (3, 9, 3)],
    "zb_h1": [(1, 2, 1), (4, 2, 1), (5, 13, 1)],
    "zb_v": [(1, 2, 2), (4, 3, 2), (4, 7, 2), (5, 14, 2)],
    "dualpipe": [(2, 4, 1), (4, 8, 1), (6, 16, 1), (8, 20, 1)],
}


def random_case(
    schedule: str, size: tuple[int, int, int], seed: int, *, overlap: bool = True
) -> Case:
    """Return a pipeline of uneven stages whose durations are multiples of 2^-10."""
    ranks, micro_batches, chunks = size
    stages = ranks * chunks
    rng = np.random.default_rng(seed)

    def some() -> list[float]:
        return [int(one) / 1024 for one in rng.integers(1, 3000, stages)]

    pair = some() if schedule == "dualpipe" and seed % 2 else None
    return Case(
        schedule, ranks, micro_batches, chunks, some(), some(), some(), some(), overlap, pair
    )


def as_columns(case: Case) -> Pipelines:
    """Return a case as a column of one candidate."""

    def one_row(durations: list[float]) -> np.ndarray:
        return np.array([durations])

    return Pipelines(
        schedule_C=[case.schedule],
        ranks_C=np.array([case.ranks]),
        micro_batches_C=np.array([case.micro_batches]),
        chunks_C=np.array([case.chunks]),
        forward_s_CS=one_row(case.forward),
        input_gradient_s_CS=one_row(case.input_gradient),
        weight_gradient_s_CS=one_row(case.weight_gradient),
        send_s_CS=one_row(case.send),
        sends_overlap_C=np.array([case.overlap]),
        pair_s_CS=None if case.pair is None else one_row(case.pair),
    )
