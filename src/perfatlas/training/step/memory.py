"""Device memory of the ranks of a training job.

Shape legend: C candidates, S pipeline stages, R ranks of a pipeline.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.operators import ACTIVATION_BYTES, LOGIT_BYTES
from perfatlas.training.layouts import RECOMPUTE_LEVELS
from perfatlas.training.step import states

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray
    from perfatlas.training.step.question import TrainingQuestion
    from perfatlas.training.step.stages import StageColumns

_BUFFERS: Final = 2.0


@dataclass(frozen=True, kw_only=True)
class TrainingMemory:
    """Memory of the rank that needs most, by part (C,) [bytes]."""

    weights_bytes: FloatArray
    gradients_bytes: FloatArray  # Accumulated gradients
    optimizer_bytes: FloatArray  # Master weights and optimizer states
    activations_bytes: FloatArray  # Activations kept for the backward pass, at the peak
    # Gathered weights, unsharded gradients, and memory that the allocator holds unused or that is
    # outside of it
    other_bytes: FloatArray
    capacity_bytes: FloatArray  # Memory of the device
    rank: NDArray[np.int64]  # Pipeline rank of the peak
    # What is needed however well the engine plans its memory, with the loss in small parts; the
    # whole of engines that do not
    least_bytes: FloatArray
    second_bytes: FloatArray  # Offloaded states and activations of the rank with most of them
    second_capacity_bytes: FloatArray  # Second memory of the device, inf where none is stated

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
        """Whether the peak is within the capacity of both memories (C,)."""
        return (self.total_bytes <= self.capacity_bytes) & ~self.overflows

    @property
    def too_large(self) -> NDArray[np.bool_]:
        """Whether even the least memory exceeds the capacity of one of them (C,)."""
        return (self.least_bytes > self.capacity_bytes) | self.overflows

    @property
    def overflows(self) -> NDArray[np.bool_]:
        """Whether what is offloaded exceeds the second memory (C,)."""
        return self.second_bytes > self.second_capacity_bytes


def training_memory(
    question: TrainingQuestion,
    stages: StageColumns,
    activations_CR: FloatArray,
    moved_CR: FloatArray | float = 0.0,
) -> TrainingMemory:
    """Return the memory of the fullest rank of each candidate.

    Args:
        activations_CR: Most activations that a rank keeps at once (C, R) [bytes].
        moved_CR: The most that it has offloaded at once (C, R) [bytes].

    Source: model states: ZeRO (arXiv 1910.02054), section 3, and Megatron-LM's distributed
        optimizer; activations: Korthikanti et al. 2022 (arXiv 2205.05198); gathered weights and
        the loss: PyTorch FSDP2 and torchtitan, as `_others` and `_transient` state.
    Limits: Quantized copies of weights are not counted. The reserved memory of an allocator is a
        factor of the engine. What a compiler frees inside a layer is not known.
    """
    layouts = question.layouts
    dense_CR = stages.over_ranks(stages.trained_dense_CS)
    expert_CR = stages.over_ranks(stages.trained_expert_CS)
    on_device = 1.0 - question.recipe.optimizer_offload
    transient_CR = _transient(question, stages)
    tables_C1, table_states_C1 = (
        part_C[:, None] for part_C in states.table_states(question, layouts)
    )
    parts_CR = {
        "weights_bytes": states.stored_weights(question, stages) + tables_C1,
        "gradients_bytes": question.gradient_bytes
        * states.sharded_sum(question, dense_CR, expert_CR, 2),
        "optimizer_bytes": on_device * states.optimizer_states(question, stages) + table_states_C1,
        "activations_bytes": activations_CR + transient_CR,
        "other_bytes": _others(question, stages),
    }
    used_CR = sum(parts_CR.values(), np.zeros_like(activations_CR))
    unused_CR = (question.engine.reserved_memory - 1.0) * used_CR
    parts_CR["other_bytes"] = parts_CR["other_bytes"] + unused_CR + question.engine.context_bytes
    rank_C = sum(parts_CR.values(), np.zeros_like(activations_CR)).argmax(axis=1)
    row_C = np.arange(layouts.size)
    parts = {name: part_CR[row_C, rank_C] for name, part_CR in parts_CR.items()}
    planned_C = (transient_CR + _logits(question, stages))[row_C, rank_C] + parts["other_bytes"]
    whole_C = sum(parts.values(), np.zeros(layouts.size))
    stated_C = question.devices().gather("second_memory_bytes")
    offloaded_CR = (1.0 - on_device) * states.optimizer_states(question, stages) + moved_CR
    return TrainingMemory(
        **parts,
        second_bytes=offloaded_CR.max(axis=1),
        second_capacity_bytes=np.where(stated_C > 0.0, stated_C, np.inf),
        capacity_bytes=question.devices().gather("memory_bytes"),
        rank=rank_C,
        least_bytes=whole_C - planned_C * question.engine.planned_memory,
    )


def kept_by_stages(question: TrainingQuestion, stages: StageColumns) -> FloatArray:
    """Return the activations that a micro-batch leaves in each stage (C, S) [bytes]."""
    row_C = np.arange(question.layouts.size)
    kept_CS: FloatArray = stages.saved_LCS[question.layouts.recompute, row_C]
    return kept_CS - moved_by_stages(question, stages)


def moved_by_stages(question: TrainingQuestion, stages: StageColumns) -> FloatArray:
    """Return the activations that a micro-batch offloads of each stage (C, S) [bytes]."""
    moved_CS: FloatArray = stages.layers_CS * offloaded_bytes(question, stages)[:, None]
    return moved_CS


def offloaded_bytes(question: TrainingQuestion, stages: StageColumns) -> FloatArray:
    """Return the activations of a layer and micro-batch that are moved to the host (C,) [bytes]."""
    row_C = np.arange(question.layouts.size)
    moved_C: FloatArray = (
        question.recipe.activation_offload
        * stages.layer_saved_LC[question.layouts.recompute, row_C]
    )
    return moved_C


def _transient(question: TrainingQuestion, stages: StageColumns) -> FloatArray:
    """Return what the backward pass needs beside kept activations, at its peak (C, R) [bytes].

    That is the loss on the rank with the head, or later the layer that full recomputation computes
    again and the layers on their way to or from the host.
    """
    layouts, engine = question.layouts, question.engine
    full_C = layouts.recompute == RECOMPUTE_LEVELS.index("full")
    again_C = np.where(full_C, stages.layer_saved_LC[0], 0.0)
    if engine.planned_memory:
        kept_C = stages.layer_saved_LC[layouts.recompute, np.arange(layouts.size)]
        again_C = stages.layer_saved_LC[0] - kept_C
    # a layer that leaves for the host and the next one are on the device
    again_C = again_C + _BUFFERS * offloaded_bytes(question, stages)
    if question.graph is not None:  # operators of language models are smaller than what steps keep
        live = [
            (part.repeated + part.tables * layouts.expert_tp) * layouts.micro_batch + part.fixed
            for part in question.network.live_elements()
        ]
        again_C = again_C + np.max(live, axis=0) * ACTIVATION_BYTES
    copies_C = np.where(layouts.tp > 1, engine.logit_copies_parallel, engine.logit_copies)
    logits_CR = _logits(question, stages)
    loss_CR = logits_CR * (copies_C - 1.0)[:, None]
    if not engine.planned_memory:
        return np.maximum(again_C[:, None], loss_CR)
    # the logits, which are counted as kept, are freed before a layer is computed again
    return np.maximum(again_C[:, None] - logits_CR, loss_CR)


def _logits(question: TrainingQuestion, stages: StageColumns) -> FloatArray:
    """Return the logits of a micro-batch on the rank with the head (C, R) [bytes]."""
    layouts = question.layouts
    logits_C = layouts.tokens * question.network.vocab_size / layouts.tp * LOGIT_BYTES
    return stages.over_ranks(stages.last_CS) * logits_C[:, None]


def _others(question: TrainingQuestion, stages: StageColumns) -> FloatArray:
    """Return weights and gradients that ZeRO-3 holds unsharded (C, R) [bytes].

    Those of two layers at a time, and the weights of the embedding and the head all the time; those
    of all stages of a rank where weights are gathered and gradients are reduced once per step, in
    the precision of the reduction. Experts that only expert parallelism divides are not gathered.
    Engines that plan memory hold the product that runs and the next one, the largest at most.

    Source: torchtitan, `apply_fsdp`: no resharding after the forward pass with pipelines; PyTorch,
        `FSDPParam.to_accumulated_grad_if_needed`.
    """
    layouts, engine = question.layouts, question.engine
    dense_C, expert_C = states.shard_ranks(question)
    gathered_C = (expert_C > 1).astype(np.float64)
    layer_C = stages.layer_dense_C + gathered_C * stages.layer_expert_C
    trained_C = stages.layer_trained_dense_C + gathered_C * stages.layer_trained_expert_C
    experts_CR = gathered_C[:, None] * stages.over_ranks(stages.expert_CS)
    all_CR = stages.over_ranks(stages.dense_CS) + experts_CR
    once_C = (layouts.pp > 1) & (engine.reduction_in_pipelines == "step")
    ends_CR = all_CR - stages.over_ranks(stages.layers_CS) * layer_C[:, None]
    held_CR = np.where(once_C[:, None], all_CR, 2.0 * layer_C[:, None])
    ends_CR = np.where(once_C[:, None], 0.0, ends_CR)
    sharded_C = (layouts.zero >= 3) & (dense_C > 1)
    share_C1 = (trained_C / layer_C)[:, None]
    largest_C1 = stages.largest_C[:, None]
    each_C1 = states.state_bytes(question).gathered + question.gradient_bytes * share_C1
    gathered_CR = held_CR * each_C1 + ends_CR * states.WEIGHT_BYTES
    if engine.planned_memory:
        gathered_CR = np.where(once_C[:, None], gathered_CR, 2.0 * largest_C1 * each_C1)
    return np.where(sharded_C[:, None], gathered_CR, 0.0)
