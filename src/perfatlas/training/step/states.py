"""Bytes of weights, gradients and optimizer states, and the ranks that share them.

Shape legend: C candidates, R ranks of a pipeline.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.training.layouts import take_layouts
from perfatlas.training.work import Work, model_operators, rank_parameters, table_bytes

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray
    from perfatlas.training.layouts import Layouts
    from perfatlas.training.step.question import TrainingQuestion
    from perfatlas.training.step.stages import StageColumns

# Bytes per parameter: bf16 weights, and fp32 master weights, if the engine has them.
# Source: ZeRO (arXiv 1910.02054), section 3.1.
WEIGHT_BYTES: Final = 2.0
MASTER_BYTES: Final = 4.0
# Adam has two moments per parameter; Muon has one (Jordan et al. 2024), but Adam's two for the
# embedding and the head.
MOMENTS: Final = {"adamw": 2.0, "sgd": 1.0, "muon": 1.0}
MOMENT_BYTES: Final = {"fp32": 4.0, "bf16": 2.0, "fp8": 1.0}
FP8_BYTES: Final = 1.0
# MX blocks lie along rows, so that transposed products need a copy of their own.
# Source: Transformer Engine documentation, "MXFP8".
FP8_COPIES: Final = {"mxfp8": 2.0}


class StateBytes(NamedTuple):
    """Bytes per parameter."""

    weights: float  # Stored trained weights of layers
    end_weights: float  # Stored trained weights of the embedding and the head
    frozen: float  # Stored weights of layers without gradients
    states: float  # Master weights and moments of layers
    end_states: float  # Master weights and moments of the embedding and the head
    gathered: float  # Weights of layers as they are gathered; adapters are gathered in 16 bits


def state_bytes(question: TrainingQuestion) -> StateBytes:
    """Return the bytes per parameter of stored weights and of the optimizer beside them.

    Args:
        question: The candidates.

    Source: ZeRO (arXiv 1910.02054), section 3.1; FSDP2 (PyTorch, `MixedPrecisionPolicy`) stores
        fp32 weights, which are the master weights; FP8 weights: Megatron-LM, `--fp8-param-gather`;
        formats of moments: `--exp-avg-dtype`, of which DeepSeek-V3 uses bf16 (arXiv 2412.19437).
        Frozen weights: Transformer Engine documentation, `fp8_model_init`: layers keep the FP8
        copy alone, for inference and LoRA-like fine-tuning.
    """
    recipe = question.recipe
    moment = MOMENT_BYTES[question.moment_format]
    masters = MASTER_BYTES if question.engine.master_weights == "separate" else 0.0
    states = masters + MOMENTS[question.optimizer] * moment
    adam = masters + MOMENTS["adamw"] * moment if question.optimizer == "muon" else states
    gathered = FP8_BYTES if recipe.fp8_parameter_gather else WEIGHT_BYTES
    if question.engine.master_weights != "separate":
        trained = sole_weight_bytes(question)
        return StateBytes(trained, trained, WEIGHT_BYTES, states, adam, gathered)
    copies = FP8_COPIES.get(question.formats.gemm, 1.0)
    stored = FP8_BYTES * copies if recipe.fp8_parameter_gather else WEIGHT_BYTES
    trained = WEIGHT_BYTES if _frozen(question) else stored  # adapters are in 16 bits
    return StateBytes(trained, WEIGHT_BYTES, stored, states, adam, gathered)


def sole_weight_bytes(question: TrainingQuestion) -> float:
    """Return the bytes per trained parameter where weights have no separate master weights."""
    return MASTER_BYTES if question.engine.master_weights == "stored" else WEIGHT_BYTES


def shard_ranks(question: TrainingQuestion) -> tuple[FloatArray, FloatArray]:
    """Return the ranks that divide the states of dense and of expert parameters (C,).

    Source: Megatron-LM, `--num-distributed-optimizer-instances`; PyTorch FSDP2, meshes of two
        dimensions (hybrid sharding).
    """
    layouts, replicas = question.layouts, question.recipe.sharding_replicas
    dense_C = np.maximum(layouts.dp * layouts.cp / replicas, 1.0)
    return dense_C, np.maximum(layouts.expert_dp / replicas, 1.0)


def sharded_sum(
    question: TrainingQuestion,
    dense_CR: FloatArray,
    expert_CR: FloatArray,
    sharded_from: int,
) -> FloatArray:
    """Return the part of dense and expert values that one data-parallel rank holds (C, R)."""
    total_CR = np.zeros_like(dense_CR)
    sharded_C = question.layouts.zero >= sharded_from
    for held_CR, ranks_C in zip((dense_CR, expert_CR), shard_ranks(question), strict=True):
        total_CR += held_CR / np.where(sharded_C, ranks_C, 1.0)[:, None]
    return total_CR


def stored_weights(question: TrainingQuestion, stages: StageColumns) -> FloatArray:
    """Return the bytes of weights on each rank (C, R) [bytes]."""
    sizes = state_bytes(question)
    parts = []
    for held_CS, trained_CS, ends_CS in (
        (stages.dense_CS, stages.trained_dense_CS, stages.ends_CS),
        (stages.expert_CS, stages.trained_expert_CS, np.zeros_like(stages.ends_CS)),
    ):
        frozen_CS = held_CS - trained_CS
        trained_ends_CS = 0.0 if _frozen(question) else np.minimum(ends_CS, trained_CS)
        frozen_ends_CS = np.minimum(ends_CS, frozen_CS) if _frozen(question) else 0.0
        layers_CS = trained_CS - trained_ends_CS
        parts.append(
            stages.over_ranks(
                layers_CS * sizes.weights
                + trained_ends_CS * sizes.end_weights
                + frozen_CS * sizes.frozen
                + frozen_ends_CS * (WEIGHT_BYTES - sizes.frozen)
            )
        )
    return sharded_sum(question, parts[0], parts[1], 3)


def optimizer_states(question: TrainingQuestion, stages: StageColumns) -> FloatArray:
    """Return master weights and moments of each rank, offloaded or not (C, R) [bytes]."""
    sizes = state_bytes(question)
    dense_CS = stages.trained_dense_CS * sizes.states
    if not _frozen(question):
        dense_CS = dense_CS + stages.ends_CS * (sizes.end_states - sizes.states)
    expert_CS = stages.trained_expert_CS * sizes.states
    return sharded_sum(question, stages.over_ranks(dense_CS), stages.over_ranks(expert_CS), 1)


def table_states(question: TrainingQuestion, layouts: Layouts) -> tuple[FloatArray, FloatArray]:
    """Return weights and optimizer states of the embedding tables of a rank, each (C,) [bytes].

    Args:
        layouts: The layouts (C,).
    """
    work = Work(question.network, question.priced_formats, question.distribution)
    return table_bytes(work, layouts)


def checkpoint_bytes(question: TrainingQuestion) -> FloatArray:
    """Return the bytes of a checkpoint: weights and optimizer states that are trained (C,) [bytes].

    Args:
        question: The candidates.
    """
    sizes, network = state_bytes(question), question.network
    deeper = replace(network, mtp_layers=question.recipe.mtp_depth)
    counts = deeper.parameters()
    ends = counts.embedding + counts.lm_head
    layers = counts.total - ends + (counts.mtp if question.recipe.mtp_depth else 0)
    states = layers * sizes.states + ends * sizes.end_states
    separate = question.engine.master_weights == "separate"
    states += (WEIGHT_BYTES if separate else sole_weight_bytes(question)) * (layers + ends)
    first = take_layouts(question.layouts, np.zeros(1, np.int64))
    alone = replace(first, ep=np.ones(1), expert_tp=np.ones(1))
    states += sum(float(part_C[0]) for part_C in table_states(question, alone))
    if _frozen(question):
        states = _adapter_parameters(question) * (sizes.weights + sizes.states)
    return np.full(question.layouts.size, states)


def _adapter_parameters(question: TrainingQuestion) -> float:
    """Return the parameters of all adapters, which tensor-parallel ranks divide or repeat."""
    column = np.ones(1)
    first = take_layouts(question.layouts, np.zeros(1, np.int64))
    whole = replace(first, tp=column, cp=column, ep=column, expert_tp=column)
    network, modules = question.network, question.modules
    formats, routing = question.priced_formats, question.distribution
    rows = model_operators(Work(network, formats, routing, modules, question.recipe), whole)
    trained_G = rank_parameters(network, rows, whole).trained_dense_CG[0]
    layers_G = np.array([1.0, *(float(group.count) for group in network.layers), 1.0])
    return float(trained_G @ layers_G)


def _frozen(question: TrainingQuestion) -> bool:
    return question.recipe.lora_rank > 0
