"""Interface between a pipeline schedule and what evaluates it.

A model is cut into S *pipeline stages* of consecutive layers, numbered from the embedding to the LM
head; P *ranks* (devices of one pipeline) hold them. A micro-batch passes every stage forward and
then backward.

Shape legend: C candidates, S pipeline stages, P ranks of the pipeline.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.quantities import Rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


@dataclass(frozen=True)
class PipelineSize:
    """Sizes of pipelines of one schedule, as columns."""

    schedule: str  # Its name
    ranks: NDArray[np.int64]  # Ranks of the pipeline, `pp` (C,)
    micro_batches: NDArray[np.int64]  # Micro-batches per step (C,)
    chunks: NDArray[np.int64]  # Chunks of layers per rank, `vpp` (C,)

    @property
    def size(self) -> int:
        """Number of candidates."""
        return int(self.ranks.size)

    def row(self, row: int) -> dict[str, Any]:
        """Return the sizes of a candidate."""
        return {name: v if isinstance(v, str) else int(v[row]) for name, v in vars(self).items()}


@dataclass(frozen=True, kw_only=True)
class PipelineSchedule:
    """A pipeline schedule: a row in `SCHEDULES`."""

    name: str  # Value of `pipeline_schedule` that selects it
    title: str  # Its name in messages
    description: str  # How it orders passes, as a sentence
    source: str  # The publication it is taken from
    rules: tuple[Rule[PipelineSize], ...] = ()  # Which sizes it cannot run
    splits_backward: bool = False  # Weight gradients are passes of their own
    # Forward passes run overlapped with backward passes of other micro-batches
    overlaps_pairs: bool = False
    holds_all: bool = False  # All forward passes come before the first backward pass
    # (pass_PNA, i, ranks, micro_batches, chunks): writes the passes of rank i with `put` and
    # returns their number; compiled, marked `part`
    order: Callable[[Any, int, int, int, int], int]
    # (ranks, chunks): the stages that each rank holds, as an array (P, V)
    stages: Callable[[int, int], NDArray[np.int64]]


ONE_CHUNK: Final = Rule[PipelineSize](
    lambda size: size.chunks != 1,
    "pipeline_schedule {schedule} runs one chunk of layers per rank, not {chunks}",
    "set vpp = 1 or use interleaved",
)


def looped_stages(ranks: int, chunks: int) -> NDArray[np.int64]:
    """Return the stages of ranks whose chunk c holds stage c P + i (P, V)."""
    return np.arange(ranks * chunks).reshape(chunks, ranks).T


def v_shaped_stages(ranks: int, chunks: int) -> NDArray[np.int64]:  # noqa: ARG001 - as all
    """Return stages i and 2 P - 1 - i of each rank i (P, 2).

    Args:
        chunks: Chunks of layers per rank, 2.
    """
    rank_P = np.arange(ranks)
    return np.stack((rank_P, 2 * ranks - 1 - rank_P), axis=1)
