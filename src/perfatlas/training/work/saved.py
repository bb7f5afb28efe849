"""Activations that the forward pass keeps for the backward pass.

Shape legend: C candidates, G segments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.formats import get_format
from perfatlas.operators import Attention, Gemm, GroupedGemm, LatentAttention, Scan, Streaming
from perfatlas.training.work.elementwise import EMBEDDING
from perfatlas.training.work.operators import Part
from perfatlas.training.work.recomputation import (
    NEVER,
    SAME_INPUT,
    RecomputedModules,
    dropped_of_experts,
    dropped_share,
    expert_activation,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.networks import Network
    from perfatlas.operators import FloatArray, Operator
    from perfatlas.training.layouts import Layouts
    from perfatlas.training.profiles import TrainingEngine
    from perfatlas.training.work.operators import Row

# Softmax statistics of flash attention, fp32 per query and head.
STATISTICS_BYTES: Final = 4.0
ACTIVATION_BYTES: Final = 2.0
# The products of the head keep logits in fp32 for the loss.
# Source: Megatron-LM, `vocab_parallel_cross_entropy`; Korthikanti et al. 2022, section 4.3.
LOGIT_BYTES: Final = 4.0
MASK_BYTES: Final = 1.0  # a dropout mask
INDEX_BYTES: Final = 8.0  # a token id, int64
JOINING: Final = "joining_projection"  # one of each layer of multi-token prediction
# products of which selective recomputation of operators keeps one in so many columns
_FIRST_OF_FFN: Final = {"gate_up_projection": 2.0, "up_projection": 1.0}
_KEEPS_INPUT: Final = ("activation", "output_gate", "qk_norm", "latent_norm", "gated_norm")


def saved_bytes(
    architecture: Network,
    rows: Sequence[Row],
    layouts: Layouts,
    engine: TrainingEngine,
    modules: RecomputedModules,
) -> FloatArray:
    """Return the bytes kept per layer and micro-batch, by recompute level and segment (3, C, G).

    Linear layers, norms and activations keep their inputs; attention keeps queries, keys, values
    and the statistics of its softmax, since the output is the input of the next product. Selective
    recomputation drops the statistics, and the scores of an attention that is not fused; full
    recomputation keeps only the input of the layer. Selective recomputation of operators keeps that
    input, the output of attention and those of every second product; that of modules drops what
    `dropped_share` says. Frozen layers keep no inputs, but their adapters do.

    Args:
        architecture: The model.
        rows: The operators, from `model_operators`.
        layouts: The layouts (C,).
        engine: The training engine.
        modules: What selective recomputation runs again.

    Source: Korthikanti et al. 2022 (arXiv 2205.05198), equations 1 to 4, for the rules; without
        dropout, and with the widths of the model's own blocks. Llama-3-8B: 34.0 s b h per layer.
        Operators: pytorch/torchtitan@9dec370, `_save_list`.
    Limits: Selective recomputation of operators keeps no outputs of experts and of latent
        attention. Of quantized products, engines with `quantized_activations` keep the quantized
        input instead of the 16-bit one; transposed copies are made when they are needed.
    """
    segments = len(architecture.layers) + 2
    kept_CG, attention_CG, dropped_CG, ends_CG = np.zeros((4, layouts.size, segments))
    for row in rows:
        if row.part != Part.FORWARD or row.role == "again":
            continue
        own_C = _kept_by_row(row, layouts, engine)
        kept_CG[:, row.segment] += own_C
        attention_CG[:, row.segment] += _scores(row.operator, engine)
        if row.recomputed_at == NEVER:
            ends_CG[:, row.segment] += own_C
        elif isinstance(row.operator, GroupedGemm) and row.role != "frozen":
            dropped_CG[:, row.segment] += dropped_of_experts(row.operator, modules)
        if row.recomputed_at != NEVER:
            dropped_CG[:, row.segment] += own_C * dropped_share(row.operator, modules)
    width_C = layouts.tokens * architecture.hidden_size * ACTIVATION_BYTES
    full_CG = ends_CG + (width_C / layouts.token_ranks)[:, None] * _inputs(rows, segments)
    kept_scores_CG = 0.0 if "core_attn" in modules.modules else attention_CG
    selective_CG = kept_CG - dropped_CG + kept_scores_CG
    if modules.operators:
        selective_CG = full_CG.copy()
        for row in rows:
            if row.part == Part.FORWARD and row.recomputed_at != NEVER:
                selective_CG[:, row.segment] += _kept_outputs(row.operator)
    return np.stack([kept_CG + attention_CG, selective_CG, full_CG])


def _inputs(rows: Sequence[Row], segments: int) -> FloatArray:
    """Return the layers of each segment whose input full recomputation keeps (G,)."""
    layers_G = np.ones(segments)
    layers_G[0] = 0.0
    layers_G[-1] = sum(
        float(row.operator.count[0])
        for row in rows
        if row.segment == segments - 1 and row.operator.name == JOINING
    )
    return layers_G


def _kept_by_row(row: Row, layouts: Layouts, engine: TrainingEngine) -> FloatArray:
    """Return what an operator keeps with any recomputation but full, over its count (C,) [bytes].

    A frozen product needs its input for no gradient, but frozen experts need what their activation
    reads; adapters of several products read one tensor, which the first of them keeps.
    """
    operator = row.operator
    if row.role == "frozen" and isinstance(operator, GroupedGemm):
        return operator.count * _kept_between(operator)
    if row.role == "frozen" and isinstance(operator, Gemm):
        return _logits(operator) if operator.shard == "vocab" else np.zeros(1)
    return operator.count * _kept(operator, layouts, engine)


def _kept_outputs(operator: Operator) -> FloatArray:
    """Return the outputs that selective recomputation of operators keeps (C,) [bytes].

    Of the products of queries, keys, values, output, gate, up and down projection, every second one
    is computed again: queries, values, the gate (or the only up projection) and the last remain,
    which no gradient needs.
    """
    if isinstance(operator, Attention):
        heads_C = operator.num_heads * (operator.head_dim + operator.value_head_dim)
        width_C = heads_C + operator.num_kv_heads * operator.value_head_dim
        kept_C = width_C * ACTIVATION_BYTES + operator.num_heads * STATISTICS_BYTES
        return operator.batch * operator.q_len * kept_C
    if isinstance(operator, Gemm) and operator.name in _FIRST_OF_FFN:
        return operator.m * operator.n * ACTIVATION_BYTES / _FIRST_OF_FFN[operator.name]
    return np.zeros(1)


def _kept(operator: Operator, layouts: Layouts, engine: TrainingEngine) -> FloatArray:
    """Return what an operator keeps (C,) [bytes]."""
    match operator:
        case Gemm():
            kept_C = _kept_by_product(operator, layouts, engine)
        case GroupedGemm():
            rows_C = operator.tokens * operator.top_k / operator.ep
            width_C = operator.intermediate / operator.moe_tp
            kept_C = rows_C * ((operator.hidden + width_C) * _input_bytes(operator, engine))
            kept_C = kept_C + _kept_between(operator)
        case Attention() | LatentAttention():
            kept_C = _kept_by_attention(operator)
        case Scan():
            kept_C = operator.tokens * operator.io_bytes_per_token
        case Streaming():
            kept_C = _kept_by_stream(operator)
        case _:
            kept_C = np.zeros_like(layouts.tp)
    return kept_C


def _kept_between(experts: GroupedGemm) -> FloatArray:
    """Return what the activation of experts reads (C,) [bytes]."""
    return expert_activation(experts).read_bytes


def _input_bytes(operator: Gemm | GroupedGemm, engine: TrainingEngine) -> float:
    """Return the bytes of an element of a product's input, as the backward pass reads it."""
    quantized = get_format(operator.format).quantize != "none"
    if quantized and not engine.quantized_activations:
        return ACTIVATION_BYTES
    return operator.input_bytes_per_element


