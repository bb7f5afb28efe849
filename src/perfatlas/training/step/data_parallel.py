"""Data-parallel collectives: gradients and weights, and their exposed time.

Shape legend: C candidates, R ranks of a pipeline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfatlas.training.step.costs import GroupColumns, collective_times, sm_share
from perfatlas.training.step.exposure import exposed_beside
from perfatlas.training.step.memory import WEIGHT_BYTES

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray
    from perfatlas.training.step.question import TrainingQuestion
    from perfatlas.training.step.stages import StageColumns


class LayerSharding(NamedTuple):
    """Exposed collectives of fully sharded layers, per layer and micro-batch (C,) [s]."""

    forward_s_C: FloatArray
    backward_s_C: FloatArray


def sharded_layers(
    question: TrainingQuestion,
    stages: StageColumns,
    forward_s_C: FloatArray,
    backward_s_C: FloatArray,
) -> LayerSharding:
    """Return what ZeRO-3 adds to a layer; zero for other candidates.

    The weights of the next layer are gathered beside the computation of this one, forward and
    again backward, where gradients are also scattered.

    Args:
        question: The candidates.
        stages: Parameters of a layer.
        forward_s_C: Forward pass of a layer without it (C,) [s].
        backward_s_C: Backward pass of a layer without it (C,) [s].

    Source: ZeRO (arXiv 1910.02054), section 7.2: 1.5 times the volume of plain data parallelism;
        PyTorch FSDP (arXiv 2304.11277), section 3.3: prefetching.
    """
    active_C = question.layouts.zero >= 3
    if not np.any(active_C):
        none_C = np.zeros_like(forward_s_C)
        return LayerSharding(none_C, none_C)
    groups = (stages.layer_dense_C, stages.layer_expert_C)
    gather_s_C = _times(question, "all_gather", [held * WEIGHT_BYTES for held in groups])
    scatter_s_C = _times(
        question, "reduce_scatter", [held * question.gradient_bytes for held in groups]
    )
    slowdown_C = sm_share(question)
    ahead = question.engine.gradient_overlap
    forward_C = forward_s_C if ahead else np.zeros_like(forward_s_C)
    backward_C = backward_s_C if ahead else np.zeros_like(forward_s_C)
    return LayerSharding(
        np.where(active_C, exposed_beside(gather_s_C, forward_C, slowdown_C), 0.0),
        np.where(active_C, exposed_beside(gather_s_C + scatter_s_C, backward_C, slowdown_C), 0.0),
    )


def step_collectives(
    question: TrainingQuestion,
    stages: StageColumns,
    forward_s_CR: FloatArray,
    backward_s_CR: FloatArray,
) -> FloatArray:
    """Return what the collectives of a step without ZeRO-3 add to it (C,) [s].

    Gradients are reduced in buckets beside the last backward passes of a rank, and sharded
    weights gathered beside the first forward passes. With interleaving, all chunks but the last
    finish a round of the pipeline earlier, which is time for their gradients. The last bucket has
    nothing to run beside.

    Args:
        question: The candidates.
        stages: Parameters of the stages.
        forward_s_CR: Forward passes of one micro-batch on each rank (C, R) [s].
        backward_s_CR: Backward passes of one micro-batch on each rank (C, R) [s].

    Source: Megatron-LM docs, `overlap_grad_reduce`, `overlap_param_gather`; volumes: ZeRO
        (arXiv 1910.02054), section 7.
    Limits: The rank with most parameters is taken, and the rank that finishes last.
    """
    layouts = question.layouts
    held = [stages.over_ranks(part).max(axis=1) for part in (stages.dense_CS, stages.expert_CS)]
    gradients = [part * question.gradient_bytes for part in held]
    weights = [part * WEIGHT_BYTES for part in held]
    sharded_C = layouts.zero >= 1
    reduce_s_C = np.where(
        sharded_C,
        _times(question, "reduce_scatter", gradients),
        _times(question, "all_reduce", gradients),
    )
    reduce_s_C = reduce_s_C * np.where(layouts.zero == 2, layouts.micro_batches, 1.0)
    gather_s_C = np.where(sharded_C, _times(question, "all_gather", weights), 0.0)
    rounds_C = (layouts.vpp - 1.0) * np.minimum(layouts.pp, layouts.micro_batches)
    windows_C = (rounds_C + 1.0) / layouts.vpp
    engine, slowdown_C = question.engine, sm_share(question)
    share = 1.0 - 1.0 / engine.gradient_buckets if engine.gradient_overlap else 0.0
    exposed_C = np.zeros_like(reduce_s_C)
    # ZeRO-2 reduces the gradients of every micro-batch beside its backward pass
    reduced_beside_C = np.where(layouts.zero == 2, layouts.micro_batches, windows_C)
    for time_s_C, window_s_CR, passes_C in (
        (reduce_s_C, backward_s_CR, reduced_beside_C),
        (gather_s_C, forward_s_CR, windows_C),
    ):
        window_s_C = window_s_CR[:, 0] * passes_C * share
        exposed_C += time_s_C * (1.0 - share)
        exposed_C += exposed_beside(time_s_C * share, window_s_C, slowdown_C)
    return np.where(layouts.zero >= 3, 0.0, exposed_C)


def _times(question: TrainingQuestion, op: str, sizes: list[FloatArray]) -> FloatArray:
    """Return the time of a collective of dense and of expert parameters, one after the other."""
    layouts = question.layouts
    groups = (
        (layouts.dp * layouts.cp, layouts.tp),
        (layouts.expert_dp, layouts.ep * layouts.expert_tp),
    )
    total_s_C = np.zeros_like(layouts.tp)
    for bytes_C, (ranks_C, stride_C) in zip(sizes, groups, strict=True):
        if np.any((bytes_C > 0.0) & (ranks_C > 1.0)):
            group = GroupColumns(ranks_C, stride_C, question.index_C)
            times_VC = collective_times(question, op, bytes_C, group)
            total_s_C += times_VC[0] / question.engine.efficiency_communication
    return total_s_C
