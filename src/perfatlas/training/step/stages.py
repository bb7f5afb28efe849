"""Times, parameters and activations of pipeline stages, from the costs per layer.

Shape legend: C candidates, S pipeline stages, R ranks, P parts of the step, K kinds of time,
L recompute levels, V variants, G segments.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from perfatlas.training.layouts import stage_layers
from perfatlas.training.schedules import stages_of_ranks
from perfatlas.training.step.pipeline import stages_held, sum_over_ranks

if TYPE_CHECKING:
    from perfatlas.networks import Network
    from perfatlas.operators import FloatArray
    from perfatlas.training.step.costs import MicroBatchCosts
    from perfatlas.training.step.pipeline import HeldStages
    from perfatlas.training.step.question import TrainingQuestion


@dataclass(frozen=True, kw_only=True)
class StageColumns:
    """What the pipeline stages of each candidate hold and cost."""

    layers_CS: FloatArray  # Layers (C, S)
    first_CS: FloatArray  # 1 for the stage with the embedding (C, S)
    last_CS: FloatArray  # 1 for the stage with the head (C, S)
    by_rank: HeldStages  # Stages that each rank holds
    dense_CS: FloatArray  # Parameters outside routed experts on one rank (C, S)
    expert_CS: FloatArray  # Parameters of routed experts on one rank (C, S)
    trained_dense_CS: FloatArray  # The part of `dense_CS` with gradients (C, S)
    trained_expert_CS: FloatArray  # The part of `expert_CS` with gradients (C, S)
    ends_CS: FloatArray  # Parameters of the embedding and the head, of `dense_CS` (C, S)
    saved_LCS: FloatArray  # Activations kept per micro-batch, by recompute level (L, C, S) [bytes]
    layer_dense_C: FloatArray  # `dense_CS` of a mean layer (C,)
    layer_expert_C: FloatArray  # `expert_CS` of a mean layer (C,)
    layer_trained_dense_C: FloatArray  # `trained_dense_CS` of a mean layer (C,)
    layer_trained_expert_C: FloatArray  # `trained_expert_CS` of a mean layer (C,)
    largest_C: FloatArray  # Parameters of the largest product of a layer (C,)
    layer_saved_LC: FloatArray  # Activations of a mean layer, by recompute level (L, C) [bytes]

    def spread(self, values_G: FloatArray, weights_G: FloatArray) -> FloatArray:
        """Return values of the stages, from values per layer of each segment (..., C, S).

        Args:
            weights_G: Share of the layers in each group (G - 2,).
        """
        layer = (values_G[..., 1:-1] * weights_G).sum(axis=-1)
        return spread_over_stages(self, values_G[..., 0], layer, values_G[..., -1])

    def over_ranks(self, values_CS: FloatArray) -> FloatArray:
        """Return the sum over the stages of each rank (C, R)."""
        return sum_over_ranks(values_CS, self.by_rank)


def group_shares(network: Network) -> FloatArray:
    """Return the share of the layers in each group (G - 2,)."""
    counts = np.array([float(group.count) for group in network.layers])
    shares: FloatArray = counts / counts.sum()
    return shares


def moe_share(network: Network) -> float:
    """Return the share of the layers that have routed experts."""
    shares_G = group_shares(network)
    return sum(
        float(share)
        for share, group in zip(shares_G, network.layers, strict=True)
        if group.experts is not None
    )


def spread_over_stages(
    stages: StageColumns, embedding: FloatArray, layer: FloatArray, head: FloatArray
) -> FloatArray:
    """Return a value of each stage (..., C, S).

    Args:
        embedding: Value of the embedding (..., C).
        layer: Value of a mean layer (..., C).
        head: Value of the head (..., C).
    """
    values: FloatArray = (
        layer[..., None] * stages.layers_CS
        + embedding[..., None] * stages.first_CS
        + head[..., None] * stages.last_CS
    )
    return values


def _embeddings_of_head(question: TrainingQuestion, embedding_C: FloatArray) -> FloatArray:
    """Return the embeddings that the rank of the head holds beside the head (C,).

    A tied head is the embedding itself where one rank holds both. Layers of multi-token prediction
    read the embedding, of which the rank that does not hold the first stage needs a copy.
    """
    pp_C, vpp_C = question.layouts.pp, question.layouts.vpp
    if question.network.tie_word_embeddings:
        return np.where(pp_C == 1, -embedding_C, 0.0)
    ranks = stages_of_ranks(question.schedule, 2, int(vpp_C.max())).tolist()
    ends = {0, max(max(stages) for stages in ranks)}
    together = question.recipe.mtp_depth == 0 or any(ends <= set(stages) for stages in ranks)
    return np.where((pp_C == 1) | together, 0.0, embedding_C)


def stage_columns(question: TrainingQuestion, costs: MicroBatchCosts) -> StageColumns:
    """Return the stages of each candidate.

    Source: copies of the embedding: Megatron-LM, `GPTModel`, on ranks with layers of multi-token
        prediction; DeepSeek-V3 (arXiv 2412.19437), section 3.2.3: shared where one rank holds both
        ends of the pipeline.
    Limits: Layers of different kinds are spread evenly over the stages. The reduction of gradients
        between copies of the embedding is not counted.
    """
    layouts, network, recipe = question.layouts, question.network, question.recipe
    layers_CS = stage_layers(
        network.num_layers,
        layouts,
        recipe.first_stage_layers,
        recipe.last_stage_layers,
        recipe.stage_layers,
    )
    stages_C1 = (layouts.pp * layouts.vpp)[:, None]
    position_S = np.arange(layers_CS.shape[1])
    shares_G, shape_C = group_shares(network), costs.index_C
    saved_LCG = costs.saved_bytes_LUG[:, shape_C]
    parameters = {name: values[shape_C] for name, values in costs.parameters._asdict().items()}
    largest_C = parameters.pop("largest_CG")[:, 1:-1].max(axis=1)
    ends_CG = np.zeros_like(parameters["dense_CG"])
    ends_CG[:, [0, -1]] = parameters["dense_CG"][:, [0]]
    copies_C = _embeddings_of_head(question, parameters["dense_CG"][:, 0])
    ends_CG[:, -1] += copies_C
    for name in ("dense_CG", "trained_dense_CG"):
        if name == "dense_CG" or recipe.lora_rank == 0:
            parameters[name] = parameters[name].copy()
            parameters[name][:, -1] = np.maximum(parameters[name][:, -1] + copies_C, 0.0)
    none_CS = np.zeros_like(layers_CS)
    wanted = {name.replace("_CG", "_CS"): values for name, values in parameters.items()}
    bare = StageColumns(
        layers_CS=layers_CS,
        first_CS=np.broadcast_to(position_S == 0, layers_CS.shape).astype(np.float64),
        last_CS=(position_S == stages_C1 - 1.0).astype(np.float64),
        by_rank=stages_held(question.schedule, layouts),
        dense_CS=none_CS,
        expert_CS=none_CS,
        trained_dense_CS=none_CS,
        trained_expert_CS=none_CS,
        ends_CS=none_CS,
        saved_LCS=np.zeros((3, *layers_CS.shape)),
        **{
            f"layer_{name.replace('_CG', '_C')}": (values[:, 1:-1] * shares_G).sum(axis=1)
            for name, values in parameters.items()
        },
        largest_C=largest_C,
        layer_saved_LC=(saved_LCG[..., 1:-1] * shares_G).sum(axis=-1),
    )
    filled: dict[str, Any] = {
        name: bare.spread(values, shares_G) for name, values in wanted.items()
    }
    filled |= {
        "ends_CS": bare.spread(ends_CG, shares_G),
        "saved_LCS": bare.spread(saved_LCG, shares_G),
    }
    return replace(bare, **filled)
