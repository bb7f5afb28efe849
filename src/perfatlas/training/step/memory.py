"""Device memory of the ranks of a training job.

Shape legend: C candidates, S pipeline stages, R ranks of a pipeline.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.training.layouts import RECOMPUTE_LEVELS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray
    from perfatlas.training.step.question import TrainingQuestion
    from perfatlas.training.step.stages import StageColumns

# Bytes per parameter: bf16 weights; fp32 master weights and two fp32 moments of Adam.
# Source: ZeRO (arXiv 1910.02054), section 3.1; Muon has one moment (Jordan et al. 2024).
WEIGHT_BYTES: Final = 2.0
STATE_BYTES: Final = {"adamw": 12.0, "sgd": 8.0}


@dataclass(frozen=True, kw_only=True)
class TrainingMemory:
    """Memory of the rank that needs most, by part (C,) [bytes].

    Args:
        weights_bytes: Weights.
        gradients_bytes: Accumulated gradients.
        optimizer_bytes: Master weights and optimizer states.
        activations_bytes: Activations kept for the backward pass, at the peak.
        other_bytes: Gathered weights, and memory outside the framework's allocator.
        capacity_bytes: Memory of the device.
        rank: Pipeline rank of the peak.
    """

    weights_bytes: FloatArray
    gradients_bytes: FloatArray
    optimizer_bytes: FloatArray
    activations_bytes: FloatArray
    other_bytes: FloatArray
    capacity_bytes: FloatArray
    rank: NDArray[np.int64]

    @property
    def total_bytes(self) -> FloatArray:
        """All parts (C,) [bytes]."""
        return (
            self.weights_bytes
            + self.gradients_bytes
            + self.optimizer_bytes
            + self.activations_bytes
            + self.other_bytes
        )

    @property
    def fits(self) -> NDArray[np.bool_]:
        """Whether the peak is within the capacity (C,)."""
        return self.total_bytes <= self.capacity_bytes


def training_memory(
    question: TrainingQuestion, stages: StageColumns, activations_CR: FloatArray
) -> TrainingMemory:
    """Return the memory of the fullest rank of each candidate.

    Args:
        question: The candidates.
        stages: Parameters and activations of the pipeline stages.
        activations_CR: Most activations that a rank keeps at once (C, R) [bytes].

    Source: model states: ZeRO (arXiv 1910.02054), section 3, and Megatron-LM's distributed
        optimizer; activations: Korthikanti et al. 2022 (arXiv 2205.05198).
    Limits: Fragmentation of the allocator and quantized copies of weights are not counted.
    """
    layouts = question.layouts
    zero = layouts.zero
    dense_CR, expert_CR = stages.over_ranks(stages.dense_CS), stages.over_ranks(stages.expert_CS)
    groups = ((dense_CR, layouts.dp * layouts.cp), (expert_CR, layouts.expert_dp))

    def states(each_bytes: float, sharded_from: int) -> FloatArray:
        total_CR = np.zeros_like(dense_CR)
        for held_CR, ranks_C in groups:
            shards_C = np.where(zero >= sharded_from, np.maximum(ranks_C, 1.0), 1.0)
            total_CR += held_CR * each_bytes / shards_C[:, None]
        return total_CR

    parts_CR = {
        "weights_bytes": states(WEIGHT_BYTES, 3),
        "gradients_bytes": states(question.gradient_bytes, 2),
        "optimizer_bytes": states(STATE_BYTES[question.optimizer], 1),
        "activations_bytes": activations_CR + _layer_again(question, stages)[:, None],
        "other_bytes": _others(question, stages),
    }
    rank_C = sum(parts_CR.values(), np.zeros_like(dense_CR)).argmax(axis=1)
    at = np.arange(layouts.size)
    return TrainingMemory(
        **{name: part_CR[at, rank_C] for name, part_CR in parts_CR.items()},
        capacity_bytes=question.devices().gather("memory_bytes"),
        rank=rank_C,
    )


def kept_by_stages(question: TrainingQuestion, stages: StageColumns) -> FloatArray:
    """Return the activations that a micro-batch leaves in each stage (C, S) [bytes].

    Args:
        question: The candidates.
        stages: Activations of the pipeline stages by recompute level.
    """
    kept_CS: FloatArray = stages.saved_LCS[
        question.layouts.recompute, np.arange(question.layouts.size)
    ]
    return kept_CS


def _layer_again(question: TrainingQuestion, stages: StageColumns) -> FloatArray:
    """Return the activations of the layer that full recomputation computes again (C,) [bytes]."""
    full = RECOMPUTE_LEVELS.index("full")
    return np.where(question.layouts.recompute == full, stages.layer_saved_C, 0.0)


def _others(question: TrainingQuestion, stages: StageColumns) -> FloatArray:
    """Return gathered weights and gradients of ZeRO-3, two layers at a time, and the context."""
    layer_C = stages.layer_dense_C + stages.layer_expert_C
    gathered_C = 2.0 * layer_C * (WEIGHT_BYTES + question.gradient_bytes)
    sharded_C = (question.layouts.zero >= 3) & (question.layouts.dp * question.layouts.cp > 1)
    other_C = np.where(sharded_C, gathered_C, 0.0) + question.engine.context_bytes
    return np.broadcast_to(other_C[:, None], stages.over_ranks(stages.dense_CS).shape)
