"""Start and end of every pass of a program, for many candidates: a compiled longest path.

Shape legend: C candidates, L lanes evaluated together, R passes, I items of a row, D durations,
E transfers, K slots, P ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.compiled import optimized_entry, part
from perfatlas.training.schedules.programs import (
    ACTIVATIONS_EDGE,
    ACTIVATIONS_IN,
    ACTIVATIONS_OUT,
    DURATION,
    GRADIENTS_EDGE,
    GRADIENTS_IN,
    GRADIENTS_OUT,
    PASS,
    RANK,
    READY,
    UNREAD,
    Program,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.training.schedules.columns import FloatArray

LANES: Final = 32


class Evaluation(NamedTuple):
    """Arrays of an evaluation."""

    row_RI: Any  # The program (R, I)
    duration_CD: Any  # Duration of each kind of pass in each stage [s] (C, D)
    send_CE: Any  # Time of each transfer [s] (C, E); 0 in the last column
    waits_C: Any  # 1 where a rank waits for its transfers, 0 where it computes meanwhile (C,)
    start_CP: Any  # Result: first start of each rank [s] (C, P)
    end_CP: Any  # Result: last end of each rank [s] (C, P)
    begin_RC: Any  # Result, if it has rows: start of each pass [s] (R, C)
    finish_RC: Any  # Result, with begin_RC: end of each pass [s] (R, C)
    duration_DL: Any  # Durations of the candidates evaluated together (D, L)
    send_EL: Any  # Their transfers (E, L)
    slot_KL: Any  # Their values in slots: when they arrive [s] (K, L)
    free_PL: Any  # When each rank can start its next pass [s] (P, L)
    end_PL: Any  # When each rank has ended its last pass [s] (P, L)
    start_L: Any  # Start of the pass [s] (L,)
    waits_L: Any  # waits_C of the candidates evaluated together (L,)


@part
def _load(run: Evaluation, first: int, lanes: int) -> None:
    """Copy the columns of some candidates into lanes and reset what passes write."""
    for lane in range(lanes):
        run.waits_L[lane] = run.waits_C[first + lane]
        for d in range(run.duration_DL.shape[0]):
            run.duration_DL[d, lane] = run.duration_CD[first + lane, d]
        for e in range(run.send_EL.shape[0]):
            run.send_EL[e, lane] = run.send_CE[first + lane, e]
    run.slot_KL[:] = 0.0
    run.free_PL[:] = 0.0


@part
def _pass(run: Evaluation, r: int, lanes: int) -> None:
    """Evaluate a pass of some candidates that receives or sends."""
    rank, duration = run.row_RI[r, RANK], run.row_RI[r, DURATION]
    here, back = run.row_RI[r, ACTIVATIONS_IN], run.row_RI[r, GRADIENTS_IN]
    to, to_back = run.row_RI[r, ACTIVATIONS_OUT], run.row_RI[r, GRADIENTS_OUT]
    edge, edge_back = run.row_RI[r, ACTIVATIONS_EDGE], run.row_RI[r, GRADIENTS_EDGE]
    slot_KL, free_PL, send_EL = run.slot_KL, run.free_PL, run.send_EL
    end_PL, start_L, waits_L, duration_DL = run.end_PL, run.start_L, run.waits_L, run.duration_DL
    for lane in range(lanes):
        start = max(free_PL[rank, lane], slot_KL[here, lane], slot_KL[back, lane])
        end = start + duration_DL[duration, lane]
        send, send_back = send_EL[edge, lane], send_EL[edge_back, lane]
        slot_KL[to, lane] = end + send
        slot_KL[to_back, lane] = end + send_back
        free_PL[rank, lane] = end + max(send, send_back) * waits_L[lane]
        end_PL[rank, lane] = end
        start_L[lane] = start


@part
def _local_pass(run: Evaluation, r: int, lanes: int) -> None:
    """Evaluate a pass that neither receives nor sends: it follows the rank's last one."""
    rank, duration = run.row_RI[r, RANK], run.row_RI[r, DURATION]
    free_PL, end_PL, start_L, duration_DL = run.free_PL, run.end_PL, run.start_L, run.duration_DL
    for lane in range(lanes):
        start = free_PL[rank, lane]
        end = start + duration_DL[duration, lane]
        free_PL[rank, lane] = end
        end_PL[rank, lane] = end
        start_L[lane] = start