def _kept_by_product(operator: Gemm, layouts: Layouts, engine: TrainingEngine) -> FloatArray:
    divided = operator.shard in ("column", "vocab")
    kept_C = operator.m * operator.k * _input_bytes(operator, engine)
    kept_C = kept_C / layouts.token_ranks if divided else kept_C
    if operator.name in SAME_INPUT:
        kept_C = 0.0 * kept_C
    if operator.shard == "vocab":
        kept_C = kept_C + _logits(operator)
    if operator.shard == "row":
        mask_C = operator.m * operator.n / layouts.token_ranks
        kept_C = kept_C + mask_C * MASK_BYTES * float(engine.dropout)
    return kept_C


def _logits(operator: Gemm) -> FloatArray:
    return operator.m * operator.n * LOGIT_BYTES


def _kept_by_attention(operator: Attention | LatentAttention) -> FloatArray:
    """Return queries, keys and values; the output is kept by the next product."""
    if isinstance(operator, Attention):
        keys_C = operator.num_kv_heads * (operator.head_dim + operator.value_head_dim)
        width_C = operator.num_heads * operator.head_dim + keys_C
    else:
        query_C = operator.nope_dim + operator.rope_dim
        width_C = operator.num_heads * (2.0 * query_C + operator.value_head_dim)
    return operator.batch * operator.q_len * width_C * ACTIVATION_BYTES


def _kept_by_stream(operator: Streaming) -> FloatArray:
    if operator.stream == EMBEDDING:
        return operator.tokens * INDEX_BYTES
    if operator.stream == "norm":  # reads the residual beside its input, and keeps their sum
        return operator.read_bytes / 2.0
    return operator.read_bytes if operator.stream in _KEEPS_INPUT else 0.0 * operator.read_bytes


def _scores(operator: Operator, engine: TrainingEngine) -> FloatArray:
    """Return what only attention without recomputation keeps."""
    if not isinstance(operator, Attention | LatentAttention):
        return np.zeros(1)
    queries_C = operator.batch * operator.q_len * operator.num_heads
    if engine.fused_attention:
        return queries_C * STATISTICS_BYTES
    # softmax input and output in 16 bits, and a mask of one byte
    return queries_C * operator.kv_len * (2.0 * ACTIVATION_BYTES + 1.0)
