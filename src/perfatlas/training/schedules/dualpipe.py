"""DualPipe: micro-batches enter from both ends, forwards overlap backwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.compiled import inlined, part
from perfatlas.quantities import Rule
from perfatlas.training.schedules.passes import (
    BACKWARD,
    BACKWARD_MICRO_BATCH,
    BACKWARD_STAGE,
    FORWARD,
    INPUT_GRADIENT,
    KIND,
    MICRO_BATCH,
    PAIR,
    STAGE,
    WEIGHT_GRADIENT,
    put,
)
from perfatlas.training.schedules.schedule import ONE_CHUNK, PipelineSchedule

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.training.schedules.passes import Passes


@inlined
def _deferred(pass_PNA: Passes, i: int, n: int, seen: int) -> int:
    """Return the place of the first input gradient of rank i from a place on."""
    index = seen
    while index < n and pass_PNA[i, index, KIND] != INPUT_GRADIENT:
        index += 1
    return index


@inlined
def _weight(pass_PNA: Passes, i: int, n: int, index: int) -> int:
    """Write the weight gradient that belongs to the input gradient at a place."""
    stage, j = pass_PNA[i, index, STAGE], pass_PNA[i, index, MICRO_BATCH]
    return put(pass_PNA, i, n, WEIGHT_GRADIENT, stage, j)


@inlined
def _pair(pass_PNA: Passes, i: int, n: int, stage: int, forward: int, backward: int) -> int:
    """Write a forward pass of a stage overlapped with a backward pass of the rank's other stage."""
    ranks = pass_PNA.shape[0]
    n = put(pass_PNA, i, n, PAIR, stage, forward)
    pass_PNA[i, n - 1, BACKWARD_STAGE] = ranks - 1 - stage
    pass_PNA[i, n - 1, BACKWARD_MICRO_BATCH] = backward
    return n


@part
def order(pass_PNA: Passes, i: int, ranks: int, micro_batches: int, chunks: int) -> int:  # noqa: ARG001 - as all schedules
    """Write the passes of rank i and return their number; arguments as in `PipelineSchedule`.

    `near` is the direction whose micro-batches reach the rank first, `far` the other one.
    """
    outer = min(i, ranks - 1 - i)  # 0 at both ends of the pipeline
    inner = ranks // 2 - 1 - outer  # 0 at both ranks in the middle
    half = micro_batches // 2
    near = 0 if i < ranks // 2 else half
    far = half - near
    near_stage, far_stage = outer, ranks - 1 - outer
    n = 0
    for j in range(2 * inner):
        n = put(pass_PNA, i, n, FORWARD, near_stage, near + j)
    for j in range(outer + 1):
        n = put(pass_PNA, i, n, FORWARD, near_stage, near + 2 * inner + j)
        n = put(pass_PNA, i, n, FORWARD, far_stage, far + j)
    for j in range(inner):
        n = put(pass_PNA, i, n, INPUT_GRADIENT, far_stage, far + j)
        n = put(pass_PNA, i, n, WEIGHT_GRADIENT, far_stage, far + j)
        n = put(pass_PNA, i, n, FORWARD, far_stage, far + outer + 1 + j)
    return _overlapped(pass_PNA, i, n, ranks, micro_batches)


@part
def _overlapped(pass_PNA: Passes, i: int, n: int, ranks: int, micro_batches: int) -> int:
    """Write the pairs of forward and backward passes."""
    outer = min(i, ranks - 1 - i)
    inner = ranks // 2 - 1 - outer
    half = micro_batches // 2
    near = 0 if i < ranks // 2 else half
    far = half - near
    near_stage, far_stage = outer, ranks - 1 - outer
    begun = 2 * inner + outer + 1  # forward passes of the near direction
    main = half - begun
    for j in range(main):
        if j == 0 and inner == 0:  # the middle ranks run the first two after one another
            n = put(pass_PNA, i, n, FORWARD, near_stage, near + begun)
            n = put(pass_PNA, i, n, BACKWARD, far_stage, far)
        else:
            n = _pair(pass_PNA, i, n, near_stage, near + begun + j, far + inner + j)
        n = _pair(pass_PNA, i, n, far_stage, far + outer + 1 + inner + j, near + j)
    for j in range(inner):
        n = put(pass_PNA, i, n, BACKWARD, far_stage, far + inner + main + j)
        n = _pair(pass_PNA, i, n, far_stage, far + outer + 1 + inner + main + j, near + main + j)
    return _drain(pass_PNA, i, n, ranks, micro_batches)


@part
def _drain(pass_PNA: Passes, i: int, n: int, ranks: int, micro_batches: int) -> int:
    """Write the passes after the last forward pass; the later half defers weight gradients."""
    outer = min(i, ranks - 1 - i)
    inner = ranks // 2 - 1 - outer
    half = micro_batches // 2
    near = 0 if i < ranks // 2 else half
    far = half - near
    begun_near = half - inner - outer - 1
    begun_far = half - outer - 1
    seen = n
    for j in range(2 * (outer + 1)):
        kind = INPUT_GRADIENT if j > outer else BACKWARD
        if j % 2 == 0:
            n = put(pass_PNA, i, n, kind, ranks - 1 - outer, far + begun_far + j // 2)
        else:
            n = put(pass_PNA, i, n, kind, outer, near + begun_near + j // 2)
    for j in range(inner):
        seen = _deferred(pass_PNA, i, n, seen)
        n = _weight(pass_PNA, i, n, seen)
        seen += 1
        n = put(pass_PNA, i, n, INPUT_GRADIENT, outer, near + begun_near + outer + 1 + j)
    for _ in range(outer + 1):
        seen = _deferred(pass_PNA, i, n, seen)
        n = _weight(pass_PNA, i, n, seen)
        seen += 1
    return n


def _stages(ranks: int, chunks: int) -> NDArray[np.int64]:  # noqa: ARG001 - as all schedules
    """Return stages i and P - 1 - i of each rank i (P, 2)."""
    rank_P = np.arange(ranks)
    return np.stack((rank_P, ranks - 1 - rank_P), axis=1)


DUALPIPE: Final = PipelineSchedule(
    name="dualpipe",
    title="DualPipe",
    description="Half of the micro-batches enter at each end of the pipeline; rank i holds stages"
    " i and P - 1 - i and overlaps forward passes of one half with backward passes of the other.",
    source="DeepSeek-AI, arXiv 2412.19437, section 3.2.1; github.com/deepseek-ai/DualPipe",
    rules=(
        ONE_CHUNK,
        Rule(
            lambda size: size.ranks % 2 != 0,
            "pipeline_schedule {schedule} needs an even pp, not {ranks}",
        ),
        Rule(
            lambda size: size.micro_batches % 2 != 0,
            "pipeline_schedule {schedule} needs an even number of micro-batches per step, not"
            " {micro_batches}",
            "change global_batch or micro_batch",
        ),
        Rule(
            lambda size: size.micro_batches < 2 * size.ranks,
            "pipeline_schedule {schedule} needs at least 2 pp micro-batches per step, and"
            " {micro_batches} is less than twice {ranks}",
            "raise global_batch or lower micro_batch",
        ),
    ),
    splits_backward=True,
    overlaps_pairs=True,
    order=order,
    stages=_stages,
)
