"""Data-parallel collectives: gradients and weights, and their exposed time.

Shape legend: C candidates, R ranks of a pipeline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.step.overlap import exposed_time
from perfatlas.training.step.collective_prices import GroupColumns, collective_times
from perfatlas.training.step.costs import taken_sms
from perfatlas.training.step.links import between_sites_s, with_sends_s
from perfatlas.training.step.states import WEIGHT_BYTES, shard_ranks, state_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray
    from perfatlas.training.step.question import TrainingQuestion
    from perfatlas.training.step.stages import StageColumns

# A ring reads and writes its buffer once on every rank.
_READ_AND_WRITTEN: Final = 2.0
PER_MICRO_BATCH: Final = "micro_batch"


class LayerSharding(NamedTuple):
    """Exposed collectives of fully sharded layers, per layer and micro-batch (C,) [s]."""

    forward_s_C: FloatArray
    backward_s_C: FloatArray


class _Collectives(NamedTuple):
    """Collectives of dense and of expert parameters, one after the other."""

    time_s_C: FloatArray  # Their time alone (C,) [s]
    held_back_s_C: FloatArray  # Computation beside them that is not done in that time (C,) [s]


def reduced_per_micro_batch(question: TrainingQuestion) -> NDArray[np.bool_]:
    """Return where gradients are reduced, and weights gathered, in every micro-batch (C,).

    Elsewhere ranks keep whole gradients, and with ZeRO-3 whole weights, until the last micro-batch.

    Source: PyTorch FSDP2, `set_requires_gradient_sync` and `set_reshard_after_backward`: both are
        the choice of the training loop; torch.distributed.pipelining turns them off for all but
        the last backward pass of a stage. Megatron-FSDP reduces every micro-batch.
    """
    engine, layouts = question.engine, question.layouts
    each_C = np.where(
        layouts.pp > 1,
        engine.reduction_in_pipelines == PER_MICRO_BATCH,
        engine.reduction == PER_MICRO_BATCH,
    )
    reduced_C: NDArray[np.bool_] = each_C & (layouts.zero >= 2)
    return reduced_C


def sharded_layers(
    question: TrainingQuestion,
    stages: StageColumns,
    forward_s_C: FloatArray,
    backward_s_C: FloatArray,
) -> LayerSharding:
    """Return what ZeRO-3 adds to a layer (C,) [s]; zero for other candidates.

    The weights of the next layer are gathered beside the computation of this one, forward and
    again backward, where gradients are also scattered.

    Source: ZeRO (arXiv 1910.02054), section 7.2: 1.5 times the volume of plain data parallelism;
        PyTorch FSDP (arXiv 2304.11277), section 3.3: prefetching.
    """
    active_C = (question.layouts.zero >= 3) & reduced_per_micro_batch(question)
    if not np.any(active_C):
        none_C = np.zeros_like(forward_s_C)
        return LayerSharding(none_C, none_C)
    weights = (stages.layer_dense_C, stages.layer_expert_C)
    trained = (stages.layer_trained_dense_C, stages.layer_trained_expert_C)
    element_bytes = state_bytes(question).gathered
    gather = _times(question, "all_gather", [column * element_bytes for column in weights])
    gradients = [column * question.gradient_bytes for column in trained]
    scatter = _times(question, "reduce_scatter", gradients)
    ahead = question.engine.gradient_overlap
    forward_C = forward_s_C if ahead else np.zeros_like(forward_s_C)
    backward_C = backward_s_C if ahead else np.zeros_like(forward_s_C)
    both = [column + more for column, more in zip(gather, scatter, strict=True)]
    return LayerSharding(
        *(
            np.where(active_C, exposed_time(moved.time_s_C, window_C, moved.held_back_s_C), 0.0)
            for moved, window_C in ((gather, forward_C), (_Collectives(*both), backward_C))
        )
    )


def step_collectives(
    question: TrainingQuestion,
    stages: StageColumns,
    forward_s_CR: FloatArray,
    backward_s_CR: FloatArray,
    send_s_C: FloatArray,
) -> FloatArray:
    """Return what the collectives of a step add to it outside its layers (C,) [s].

    Gradients are reduced in buckets beside the last backward passes of a rank, and sharded
    weights gathered beside the first forward passes. With interleaving, all chunks but the last
    finish a round of the pipeline earlier, which is time for their gradients. The last bucket has
    nothing to run beside. With ZeRO-3 in every micro-batch, the first layer that is gathered and
    the last one that is reduced have nothing to run beside. Replicas of shards, and sites, reduce
    their shards once per step, beside what the collectives of the last backward pass leave of it.

    Source: Megatron-LM docs, `overlap_grad_reduce`, `overlap_param_gather`; volumes: ZeRO
        (arXiv 1910.02054), section 7. Replicas: pytorch/pytorch#126166, FSDP2
        `set_requires_all_reduce`: gradients are scattered in every micro-batch and reduced over
        replicas in the last; Megatron-FSDP with replicas does the same.
    Limits: The rank with most parameters is taken, and the rank that finishes last.
    """
    layouts, engine = question.layouts, question.engine
    trained = (stages.trained_dense_CS, stages.trained_expert_CS)
    gradients = [
        question.gradient_bytes * stages.over_ranks(column).max(axis=1) for column in trained
    ]
    weights = _gathered_weights(question, stages)
    sharded_C = layouts.zero >= 1
    inside = _times(question, "reduce_scatter", gradients)
    scattered = _reduced(question, gradients, inside)
    reduced = _times(question, "all_reduce", gradients)
    gathered = _times(question, "all_gather", weights)
    each_C = reduced_per_micro_batch(question)
    passes_C = np.where(each_C, layouts.micro_batches, 1.0)
    reduce = [
        np.where(sharded_C, np.where(each_C, own_C, all_C), whole_C) * passes_C
        for own_C, all_C, whole_C in zip(inside, scattered, reduced, strict=True)
    ]
    gather = [np.where(sharded_C, one_C, 0.0) for one_C in gathered]
    rounds_C = (layouts.vpp - 1.0) * np.minimum(layouts.pp, layouts.micro_batches)
    windows_C = (rounds_C + 1.0) / layouts.vpp
    share = 1.0 - 1.0 / engine.gradient_buckets if engine.gradient_overlap else 0.0
    last = [
        np.where(each_C, all_C - own_C, 0.0) for all_C, own_C in zip(scattered, inside, strict=True)
    ]
    exposed_C = np.zeros_like(passes_C)
    for moved, window_s_CR, number_C in (
        # gradients of every micro-batch are reduced beside its own backward pass
        (reduce, backward_s_CR, np.where(each_C, layouts.micro_batches, windows_C)),
        (gather, forward_s_CR, windows_C),
    ):
        sends_s_C = number_C * share * layouts.vpp * send_s_C
        window_s_C = window_s_CR[:, 0] * number_C
        exposed_C += _exposed_s(question, moved, window_s_C, share, sends_s_C)
    layered_C = (layouts.zero >= 3) & each_C
    # the links are taken by the collectives of the last micro-batch itself, which lengthen its pass
    own_s_C = inside.time_s_C - inside.held_back_s_C
    own_s_C = np.where(layered_C, inside.time_s_C + gathered.time_s_C, own_s_C)
    left_s_C = np.maximum(backward_s_CR[:, 0] - own_s_C, 0.0)
    last_s_C = _exposed_s(question, last, left_s_C, share, 0.0)
    if np.any(layered_C):
        # the first gather of every micro-batch and the last reduction, each of one layer
        layers_C = np.maximum(stages.over_ranks(stages.layers_CS).max(axis=1), 1.0)
        first = _times(question, "all_gather", [weight / layers_C for weight in weights])
        end = _times(question, "reduce_scatter", [gradient / layers_C for gradient in gradients])
        ends_s_C = first.time_s_C * layouts.micro_batches + end.time_s_C
        exposed_C = np.where(layered_C, ends_s_C, exposed_C)
    return exposed_C + last_s_C


def _exposed_s(
    question: TrainingQuestion,
    moved: Sequence[FloatArray],
    window_s_C: FloatArray,
    share: float,
    sends_s_C: FloatArray | float,
) -> FloatArray:
    """Return what collectives add, of which a share can run beside a window of passes (C,) [s].

    Args:
        moved: Their time and the work that they hold back, as `_Collectives`.
    """
    time_s_C, held_back_s_C = moved
    both_s_C = with_sends_s(question, time_s_C * share, sends_s_C)
    added_s_C = exposed_time(both_s_C, window_s_C * share, held_back_s_C * share)
    return time_s_C * (1.0 - share) + added_s_C


def _gathered_weights(question: TrainingQuestion, stages: StageColumns) -> list[FloatArray]:
    """Return the weights that the ranks of a stage gather, dense and of experts (C,) [bytes].

    Frozen weights do not change: they are gathered only where ZeRO-3 shards them.
    """
    element_bytes = state_bytes(question).gathered
    if question.recipe.lora_rank:  # adapters are in 16 bits
        whole_C1 = (question.layouts.zero >= 3)[:, None]
        adapters = (stages.trained_dense_CS, stages.trained_expert_CS)
        dense_CS = np.where(whole_C1, stages.dense_CS - adapters[0], 0.0)
        expert_CS = np.where(whole_C1, stages.expert_CS - adapters[1], 0.0)
    else:
        adapters = (np.zeros_like(stages.dense_CS), np.zeros_like(stages.expert_CS))
        dense_CS, expert_CS = stages.trained_dense_CS, stages.trained_expert_CS
    ends_CS = np.minimum(stages.ends_CS, dense_CS)  # embedding and head stay in 16 bits
    bytes_CS = (
        dense_CS * element_bytes + ends_CS * (WEIGHT_BYTES - element_bytes),
        expert_CS * element_bytes,
    )
    return [
        stages.over_ranks(one_CS + WEIGHT_BYTES * own_CS).max(axis=1)
        for one_CS, own_CS in zip(bytes_CS, adapters, strict=True)
    ]


def _reduced(
    question: TrainingQuestion, gradients: list[FloatArray], scattered: _Collectives
) -> _Collectives:
    """Return the reduction of gradients to their shards, over all replicas of them.

    With replicas of shards, each rank scatters inside its group, and reduces its shard over the
    replicas, first those of its own site.
    """
    if question.recipe.sharding_replicas == 1:
        return scattered
    shards = [
        bytes_C / ranks_C for bytes_C, ranks_C in zip(gradients, shard_ranks(question), strict=True)
    ]
    across = _times(question, "all_reduce", shards, replicas=True)
    return _Collectives(
        between_sites_s(question, gradients, scattered.time_s_C + across.time_s_C),
        scattered.held_back_s_C + across.held_back_s_C,
    )


def _times(
    question: TrainingQuestion, op: str, sizes: list[FloatArray], *, replicas: bool = False
) -> _Collectives:
    """Return a collective of dense and of expert parameters, one after the other.

    Computation beside it lacks its SMs, or the memory bandwidth of what it moves, whichever is
    more: how much memory limits a kernel then does not matter, and faster links hold back no more.
    """
    layouts = question.layouts
    strides = (layouts.tp, layouts.ep * layouts.expert_tp)
    inside = shard_ranks(question)
    if op == "all_reduce" and not replicas:  # without sharding, over all data-parallel ranks
        inside = (layouts.dp * layouts.cp, layouts.expert_dp)
    groups = list(zip(inside, strides, strict=True))
    if replicas:
        across = question.recipe.sharding_replicas / question.recipe.sites
        across_C = np.full_like(layouts.tp, across)
        groups = [(across_C, ranks_C * stride_C) for ranks_C, stride_C in groups]
    total_s_C, moved_C = np.zeros_like(layouts.tp), np.zeros_like(layouts.tp)
    for bytes_C, (ranks_C, stride_C) in zip(sizes, groups, strict=True):
        runs_C = (bytes_C > 0.0) & (ranks_C > 1.0)
        if np.any(runs_C):
            group = GroupColumns(ranks_C, stride_C, question.index_C)
            times_VC = collective_times(question, op, bytes_C, group)
            total_s_C += times_VC[0] / question.engine.efficiency_communication
            moved_C += np.where(runs_C, _READ_AND_WRITTEN * bytes_C, 0.0)
    if question.tier == "bound":
        return _Collectives(total_s_C, np.zeros_like(total_s_C))
    traffic_s_C = moved_C / question.devices().gather("memory_bandwidth")
    return _Collectives(total_s_C, np.maximum(taken_sms(question) * total_s_C, traffic_s_C))
