"""Questions about one operator as the columns that are priced, one candidate a question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfatlas.operators import Attention, Gemm, GroupedGemm, LatentAttention, Phase
from perfatlas.scenario.resolution import format_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.operators import FloatArray
    from perfatlas.verbs.kernel.question import AttentionQuestion, GemmQuestion, MoeQuestion


def gemm_columns(asked: Sequence[GemmQuestion]) -> Gemm:
    """Return matrix products of one format as one operator over candidates.

    Args:
        asked: Questions whose words are equal.
    """
    number_format = format_of(asked[0].format)
    return Gemm(
        name="gemm",
        phase=Phase.PREFILL,
        count=np.ones(len(asked)),
        m=_column([one.m for one in asked]),
        n=_column([one.n for one in asked]),
        k=_column([one.k for one in asked]),
        format=number_format.name,
        weight_bytes_per_element=number_format.weight_bytes,
        input_bytes_per_element=number_format.activation_bytes,
        quantizes_input=float(asked[0].quantization == "included"),
    )


def attention_columns(asked: Sequence[AttentionQuestion]) -> Attention | LatentAttention:
    """Return attentions of one phase, kind and formats as one operator over candidates.

    Args:
        asked: Questions whose words are equal.
    """
    phase, cache = Phase(asked[0].phase), format_of(asked[0].kv_format)
    shared: dict[str, Any] = {
        "name": "attention",
        "phase": phase,
        "count": np.ones(len(asked)),
        "batch": _column([one.batch for one in asked]),
        "q_len": _column(
            [one.q_len or (1 if phase == Phase.DECODE else one.kv_len) for one in asked]
        ),
        "kv_len": _column([one.kv_len for one in asked]),
        "num_heads": _column([one.num_heads for one in asked]),
        "format": format_of(asked[0].format).name,
        "kv_format": cache.name,
        "kv_bytes_per_element": cache.weight_bytes,
    }
    head_dim = _column([one.head_dim for one in asked])
    window = _column([one.window for one in asked])
    if asked[0].kind == "mla":
        return LatentAttention(
            **shared,
            kv_lora_rank=_column([one.kv_lora_rank for one in asked]),
            rope_dim=_column([one.rope_dim for one in asked]),
            nope_dim=head_dim,
            value_head_dim=head_dim,
            selected=window,
        )
    return Attention(
        **shared,
        num_kv_heads=_column([one.num_kv_heads or one.num_heads for one in asked]),
        head_dim=head_dim,
        value_head_dim=head_dim,
        window=window,
    )


def moe_columns(asked: Sequence[MoeQuestion]) -> GroupedGemm:
    """Return expert layers of one format and distribution as one operator over candidates.

    Args:
        asked: Questions whose words are equal.
    """
    number_format = format_of(asked[0].format)
    return GroupedGemm(
        name="experts",
        phase=Phase.PREFILL,
        count=np.ones(len(asked)),
        tokens=_column([one.tokens for one in asked]),
        hidden=_column([one.hidden for one in asked]),
        intermediate=_column([one.intermediate for one in asked]),
        experts=_column([one.experts for one in asked]),
        top_k=_column([one.top_k for one in asked]),
        ep=_column([one.ep for one in asked]),
        moe_tp=_column([one.moe_tp for one in asked]),
        matrices=3,
        format=number_format.name,
        weight_bytes_per_element=number_format.weight_bytes,
        input_bytes_per_element=number_format.activation_bytes,
        distribution=asked[0].distribution,
    )


def _column(numbers: Sequence[float]) -> FloatArray:
    return np.array(numbers, dtype=np.float64)
