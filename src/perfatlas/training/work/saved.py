"""Activations that the forward pass keeps for the backward pass.

Shape legend: C candidates, G segments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.operators import Attention, Gemm, GroupedGemm, LatentAttention, Scan, Streaming
from perfatlas.training.work.operators import EMBEDDING, Part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.models import Architecture
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
_KEEPS_INPUT: Final = ("norm", "activation", "output_gate", "qk_norm", "latent_norm", "gated_norm")


def saved_bytes(
    architecture: Architecture, rows: Sequence[Row], layouts: Layouts, engine: TrainingEngine
) -> FloatArray:
    """Return the bytes kept per layer of each segment and micro-batch, by recompute level (3, C, G).

    Linear layers, norms and activations keep their inputs; attention keeps queries, keys, values
    and the statistics of its softmax, since the output is the input of the next product. Selective
    recomputation drops the statistics, and the scores of an attention that is not fused; full
    recomputation keeps only the input of the layer.

    Args:
        architecture: The model.
        rows: The operators, from `model_operators`.
        layouts: The layouts (C,).
        engine: The training engine.

    Source: Korthikanti et al. 2022 (arXiv 2205.05198), equations 1 to 4, for the rules; without
        dropout, and with the widths of the model's own blocks. Llama-3-8B: 34.0 s b h per layer.
    Limits: Quantized copies of activations are not counted beside the 16-bit ones.
    """
    segments = len(architecture.layers) + 2
    kept_CG = np.zeros((layouts.size, segments))
    attention_CG = np.zeros((layouts.size, segments))
    for row in rows:
        if row.part == Part.FORWARD:
            kept_CG[:, row.segment] += _kept(row.operator, layouts, engine)
            attention_CG[:, row.segment] += _scores(row.operator, engine)
    width_C = layouts.tokens * architecture.hidden_size * ACTIVATION_BYTES
    full_CG = np.zeros_like(kept_CG)
    full_CG[:, 1:-1] = (width_C / layouts.token_ranks)[:, None]
    full_CG[:, 0], full_CG[:, -1] = kept_CG[:, 0], kept_CG[:, -1]
    return np.stack([kept_CG + attention_CG, kept_CG, full_CG])


def _kept(operator: Operator, layouts: Layouts, engine: TrainingEngine) -> FloatArray:
    match operator:
        case Gemm():
            divided = operator.shard in ("column", "vocab")
            parts_C = layouts.token_ranks if divided else np.ones_like(layouts.tp)
            input_C = operator.m * operator.k / parts_C * ACTIVATION_BYTES
            logits_C = operator.m * operator.n * LOGIT_BYTES if operator.shard == "vocab" else 0.0
            copies_C = input_C * engine.dropout_mask_share if operator.shard == "row" else 0.0
            return input_C + logits_C + copies_C
        case GroupedGemm():
            rows_C = operator.tokens * operator.top_k / operator.ep
            width_C = operator.intermediate / operator.moe_tp
            each_C = operator.hidden + operator.matrices * width_C
            return rows_C * each_C * ACTIVATION_BYTES
        case Attention():
            heads_C = operator.num_heads * operator.head_dim
            keys_C = operator.num_kv_heads * (operator.head_dim + operator.value_head_dim)
            return operator.batch * operator.q_len * (heads_C + keys_C) * ACTIVATION_BYTES
        case LatentAttention():
            query_C = operator.nope_dim + operator.rope_dim
            width_C = operator.num_heads * (2.0 * query_C + operator.value_head_dim)
            return operator.batch * operator.q_len * width_C * ACTIVATION_BYTES
        case Scan():
            return operator.tokens * operator.io_bytes_per_token
        case Streaming() if operator.stream in _KEEPS_INPUT:
            inputs = 2.0 if operator.stream == "norm" else 1.0  # a norm adds the residual first
            return operator.read_bytes / inputs
        case Streaming() if operator.stream == EMBEDDING:
            return operator.tokens * 8.0  # token ids and positions
    return np.zeros_like(layouts.tp)


def _scores(operator: Operator, engine: TrainingEngine) -> FloatArray:
    """Return what only attention without recomputation keeps."""
    if not isinstance(operator, Attention | LatentAttention):
        return np.zeros(1)
    queries_C = operator.batch * operator.q_len * operator.num_heads
    if engine.fused_attention:
        return queries_C * STATISTICS_BYTES
    # softmax input and output in 16 bits, and a mask of one byte
    return queries_C * operator.kv_len * (2.0 * ACTIVATION_BYTES + 1.0)
