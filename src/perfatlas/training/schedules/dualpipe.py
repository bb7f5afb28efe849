"""DualPipe: micro-batches enter from both ends, forwards overlap backwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.training.schedules.schedule import (
    ONE_CHUNK,
    PipelineSize,
    Rule,
    Schedule,
    UniformStages,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _bubble_s(size: PipelineSize, stages: UniformStages) -> NDArray[np.float64]:
    """Return (P/2 - 1)(FB + B' - 3 W), with the backward B' = B + W [s] (C,)."""
    backward_s = stages.input_gradient_s + stages.weight_gradient_s
    return (size.ranks / 2 - 1) * (stages.pair_s + backward_s - 3 * stages.weight_gradient_s)


def _stages(ranks: int, chunks: int) -> NDArray[np.int64]:  # noqa: ARG001 - as all schedules
    """Return stages i and P - 1 - i of each rank i (P, 2)."""
    rank_P = np.arange(ranks)
    return np.stack((rank_P, ranks - 1 - rank_P), axis=1)


DUALPIPE: Final = Schedule(
    name="dualpipe",
    title="DualPipe",
    description="Half of the micro-batches enter at each end of the pipeline; rank i holds stages"
    " i and P - 1 - i and overlaps forward passes of one half with backward passes of the other.",
    source="DeepSeek-AI, arXiv 2412.19437, section 3.2.1; github.com/deepseek-ai/DualPipe",
    rules=(
        ONE_CHUNK,
        Rule(
            holds=lambda size: size.ranks % 2 == 0,
            reason="pipeline_schedule {schedule} needs an even pp, not {ranks}",
        ),
        Rule(
            holds=lambda size: size.micro_batches % 2 == 0,
            reason="pipeline_schedule {schedule} needs an even number of micro-batches per step,"
            " not {micro_batches}; change global_batch or micro_batch",
        ),
        Rule(
            holds=lambda size: size.micro_batches >= 2 * size.ranks,
            reason="pipeline_schedule {schedule} needs at least 2 pp micro-batches per step, and"
            " {micro_batches} is less than twice {ranks}; raise global_batch or lower micro_batch",
        ),
    ),
    splits_backward=True,
    overlaps_pairs=True,
    stages=_stages,
    bubble_s=_bubble_s,
)
