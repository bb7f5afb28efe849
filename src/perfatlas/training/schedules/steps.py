"""Step time, bubbles and exposed transfers of pipelines.

Shape legend: C candidates, G candidates of one program, S pipeline stages, P ranks, D durations,
E transfers, R passes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.quantities import InvalidSpecError, broken_rules
from perfatlas.training.schedules.columns import Pipelines, PipelineSteps
from perfatlas.training.schedules.longest_path import longest_paths
from perfatlas.training.schedules.passes import BACKWARD, KINDS, PAIR
from perfatlas.training.schedules.programs import Program, program_of
from perfatlas.training.schedules.schedule import PipelineSize
from perfatlas.training.schedules.table import find_schedule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfatlas.training.schedules.columns import FloatArray, IntArray

ROUNDS: Final = 6  # micro-batches over ranks in which a pipeline reaches the peak of its memory
AT_ONCE: Final = 1024  # candidates whose columns are made together, for the memory of large tables


def pipeline_steps(pipelines: Pipelines) -> PipelineSteps:
    """Return the steps of candidates: the longest path through the passes of all ranks.

    Raises:
        InvalidSpecError: A schedule refuses the sizes of a candidate (its `rules` have the
            reasons of all), or a duration is negative or not finite.

    Source: The orders of passes are those of the publications that the rows of `SCHEDULES` name.

    Limits: All micro-batches last equally long. A transfer takes its time whatever else is sent;
        transfers of a rank do not wait for each other.

    Example:
        >>> import numpy as np
        >>> from perfatlas.training.schedules import Pipelines, pipeline_steps
        >>> one_CS = np.ones((1, 4))
        >>> steps = pipeline_steps(
        ...     Pipelines(
        ...         schedule_C=["1f1b"],
        ...         ranks_C=np.array([4]),
        ...         micro_batches_C=np.array([8]),
        ...         chunks_C=np.array([1]),
        ...         forward_s_CS=one_CS,
        ...         input_gradient_s_CS=one_CS,
        ...         weight_gradient_s_CS=one_CS,
        ...         send_s_CS=0 * one_CS,
        ...         sends_overlap_C=np.array([True]),
        ...     )
        ... )
        >>> steps.step_s_C.tolist(), steps.bubble_s_CP.tolist()
        ([33.0], [[9.0, 9.0, 9.0, 9.0]])
    """
    check(pipelines)
    count, widest = len(pipelines.ranks_C), int(np.max(pipelines.ranks_C, initial=1))
    step_s_C, exposed_s_C = np.zeros(count), np.zeros(count)
    busy_s_CP, bubble_s_CP = np.zeros((count, widest)), np.zeros((count, widest))
    span_s_CP = np.zeros((count, widest))
    for program, at_G in programs(pipelines):
        ranks = len(program.count_P)
        duration_GD, send_GE = durations(pipelines, program, at_G)
        overlap_G = np.asarray(pipelines.sends_overlap_C, dtype=np.bool_)[at_G]
        paths = longest_paths(program, duration_GD, send_GE, overlap_G)
        step_s_G = paths.end_CP.max(axis=1)
        free_s_G = step_s_G.copy()
        sends_G = send_GE.any(axis=1)
        if sends_G.any():
            free = longest_paths(
                program, duration_GD[sends_G], 0 * send_GE[sends_G], overlap_G[sends_G]
            )
            free_s_G[sends_G] = free.end_CP.max(axis=1)
        # no product of matrices: threads of its library would wait longer than they compute
        busy_s_GP: FloatArray = np.einsum("gd,pd->gp", duration_GD, program.count_PD)
        step_s_C[at_G], exposed_s_C[at_G] = step_s_G, step_s_G - free_s_G
        busy_s_CP[at_G, :ranks] = busy_s_GP
        bubble_s_CP[at_G, :ranks] = np.maximum(free_s_G[:, None] - busy_s_GP, 0.0)
        span_s_CP[at_G, :ranks] = paths.end_CP - paths.start_CP
    return PipelineSteps(
        step_s_C=step_s_C,
        busy_s_CP=busy_s_CP,
        bubble_s_CP=bubble_s_CP,
        exposed_send_s_C=exposed_s_C,
        span_s_CP=span_s_CP,
    )


def peak_activations(pipelines: Pipelines, activation_bytes_CS: FloatArray) -> FloatArray:
    """Return the most bytes of activations that each rank holds at once (C, P).

    Args:
        pipelines: The candidates; their durations have no effect.
        activation_bytes_CS: Bytes that one micro-batch leaves in a stage from its forward pass to
            the end of its weight gradient [bytes] (C, S).

    Raises:
        InvalidSpecError: A schedule refuses the sizes of a candidate.

    Source: derived: orders repeat after the warm-up, so that no moment after 6 P micro-batches of P
        ranks holds more; `tests/training/test_memory.py` compares with whole steps.
    Limits: Input gradients release nothing; zero-bubble implementations release part of the
        activations there.
    """
    check(pipelines)
    all_C = np.array([find_schedule(name).holds_all for name in pipelines.schedule_C], np.bool_)
    rounds_C = np.minimum(pipelines.micro_batches_C, ROUNDS * pipelines.ranks_C)
    enough_C = np.where(all_C, pipelines.micro_batches_C, rounds_C)
    pipelines = replace(pipelines, micro_batches_C=enough_C)
    count, widest = len(pipelines.ranks_C), int(np.max(pipelines.ranks_C, initial=1))
    peak_bytes_CP = np.zeros((count, widest))
    for program, at_G in programs(pipelines):
        ranks = len(program.count_P)
        peak_bytes_CP[at_G, :ranks] = program.peak_bytes(activation_bytes_CS[at_G])
    return peak_bytes_CP


def programs(pipelines: Pipelines) -> Iterator[tuple[Program, IntArray]]:
    """Yield each distinct program and candidates that run it (G,), at most `AT_ONCE` of them."""
    _, name_C = np.unique(np.asarray(pipelines.schedule_C, dtype=np.str_), return_inverse=True)
    sizes = (pipelines.ranks_C, pipelines.micro_batches_C, pipelines.chunks_C)
    key_C4 = np.stack([name_C, *sizes], axis=1).astype(np.int64)
    _, first, group_C = np.unique(key_C4, axis=0, return_index=True, return_inverse=True)
    order_C = np.argsort(group_C.ravel(), kind="stable")
    for at_G in np.split(order_C, np.cumsum(np.bincount(group_C.ravel()))[: len(first) - 1]):
        size = (int(column_C[at_G[0]]) for column_C in sizes)
        program = program_of(str(pipelines.schedule_C[at_G[0]]), *size)
        for start in range(0, len(at_G), AT_ONCE):
            yield program, at_G[start : start + AT_ONCE]


def durations(
    pipelines: Pipelines, program: Program, at_G: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return the durations (G, D) and transfers (G, E) that passes of a program refer to [s]."""
    stages = program.stages
    kinds: list[Any] = [None] * len(KINDS)
    forward, input_gradient, weight = (
        np.asarray(column_CS, dtype=np.float64)[at_G, :stages]
        for column_CS in (
            pipelines.forward_s_CS,
            pipelines.input_gradient_s_CS,
            pipelines.weight_gradient_s_CS,
        )
    )
    kinds[: BACKWARD + 1] = forward, input_gradient, weight, input_gradient + weight
    if pipelines.pair_s_CS is None:
        kinds[PAIR] = forward + kinds[BACKWARD][:, ::-1]
    else:
        kinds[PAIR] = np.asarray(pipelines.pair_s_CS, dtype=np.float64)[at_G, :stages]
    send_GE = np.zeros((len(at_G), stages + 1))
    between = stages - 1
    send_GE[:, :between] = np.asarray(pipelines.send_s_CS, dtype=np.float64)[at_G, :between]
    return np.concatenate(kinds, axis=1), send_GE


