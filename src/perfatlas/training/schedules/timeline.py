"""The passes of a pipeline with their start and end.

Shape legend: N passes of all ranks; a pair of overlapped passes is two of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.training.schedules import passes
from perfatlas.training.schedules.longest_path import longest_paths
from perfatlas.training.schedules.programs import PASS, RANK, program_of
from perfatlas.training.schedules.steps import check, durations

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from perfatlas.training.schedules.columns import Pipelines

COLUMNS: Final = ("rank", "stage", "chunk", "micro_batch", "pass", "overlapped", "start_s", "end_s")


def pipeline_timeline(pipelines: Pipelines, candidate: int = 0) -> Mapping[str, NDArray[Any]]:
    """Return the passes of a candidate as columns (N,), by rank and start.

    Returns:
        The columns rank, stage, chunk (of the stages that the rank holds), micro_batch, pass (a
        name of `KINDS` without pair), overlapped (whether the pass is one of a pair that starts
        and ends together), start_s and end_s [s].

    Raises:
        InvalidSpecError: A schedule refuses the sizes of a candidate.

    Example:
        >>> import numpy as np
        >>> from perfatlas.training.schedules import Pipelines, pipeline_timeline
        >>> one_CS = np.ones((1, 2))
        >>> timeline = pipeline_timeline(
        ...     Pipelines(
        ...         schedule_C=["1f1b"],
        ...         ranks_C=np.array([2]),
        ...         micro_batches_C=np.array([1]),
        ...         chunks_C=np.array([1]),
        ...         forward_s_CS=one_CS,
        ...         input_gradient_s_CS=one_CS,
        ...         weight_gradient_s_CS=one_CS,
        ...         send_s_CS=0 * one_CS,
        ...         sends_overlap_C=np.array([True]),
        ...     )
        ... )
        >>> timeline["pass"].tolist(), timeline["start_s"].tolist()
        (['forward', 'backward', 'forward', 'backward'], [0.0, 4.0, 1.0, 2.0])
    """
    check(pipelines)
    program = program_of(
        str(pipelines.schedule_C[candidate]),
        int(pipelines.ranks_C[candidate]),
        int(pipelines.micro_batches_C[candidate]),
        int(pipelines.chunks_C[candidate]),
    )
    at_G = np.array([candidate])
    duration_GD, send_GE = durations(pipelines, program, at_G)
    overlap_G = np.asarray(pipelines.sends_overlap_C, dtype=np.bool_)[at_G]
    paths = longest_paths(program, duration_GD, send_GE, overlap_G, passes=True)
    rank_N, place_N = program.row_RI[:, RANK], program.row_RI[:, PASS]
    pass_NA = program.pass_PNA[rank_N, place_N]
    times = paths.begin_RC[:, 0], paths.finish_RC[:, 0]
    pairs_N = pass_NA[:, passes.KIND] == passes.PAIR
    kind_N = np.where(pairs_N, passes.FORWARD, pass_NA[:, passes.KIND])
    alone = (
        rank_N,
        pass_NA[:, passes.STAGE],
        pass_NA[:, passes.MICRO_BATCH],
        kind_N,
        pairs_N,
        *times,
    )
    backward = (
        rank_N,
        pass_NA[:, passes.BACKWARD_STAGE],
        pass_NA[:, passes.BACKWARD_MICRO_BATCH],
        np.full_like(kind_N, passes.BACKWARD),
        pairs_N,
        *times,
    )
    rank, stage, batch, kind, overlapped, start, end = (
        np.concatenate((first, pair[pairs_N])) for first, pair in zip(alone, backward, strict=True)
    )
    chunk = np.argmax(program.stages_PV[rank] == stage[:, None], axis=1)
    names = np.array(passes.KINDS)[kind]
    order = np.lexsort((kind, start, rank))
    columns = (rank, stage, chunk, batch, names, overlapped, start, end)
    return {name: column[order] for name, column in zip(COLUMNS, columns, strict=True)}