@part
def _record(run: Evaluation, r: int, first: int, lanes: int) -> None:
    """Write what the results keep of a pass."""
    rank = run.row_RI[r, RANK]
    if run.row_RI[r, PASS] == 0:
        for lane in range(lanes):
            run.start_CP[first + lane, rank] = run.start_L[lane]
    if run.begin_RC.shape[0] > 0:
        for lane in range(lanes):
            run.begin_RC[r, first + lane] = run.start_L[lane]
            run.finish_RC[r, first + lane] = run.end_PL[rank, lane]


@optimized_entry
def _evaluate(run: Evaluation) -> None:
    """Evaluate a program for all candidates."""
    candidates, most = run.duration_CD.shape[0], run.duration_DL.shape[1]
    for first in range(0, candidates, most):
        lanes = min(most, candidates - first)
        _load(run, first, lanes)
        for r in range(run.row_RI.shape[0]):
            received = run.row_RI[r, ACTIVATIONS_IN] + run.row_RI[r, GRADIENTS_IN]
            sent = run.row_RI[r, ACTIVATIONS_OUT] + run.row_RI[r, GRADIENTS_OUT]
            if received == READY and sent == 2 * UNREAD:
                _local_pass(run, r, lanes)
            else:
                _pass(run, r, lanes)
            _record(run, r, first, lanes)
        for rank in range(run.end_PL.shape[0]):
            for lane in range(lanes):
                run.end_CP[first + lane, rank] = run.end_PL[rank, lane]


class Paths(NamedTuple):
    """When ranks and passes start and end."""

    start_CP: FloatArray  # First start of each rank [s] (C, P)
    end_CP: FloatArray  # Last end of each rank [s] (C, P)
    begin_RC: FloatArray  # Start of each pass [s] (R, C), without rows unless it was asked for
    finish_RC: FloatArray  # End of each pass [s] (R, C)


def longest_paths(
    program: Program,
    duration_CD: FloatArray,
    send_CE: FloatArray,
    sends_overlap_C: NDArray[np.bool_],
    *,
    passes: bool = False,
) -> Paths:
    """Return when the ranks of candidates start and end.

    Args:
        duration_CD: Duration of each kind of pass in each stage [s] (C, D).
        send_CE: Time of the transfer between a stage and the next [s] (C, E), E = S + 1; 0 in the
            last column.
    """
    count, ranks = len(duration_CD), len(program.count_P)
    lanes = min(LANES, count)
    recorded = len(program.row_RI) if passes else 0
    run = Evaluation(
        row_RI=program.row_RI,
        duration_CD=np.ascontiguousarray(duration_CD),
        send_CE=np.ascontiguousarray(send_CE),
        waits_C=1.0 - sends_overlap_C,
        start_CP=np.zeros((count, ranks)),
        end_CP=np.zeros((count, ranks)),
        begin_RC=np.zeros((recorded, count)),
        finish_RC=np.zeros((recorded, count)),
        duration_DL=np.zeros((duration_CD.shape[1], lanes)),
        send_EL=np.zeros((send_CE.shape[1], lanes)),
        slot_KL=np.zeros((program.slots, lanes)),
        free_PL=np.zeros((ranks, lanes)),
        end_PL=np.zeros((ranks, lanes)),
        start_L=np.zeros(lanes),
        waits_L=np.zeros(lanes),
    )
    _evaluate(run)
    return Paths(run.start_CP, run.end_CP, run.begin_RC, run.finish_RC)
