"""Pipelines to evaluate and what evaluating them gives, as columns.

Shape legend: C candidates, S pipeline stages (of the widest candidate), P ranks (of the widest).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Pipelines:
    """Candidates of a pipeline: a schedule, its sizes and the durations of its passes.

    Stages are numbered in the order of the layers, stage 0 with the embedding. A candidate of
    fewer stages than the widest has anything in the rest of its row.
    """

    schedule_C: Sequence[str]  # Values of `pipeline_schedule` (C,)
    ranks_C: IntArray  # Ranks of the pipeline, `pp` (C,)
    micro_batches_C: IntArray  # Micro-batches per step (C,)
    chunks_C: IntArray  # Chunks of layers per rank, `vpp` (C,); 1 for DualPipe
    forward_s_CS: FloatArray  # Forward pass of one micro-batch through a stage [s] (C, S)
    input_gradient_s_CS: FloatArray  # Backward pass without weight gradients [s] (C, S)
    weight_gradient_s_CS: FloatArray  # Weight gradients [s] (C, S)
    # Transfer between stage s and s + 1, of activations forward or of gradients backward [s] (C,
    # S); free between stages of the same rank
    send_s_CS: FloatArray
    # Whether a rank computes while it sends (C,); otherwise it waits until the transfer has ended
    sends_overlap_C: NDArray[np.bool_]
    # Forward pass through stage s, overlapped with a whole backward pass of another micro-batch
    # through stage P - 1 - s [s] (C, S), from `pair_times`; DualPipe alone reads it. None runs one
    # after the other.
    pair_s_CS: FloatArray | None = None


@dataclass(frozen=True, kw_only=True)
class PipelineSteps:
    """Steps of pipelines; columns of ranks beyond a candidate's own are 0.

    On every rank busy_s_CP + bubble_s_CP + exposed_send_s_C = step_s_C.
    """

    step_s_C: FloatArray  # From the first start of any rank to the last end of any rank [s] (C,)
    busy_s_CP: FloatArray  # Sum of the passes of a rank [s] (C, P)
    bubble_s_CP: FloatArray  # Time a rank would be idle if transfers were free [s] (C, P)
    exposed_send_s_C: FloatArray  # Time by which transfers delay the step [s] (C,)
    # From the first start to the last end of a rank [s] (C, P): steps follow one another at its
    # maximum if ranks do not wait for each other at the optimizer
    span_s_CP: FloatArray
