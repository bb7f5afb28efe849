"""Convert queries for one operator to operator columns, one candidate per query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfatlas.models import stream_bytes
from perfatlas.operators import Attention, Gemm, GroupedGemm, LatentAttention, Phase, Streaming
from perfatlas.scenario.resolution import format_of
from perfatlas.verbs.kernel.grouped_tiles import fixed_tile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.operators import FloatArray
    from perfatlas.verbs.kernel.question import (
        AttentionInputs,
        ElementwiseInputs,
        GemmInputs,
        MoeInputs,
    )


def gemm_columns(inputs: Sequence[GemmInputs]) -> Gemm:
    """Return matrix products of one format as an operator over candidates.

    Args:
        inputs: Queries with equal text fields.
    """
    number_format = format_of(inputs[0].format)
    tiles = [fixed_tile(one) for one in inputs]
    return Gemm(
        name="gemm",
        phase=Phase.PREFILL,
        count=np.ones(len(inputs)),
        m=_column([one.m * one.groups for one in inputs]),
        n=_column([one.n for one in inputs]),
        k=_column([one.k for one in inputs]),
        format=number_format.name,
        weight_bytes_per_element=number_format.weight_bytes,
        input_bytes_per_element=number_format.activation_bytes,
        quantizes_input=float(inputs[0].quantization == "included"),
        groups=_column([one.groups for one in inputs]),
        tile_rows=_column([rows for rows, _ in tiles]),
        tile_columns=_column([columns for _, columns in tiles]),
        uneven_groups=float(inputs[0].group_sizes == "random"),
    )


def attention_columns(inputs: Sequence[AttentionInputs]) -> Attention | LatentAttention:
    """Return attentions of one phase, type and format as an operator over candidates.

    Args:
        inputs: Queries with equal text fields.
    """
    phase, cache = Phase(inputs[0].phase), format_of(inputs[0].kv_format)
    shared: dict[str, Any] = {
        "name": "attention",
        "phase": phase,
        "count": np.ones(len(inputs)),
        "batch": _column([one.batch for one in inputs]),
        "q_len": _column(
            [one.q_len or (1 if phase == Phase.DECODE else one.kv_len) for one in inputs]
        ),
        "kv_len": _column([one.kv_len for one in inputs]),
        "num_heads": _column([one.num_heads for one in inputs]),
        "format": format_of(inputs[0].format).name,
        "kv_format": cache.name,
        "kv_bytes_per_element": cache.weight_bytes,
    }
    head_dim = _column([one.head_dim for one in inputs])
    window = _column([one.window for one in inputs])
    if inputs[0].kind == "mla":
        return LatentAttention(
            **shared,
            kv_lora_rank=_column([one.kv_lora_rank for one in inputs]),
            rope_dim=_column([one.rope_dim for one in inputs]),
            nope_dim=head_dim,
            value_head_dim=head_dim,
            selected=window,
        )
    return Attention(
        **shared,
        num_kv_heads=_column([one.num_kv_heads or one.num_heads for one in inputs]),
        head_dim=head_dim,
        value_head_dim=head_dim,
        window=window,
        causal=inputs[0].mask == "causal",
        cache_append=appends(inputs[0]),
    )


def appends(inputs: AttentionInputs) -> bool:
    """Return whether the time includes the append to the KV cache."""
    if inputs.cache_append is None:
        return inputs.direction == "forward"
    return inputs.cache_append == "included"


def moe_columns(inputs: Sequence[MoeInputs]) -> GroupedGemm:
    """Return MoE layers of one format and distribution as an operator over candidates.

    Args:
        inputs: Queries with equal text fields.
    """
    number_format = format_of(inputs[0].format)
    return GroupedGemm(
        name="experts",
        phase=Phase.PREFILL,
        count=np.ones(len(inputs)),
        tokens=_column([one.tokens for one in inputs]),
        hidden=_column([one.hidden for one in inputs]),
        intermediate=_column([one.intermediate for one in inputs]),
        experts=_column([one.experts for one in inputs]),
        top_k=_column([one.top_k for one in inputs]),
        ep=_column([one.ep for one in inputs]),
        moe_tp=_column([one.moe_tp for one in inputs]),
        matrices=3,
        format=number_format.name,
        weight_bytes_per_element=number_format.weight_bytes,
        input_bytes_per_element=number_format.activation_bytes,
        distribution=inputs[0].distribution,
    )


def elementwise_columns(inputs: Sequence[ElementwiseInputs]) -> Streaming:
    """Return elementwise operators of one kind and format as an operator over candidates.

    Args:
        inputs: Queries with equal text fields.
    """
    first = inputs[0]
    tokens, width = (
        _column([getattr(one, name) for one in inputs]) for name in ("tokens", "width")
    )
    row = stream_bytes(
        first.op,
        width,
        kv_width=_column([one.kv_width for one in inputs]),
        kv_bytes=format_of(first.kv_format).weight_bytes,
        quantized_bytes=format_of(first.format).activation_bytes,
    )
    return Streaming(
        name=first.op,
        phase=Phase.PREFILL,
        count=np.ones(len(inputs)),
        stream=first.op,
        tokens=tokens,
        read_bytes=tokens * row.read,
        write_bytes=tokens * row.write,
        cold_read_bytes=row.cold + tokens * row.cold_per_token,
    )


def _column(numbers: Sequence[float]) -> FloatArray:
    return np.array(numbers, dtype=np.float64)
