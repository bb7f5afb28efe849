"""Lower bounds of the step time and of the memory of layouts, from the costs of a micro-batch.

A search leaves out what a bound excludes: the layout takes at least as long, or needs at least as
much memory, as its bound says. Bounds count the layers of ranks, but have no order of passes.

Shape legend: C candidates, U distinct shapes, G segments, L recompute levels, D distinct pipelines,
S stages, R ranks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.training.layouts import distinct_rows, stage_layers, take_layouts
from perfatlas.training.schedules import find_schedule
from perfatlas.training.step.costs import KINDS
from perfatlas.training.step.data_parallel import sharded_layers, step_collectives
from perfatlas.training.step.host import launch_s
from perfatlas.training.step.jitter import jitter_share
from perfatlas.training.step.pairs import overlapped_experts_s
from perfatlas.training.step.pipeline import copies_of_layers, stages_held, sum_over_ranks
from perfatlas.training.step.stages import group_shares, stage_columns
from perfatlas.training.step.states import shard_ranks, state_bytes

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.training.recipe import Recipe
    from perfatlas.training.step.costs import MicroBatchCosts
    from perfatlas.training.step.question import TrainingQuestion

# Schedules whose first rank holds as many micro-batches as the pipeline has ranks, if there are.
_FILLS_FIRST_RANK: Final = ("gpipe", "1f1b", "interleaved", "zb_h1")

# Parameters of stages, of which a rank holds at least the mean.
HELD: Final = ("dense_CS", "expert_CS", "trained_dense_CS", "trained_expert_CS", "ends_CS")


class StepBounds(NamedTuple):
    """Lower bounds of candidates."""

    step_s_C: FloatArray  # Least step time (C,) [s]
    memory_bytes_C: FloatArray  # Least memory of the fullest rank (C,) [bytes]


class _RankLayers(NamedTuple):
    """Layers of ranks that limit a pipeline, by distinct number of ranks and chunks (D,)."""

    which_C: IntArray  # Distinct sizes of each candidate (C,)
    first_D: FloatArray
    most_D: FloatArray
    most_before_D: FloatArray  # Layers in the stages before the first one of that rank
    last_D: FloatArray
    last_before_D: FloatArray  # Layers in the stages before its first one


class _Shapes(NamedTuple):
    """Forward and backward pass of a micro-batch by distinct shape and recompute level (L, U) [s].

    Args:
        layer_s_LU: Time in a mean layer.
        head_s_LU: Time in the head.
        ends_s_LU: Time in the embedding and the head.
    """

    layer_s_LU: FloatArray
    head_s_LU: FloatArray
    ends_s_LU: FloatArray


def lower_bounds(question: TrainingQuestion, costs: MicroBatchCosts) -> StepBounds:
    """Return lower bounds of the candidates.

    Args:
        question: The candidates, which keep all rules of layouts.

    Source: derived. The busiest rank works at least as long as a mean one. In a schedule with
        whole backward passes, a rank starts after a forward pass through the stages before its
        first one, and a backward pass through them follows its own last one.
    """
    none_C = np.zeros(question.layouts.size)
    return StepBounds(_step_s(question, costs, none_C, none_C), _memory_bytes(question, costs))


def sharper_step_bounds(question: TrainingQuestion, costs: MicroBatchCosts) -> FloatArray:
    """Return lower bounds of the step time that count data-parallel collectives too (C,) [s].

    They take longer to compute than `lower_bounds`, which they are never below.

    Args:
        question: The candidates, which keep all rules of layouts.

    Source: derived. What ZeRO-3 exposes in a mean layer is what it exposes in a step. A rank holds
        at least the mean of all parameters, so that its collectives last at least as long, and
        the first rank has at most ceil(L/S) layers of each stage, the embedding and the head to
        hide them.
    """
    layouts, shape_C, level_C = question.layouts, costs.index_C, question.layouts.recompute
    alone = replace(layouts, pp=np.ones(layouts.size), vpp=np.ones(layouts.size))
    even = replace(question.recipe, first_stage_layers=0, last_stage_layers=0, stage_layers=())
    even_steps = replace(question, schedule="1f1b", layouts=alone, recipe=even)
    whole = stage_columns(even_steps, costs)
    passes_PUG = costs.time_s[0].sum(axis=1)
    again_CG = costs.recomputed_s[0].sum(axis=1)[level_C, shape_C]
    passes_PCG = np.stack([passes_PUG[0, shape_C], passes_PUG[1:, shape_C].sum(axis=0) + again_CG])
    layer_PC = (passes_PCG[..., 1:-1] * group_shares(question.network)).sum(axis=-1)
    sharding_PC = np.stack(sharded_layers(question, whole, layer_PC[0], layer_PC[1]))
    copies = copies_of_layers(question.schedule)
    most_C: FloatArray = np.ceil(question.network.num_layers / (layouts.pp * layouts.vpp))
    if _is_uneven(question.recipe):
        most_C = np.full_like(most_C, question.network.num_layers)
    most_C = copies * layouts.vpp * most_C
    window_PC = most_C * (layer_PC + sharding_PC) + passes_PCG[..., 0] + passes_PCG[..., -1]
    launched_PC = launch_s(question, most_C[:, None])[..., 0]
    longest_PC = np.stack([launched_PC[0], launched_PC[1:].sum(axis=0)])
    window_PC += longest_PC  # no pass waits for the host longer than its launches take
    share_C1 = copies / layouts.pp[:, None]
    means = {name: getattr(whole, name) * share_C1 for name in HELD}
    mean = replace(whole, **means, layers_CS=most_C[:, None])
    forward_CR, backward_CR = window_PC[..., None]
    collectives_s_C = step_collectives(
        question, mean, forward_CR, backward_CR, np.zeros(layouts.size)
    )
    if find_schedule(question.schedule).overlaps_pairs:  # which may hide those of layers
        sharding_PC = np.zeros_like(sharding_PC)
    return _step_s(question, costs, sharding_PC.sum(axis=0), collectives_s_C)


def _is_uneven(recipe: Recipe) -> bool:
    return bool(recipe.first_stage_layers or recipe.last_stage_layers or recipe.stage_layers)


def _shapes(question: TrainingQuestion, costs: MicroBatchCosts) -> _Shapes:
    """Return the times of computation, and of transfers unless pairs of passes hide them."""
    shares_G = group_shares(question.network)
    kinds = list(range(len(KINDS)))
    if find_schedule(question.schedule).overlaps_pairs:
        kinds = [KINDS.index("compute")]
    passes_UG = costs.time_s[0][:, kinds].sum(axis=(0, 1))
    again_LUG = costs.recomputed_s[0][:, kinds].sum(axis=1)
    each_LUG = passes_UG + again_LUG
    return _Shapes(
        layer_s_LU=(each_LUG[..., 1:-1] * shares_G).sum(axis=-1),
        head_s_LU=each_LUG[..., -1],
        ends_s_LU=each_LUG[..., 0] + each_LUG[..., -1],
    )


def _step_s(
    question: TrainingQuestion,
    costs: MicroBatchCosts,
    sharding_s_C: FloatArray,
    collectives_s_C: FloatArray,
) -> FloatArray:
    """Return the lower bound of the step time (C,) [s]."""
    layouts, schedule = question.layouts, find_schedule(question.schedule)
    shapes, level_C, shape_C = _shapes(question, costs), layouts.recompute, costs.index_C
    layer_s_C = shapes.layer_s_LU[level_C, shape_C] + sharding_s_C
    head_s_C, ends_s_C = shapes.head_s_LU[level_C, shape_C], shapes.ends_s_LU[level_C, shape_C]
    all_s_C = question.network.num_layers * layer_s_C + ends_s_C
    batches_C = layouts.micro_batches
    step_s_C = batches_C * all_s_C / layouts.pp
    if not (schedule.splits_backward or schedule.overlaps_pairs):
        pipeline_s_C = _pipeline_s(question, layer_s_C, ends_s_C - head_s_C, head_s_C)
        step_s_C = np.maximum(step_s_C, pipeline_s_C)
    if question.expert_overlap:
        step_s_C = step_s_C - overlapped_experts_s(
            question, costs, np.zeros(layouts.size), np.full(layouts.size, np.inf)
        )
    engine = question.engine
    # without graphs of its kernels, a rank waits for the host
    layers_CS = np.full((layouts.size, 1), float(question.network.num_layers))
    launched_s_C = launch_s(question, layers_CS).sum(axis=(0, 2))
    step_s_C = np.maximum(step_s_C, launched_s_C * batches_C / layouts.pp)
    steady_s_C = step_s_C + collectives_s_C + engine.host_s_per_step
    bound_s_C: FloatArray = steady_s_C * (1.0 + jitter_share(question))
    return bound_s_C


def _pipeline_s(
    question: TrainingQuestion,
    layer_s_C: FloatArray,
    embedding_s_C: FloatArray,
    head_s_C: FloatArray,
) -> FloatArray:
    """Return the least time of a pipeline with whole backward passes (C,) [s].

    A rank works on all micro-batches. Before its first pass and after its last one, a micro-batch
    passes all stages before its first one.
    """
    batches_C = question.layouts.micro_batches
    ranks = _rank_layers(question)
    which_C = ranks.which_C
    first_s_C = batches_C * (ranks.first_D[which_C] * layer_s_C + embedding_s_C)
    most_s_C = (batches_C * ranks.most_D[which_C] + ranks.most_before_D[which_C]) * layer_s_C
    last_s_C = batches_C * (ranks.last_D[which_C] * layer_s_C + head_s_C)
    last_s_C += ranks.last_before_D[which_C] * layer_s_C
    longest_s_C: FloatArray = np.maximum(np.maximum(first_s_C, most_s_C), last_s_C)
    return longest_s_C


def _rank_layers(question: TrainingQuestion) -> _RankLayers:
    """Return the layers of the ranks that limit a pipeline."""
    recipe, layouts = question.recipe, question.layouts
    first_D, which_C = distinct_rows(np.stack([layouts.pp, layouts.vpp], axis=1).astype(np.int64))
    distinct = take_layouts(layouts, first_D)
    layers_DS = stage_layers(
        question.network.num_layers,
        distinct,
        recipe.first_stage_layers,
        recipe.last_stage_layers,
        recipe.stage_layers,
    )
    of_ranks_DR = sum_over_ranks(layers_DS, stages_held(question.schedule, distinct))
    before_DR = (np.cumsum(layers_DS, axis=1) - layers_DS)[:, : of_ranks_DR.shape[1]]
    row_D, last_D = np.arange(first_D.size), distinct.pp.astype(np.int64) - 1
    # of the ranks with most layers, the one that starts last
    most_D = of_ranks_DR.shape[1] - 1 - of_ranks_DR[:, ::-1].argmax(axis=1)
    return _RankLayers(
        which_C=which_C,
        first_D=of_ranks_DR[:, 0],
        most_D=of_ranks_DR[row_D, most_D],
        most_before_D=before_DR[row_D, most_D],
        last_D=of_ranks_DR[row_D, last_D],
        last_before_D=before_DR[row_D, last_D],
    )


def _memory_bytes(question: TrainingQuestion, costs: MicroBatchCosts) -> FloatArray:
    """Return the lower bound of the memory of the fullest rank (C,) [bytes].

    It is the larger of the model states of a mean rank and of what the first rank holds at least.
    """
    layouts, network, shape_C = question.layouts, question.network, costs.index_C
    shares_G, parameters = group_shares(network), costs.parameters
    sizes, recipe = state_bytes(question), question.recipe
    trained = (parameters.trained_dense_CG, parameters.trained_expert_CG)
    params = (parameters.dense_CG, parameters.expert_CG)
    states = min(sizes.states, sizes.end_states) * (1.0 - recipe.optimizer_offload)
    weights = min(sizes.weights, sizes.end_weights, sizes.frozen)
    each_bytes = (
        (params, weights, 3),
        (trained, question.gradient_bytes, 2),
        (trained, states, 1),
    )
    mean_C, first_C = np.zeros(layouts.size), np.zeros(layouts.size)
    least_C = layouts.vpp * np.floor(network.num_layers / (layouts.pp * layouts.vpp))
    if _is_uneven(recipe):
        least_C = np.zeros_like(least_C)
    tied_C = (layouts.pp == 1.0) & network.tie_word_embeddings
    for parts, size, sharded_from in each_bytes:
        for held_UG, ranks_C in zip(parts, shard_ranks(question), strict=True):
            layer_C = (held_UG[:, 1:-1] * shares_G).sum(axis=1)[shape_C]
            head_C = np.where(tied_C, 0.0, held_UG[:, -1][shape_C])
            all_C = network.num_layers * layer_C + held_UG[:, 0][shape_C] + head_C
            shards_C = np.where(layouts.zero >= sharded_from, ranks_C, 1.0)
            mean_C += copies_of_layers(question.schedule) * all_C * size / shards_C / layouts.pp
            first_C += (least_C * layer_C + held_UG[:, 0][shape_C]) * size / shards_C
    if question.schedule in _FILLS_FIRST_RANK:
        saved_LU = (costs.saved_bytes_LUG[..., 1:-1] * shares_G).sum(axis=-1)
        held_C = np.minimum(layouts.micro_batches, layouts.pp) * least_C
        on_gpu = 1.0 - recipe.activation_offload
        first_C = first_C + on_gpu * held_C * saved_LU[layouts.recompute, shape_C]
    bound_C: FloatArray = np.maximum(mean_C, first_C) + question.engine.context_bytes
    return bound_C
