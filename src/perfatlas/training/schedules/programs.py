"""Programs of pipelines: the passes of all ranks in an order in which each follows its inputs.

A pass waits for its rank and for at most two values of other passes: the activations of the stage
before it, the gradients of the stage after it. A value lives in a slot from the pass that sends it
to the pass that receives it; slots are used again, so that a long step needs few.

Shape legend: P ranks, N passes of a rank, A attributes of a pass, R passes of all ranks, I items of
a row of a program, S pipeline stages, M micro-batches, K slots, V stages that a rank holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.compiled import entry, inlined, part
from perfatlas.training.schedules.passes import (
    ATTRIBUTES,
    BACKWARD,
    BACKWARD_MICRO_BATCH,
    BACKWARD_STAGE,
    FORWARD,
    INPUT_GRADIENT,
    KIND,
    KINDS,
    MICRO_BATCH,
    PAIR,
    STAGE,
    WEIGHT_GRADIENT,
)
from perfatlas.training.schedules.placement import stages_of_ranks
from perfatlas.training.schedules.table import SCHEDULES, find_schedule

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfatlas.training.schedules.columns import FloatArray, IntArray

# Items of a row of a program.
RANK: Final = 0
PASS: Final = 1  # its place among the passes of the rank
DURATION: Final = 2  # kind x S + stage
ACTIVATIONS_IN: Final = 3  # slot
GRADIENTS_IN: Final = 4  # slot
ACTIVATIONS_OUT: Final = 5  # slot
ACTIVATIONS_EDGE: Final = 6  # stage from which they are sent, S if they stay on the rank
GRADIENTS_OUT: Final = 7  # slot
GRADIENTS_EDGE: Final = 8  # stage to which they are sent, S if they stay on the rank
ITEMS: Final = 9

READY: Final = 0  # slot whose value is always there
UNREAD: Final = 1  # slot that no pass reads
FIRST_FREE: Final = 2


def _dispatch() -> Callable[..., Any]:
    """Return a compiled function that calls the order of a schedule by its index."""
    arguments = "pass_PNA, i, ranks, micro_batches, chunks"
    names: dict[str, Any] = {"__name__": __name__}
    lines = [f"def order(schedule, {arguments}):"]
    for index, schedule in enumerate(SCHEDULES):
        names[f"order_{index}"] = schedule.order
        lines.append(f"    if schedule == {index}: return order_{index}({arguments})")
    lines.append("    return 0")
    exec("\n".join(lines), names)  # noqa: S102 - a branch per schedule, from names in this file
    order: Callable[..., Any] = part(names["order"])
    return order


_order = _dispatch()


class Linking(NamedTuple):
    """Arrays of a program under construction."""

    pass_PNA: Any  # Passes of each rank (P, N, A)
    count_P: Any  # Passes of a rank (P,)
    begun_P: Any  # Passes of a rank that are in the program already (P,)
    rank_S: Any  # Rank of a stage (S,)
    activations_SM: Any  # Slot of activations sent by a stage and not yet received, else -1 (S, M)
    gradients_SM: Any  # The same of gradients (S, M)
    free_K: Any  # Stack of free slots (K,)
    row_RI: Any  # The program (R, I)


@inlined
def _edge(link: Linking, stage: int) -> int:
    """Return the transfer between a stage and the next, S if both are on one rank."""
    stages = link.rank_S.shape[0]
    return stages if link.rank_S[stage] == link.rank_S[stage + 1] else stage


@part
def _emit(link: Linking, i: int, row: int, free: int) -> int:
    """Write the next pass of rank i as a row; return the free slots, -1 if an input is missing."""
    stages, n = link.rank_S.shape[0], link.begun_P[i]
    kind, stage = link.pass_PNA[i, n, KIND], link.pass_PNA[i, n, STAGE]
    j = link.pass_PNA[i, n, MICRO_BATCH]
    has_forward = kind in (FORWARD, PAIR)
    has_backward = kind in (INPUT_GRADIENT, BACKWARD, PAIR)
    back, back_j = stage, j
    if kind == PAIR:
        back = link.pass_PNA[i, n, BACKWARD_STAGE]
        back_j = link.pass_PNA[i, n, BACKWARD_MICRO_BATCH]
    receives = has_forward and stage > 0
    receives_back = has_backward and back < stages - 1
    if receives and link.activations_SM[stage - 1, j] < 0:
        return -1
    if receives_back and link.gradients_SM[back + 1, back_j] < 0:
        return -1
    link.row_RI[row, RANK], link.row_RI[row, PASS] = i, n
    link.row_RI[row, DURATION] = kind * stages + stage
    link.row_RI[row, ACTIVATIONS_IN], link.row_RI[row, GRADIENTS_IN] = READY, READY
    link.row_RI[row, ACTIVATIONS_OUT], link.row_RI[row, GRADIENTS_OUT] = UNREAD, UNREAD
    link.row_RI[row, ACTIVATIONS_EDGE], link.row_RI[row, GRADIENTS_EDGE] = stages, stages
    if receives:
        link.row_RI[row, ACTIVATIONS_IN] = link.activations_SM[stage - 1, j]
        link.free_K[free] = link.activations_SM[stage - 1, j]
        free += 1
    if receives_back:
        link.row_RI[row, GRADIENTS_IN] = link.gradients_SM[back + 1, back_j]
        link.free_K[free] = link.gradients_SM[back + 1, back_j]
        free += 1
    if has_forward and stage < stages - 1:
        free -= 1
        link.activations_SM[stage, j] = link.free_K[free]
        link.row_RI[row, ACTIVATIONS_OUT] = link.free_K[free]
        link.row_RI[row, ACTIVATIONS_EDGE] = _edge(link, stage)
    if has_backward and back > 0:
        free -= 1
        link.gradients_SM[back, back_j] = link.free_K[free]
        link.row_RI[row, GRADIENTS_OUT] = link.free_K[free]
        link.row_RI[row, GRADIENTS_EDGE] = _edge(link, back - 1)
    return free


@entry
def _link(link: Linking, schedule: int, chunks: int) -> int:
    """Write the program of a schedule; return its rows, -1 if its ranks wait for each other."""
    ranks, micro_batches = link.count_P.shape[0], link.activations_SM.shape[1]
    rows, free, total = 0, link.free_K.shape[0] - FIRST_FREE, 0
    for slot in range(free):
        link.free_K[slot] = link.free_K.shape[0] - 1 - slot
    for i in range(ranks):
        link.count_P[i] = _order(schedule, link.pass_PNA, i, ranks, micro_batches, chunks)
        total += link.count_P[i]
    while rows < total:
        before = rows
        for i in range(ranks):
            if link.begun_P[i] < link.count_P[i]:
                after = _emit(link, i, rows, free)
                if after >= 0:
                    free = after
                    link.begun_P[i] += 1
                    rows += 1
        if rows == before:
            return -1
    return rows


class _Held(NamedTuple):
    """Activations that ranks hold while they run their passes."""

    pass_PNA: Any  # Passes of each rank (P, N, A)
    count_P: Any  # Passes of a rank (P,)
    bytes_GS: Any  # What a micro-batch leaves in a stage (G, S) [bytes]
    peak_GP: Any  # Result: most bytes of each rank (G, P)


@entry
def _peak_bytes(memory: _Held) -> None:
    """Follow the passes of every rank: a forward pass takes activations, the last one frees them.

    A pair takes those of one micro-batch before it frees those of the other.
    """
    for i in range(memory.count_P.shape[0]):
        for g in range(memory.bytes_GS.shape[0]):
            saved, peak = 0.0, 0.0
            for n in range(memory.count_P[i]):
                kind, stage = memory.pass_PNA[i, n, KIND], memory.pass_PNA[i, n, STAGE]
                if kind in (FORWARD, PAIR):
                    saved += memory.bytes_GS[g, stage]
                peak = max(peak, saved)
                if kind == PAIR:
                    saved -= memory.bytes_GS[g, memory.pass_PNA[i, n, BACKWARD_STAGE]]
                elif kind in (WEIGHT_GRADIENT, BACKWARD):
                    saved -= memory.bytes_GS[g, stage]
            memory.peak_GP[g, i] = peak


@dataclass(frozen=True, kw_only=True)
class Program:
    """The passes of a pipeline, independent of their durations."""

    row_RI: Any  # The passes in the order in which they are evaluated (R, I)
    pass_PNA: Any  # The passes of each rank in its order (P, N, A)
    count_P: IntArray  # Passes of a rank (P,)
    stages_PV: IntArray  # Stages that a rank holds (P, V)
    slots: int  # Slots of values between passes

    @property
    def stages(self) -> int:
        """Return the number of pipeline stages."""
        return int(self.stages_PV.max()) + 1

    @cached_property
    def count_PD(self) -> FloatArray:  # noqa: N802 - a column
        """How often each rank runs each duration (P, D)."""
        kinds, ranks = len(KINDS) * self.stages, len(self.count_P)
        pass_R = self.row_RI[:, RANK].astype(np.int64) * kinds + self.row_RI[:, DURATION]
        counts = np.bincount(pass_R, minlength=ranks * kinds)
        return counts.reshape(ranks, kinds).astype(np.float64)

    def peak_bytes(self, bytes_GS: FloatArray) -> FloatArray:
        """Return the most bytes that each rank holds at once (G, P).

        Args:
            bytes_GS: What a micro-batch leaves in a stage (G, S) [bytes].
        """
        memory = _Held(
            pass_PNA=self.pass_PNA,
            count_P=self.count_P,
            bytes_GS=np.ascontiguousarray(bytes_GS, dtype=np.float64),
            peak_GP=np.zeros((len(bytes_GS), len(self.count_P))),
        )
        _peak_bytes(memory)
        peak_GP: FloatArray = memory.peak_GP
        return peak_GP


@lru_cache(maxsize=64)
def program_of(name: str, ranks: int, micro_batches: int, chunks: int) -> Program:
    """Return the program of a schedule for sizes that it accepts.

    Args:
        name: Value of `pipeline_schedule`.
        ranks: Ranks of the pipeline, `pp`.
        chunks: Chunks of layers per rank, `vpp`.
    """
    schedule = find_schedule(name)
    stages_PV = stages_of_ranks(name, ranks, chunks)
    stages = int(stages_PV.max()) + 1
    rank_S = np.zeros(stages, dtype=np.int64)
    for stage_P in stages_PV.T[::-1]:  # of DualPipe's two directions the first one remains
        rank_S[stage_P] = np.arange(ranks)
    stages_per_rank = stages_PV.shape[1]
    passes = 3 * micro_batches * (stages_per_rank if stages > ranks else 1)
    slots = FIRST_FREE + 2 * stages * micro_batches
    link = Linking(
        pass_PNA=np.zeros((ranks, passes, ATTRIBUTES), dtype=np.int32),
        count_P=np.zeros(ranks, dtype=np.int64),
        begun_P=np.zeros(ranks, dtype=np.int64),
        rank_S=rank_S,
        activations_SM=np.full((stages, micro_batches), -1, dtype=np.int32),
        gradients_SM=np.full((stages, micro_batches), -1, dtype=np.int32),
        free_K=np.zeros(slots, dtype=np.int32),
        row_RI=np.zeros((ranks * passes, ITEMS), dtype=np.int32),
    )
    rows = _link(link, SCHEDULES.index(schedule), chunks)
    if rows < 0:
        raise RuntimeError(f"the ranks of schedule {name} wait for each other")
    row_RI = np.ascontiguousarray(link.row_RI[:rows])
    return Program(
        row_RI=row_RI,
        pass_PNA=link.pass_PNA,
        count_P=link.count_P,
        stages_PV=stages_PV,
        slots=int(row_RI[:, ACTIVATIONS_IN : GRADIENTS_OUT + 1].max()) + 1,
    )