def check(pipelines: Pipelines) -> None:
    """Refuse candidates that cannot run."""
    name_C = np.asarray(pipelines.schedule_C, dtype=np.str_)
    for name in sorted(set(name_C.tolist())):
        rows = np.flatnonzero(name_C == name)
        sizes = (pipelines.ranks_C, pipelines.micro_batches_C, pipelines.chunks_C)
        size = PipelineSize(name, *(size_C[rows] for size_C in sizes))
        for at, problem in broken_rules(find_schedule(name).rules, size).items():
            raise InvalidSpecError(f"candidate {rows[at]}: {problem}")
    for name in ("forward_s_CS", "input_gradient_s_CS", "weight_gradient_s_CS", "send_s_CS"):
        _check_durations(name, getattr(pipelines, name))
    if pipelines.pair_s_CS is not None:
        _check_durations("pair_s_CS", pipelines.pair_s_CS)


def _check_durations(name: str, column_CS: FloatArray) -> None:
    wrong_CS = ~(np.isfinite(column_CS) & (np.asarray(column_CS) >= 0))
    if wrong_CS.any():
        index = tuple(np.argwhere(wrong_CS)[0].tolist())
        raise InvalidSpecError(
            f"{name}{list(index)} is {column_CS[index]}; durations are finite and not negative"
        )
