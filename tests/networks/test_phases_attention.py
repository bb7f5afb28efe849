from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas import networks
from perfatlas.operators import (
    Attention,
    Gemm,
    GroupedGemm,
    LatentAttention,
    Operator,
    Phase,
    Streaming,
)
from perfatlas.quantities import UnsupportedError

BF16 = networks.ModelFormats(gemm="bf16", moe="bf16", kv="bf16", attention="bf16")
LLAMA = "meta-llama/Llama-3.1-70B"
HYBRIDS = (
    LLAMA,
    "openai/gpt-oss-120b",
    "deepseek-ai/DeepSeek-V3",
    "deepseek-ai/DeepSeek-V3.2",
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    "Qwen/Qwen3.5-397B-A17B",
)


def _tokens(batch: float, q_len: float, kv_len: float, ranks: float = 1.0) -> networks.StepTokens:
    one = np.ones(1)
    return networks.StepTokens(
        batch=batch * one, q_len=q_len * one, kv_len=kv_len * one, head_ranks=ranks * one
    )


def _step(
    name: str, phase: Phase, tokens: networks.StepTokens, formats: networks.ModelFormats = BF16
) -> dict[str, Operator]:
    architecture = networks.resolve_model(name).network
    return {op.name: op for op in architecture.step_operators(formats, phase, tokens)}


def _flop(operator: Operator) -> float:
    return float(operator.work().flop[0])


def test_dense_decode_by_hand() -> None:
    # 64 sequences of 2048 keys, Llama-3.1-70B: width 8192, 64 + 8 heads of 128, 28672 inside.
    step = _step(LLAMA, Phase.DECODE, _tokens(64, 1, 2048))
    assert _flop(step["qkv_projection"]) == 2 * 64 * 8192 * (64 + 2 * 8) * 128
    assert _flop(step["attention"]) == 2 * 64 * 64 * 2048 * (128 + 128)
    assert _flop(step["gate_up_projection"]) == 2 * 64 * 8192 * 2 * 28672
    assert _flop(step["lm_head"]) == 2 * 64 * 8192 * 128256
    assert float(step["attention"].work().cold_bytes[0]) == 64 * 2047 * 8 * 256 * 2
    assert step["qkv_projection"].count[0] == 80
    assert step["lm_head"].count[0] == 1


def test_weights_of_the_gemms_are_the_parameters() -> None:
    architecture = networks.resolve_model(LLAMA).network
    operators = architecture.step_operators(BF16, Phase.PREFILL, _tokens(1, 1, 1))
    elements = sum(float((op.n * op.k * op.count)[0]) for op in operators if isinstance(op, Gemm))
    counts = architecture.parameters()
    assert elements == counts.dense_linear + counts.lm_head


def test_key_value_heads_are_repeated_for_more_ranks() -> None:
    # 16 ranks of 8 key-value heads: each has 4 query heads and one copied pair, (4 + 2) x 128.
    step = _step(LLAMA, Phase.DECODE, _tokens(1, 1, 8, ranks=16))
    qkv, attention = step["qkv_projection"], step["attention"]
    assert isinstance(qkv, Gemm)
    assert isinstance(attention, Attention)
    assert qkv.n[0] / 16 == 6 * 128
    assert attention.num_kv_heads[0] / 16 == 1


def test_quantization_precedes_dynamic_formats_only() -> None:
    tokens = _tokens(4, 1, 8)
    formats = replace(BF16, gemm="fp8_dynamic")
    dynamic = _step(LLAMA, Phase.DECODE, tokens, formats)
    quantized = {op.name for op in dynamic.values() if isinstance(op, Streaming)}
    assert {"qkv_projection_quantize", "down_projection_quantize"} <= quantized
    assert "lm_head_quantize" not in quantized
    assert dynamic["down_projection_quantize"].shard == "width"
    # 4 rows of 28672 in 16 bit read, in 8 bit written.
    moved = dynamic["down_projection_quantize"].work().activation_bytes[0]
    assert moved == 4 * 28672 * 3


def test_projections_follow_the_checkpoint() -> None:
    architecture = networks.resolve_model("openai/gpt-oss-120b").network
    unquantized = replace(architecture.checkpoint, attention_quantized=False)
    model = replace(architecture, checkpoint=unquantized)
    formats = replace(BF16, gemm="mxfp4", moe="mxfp4")
    named = {op.name: op for op in model.step_operators(formats, Phase.DECODE, _tokens(1, 1, 8))}
    assert named["qkv_projection"].compute_format == "bf16"
    qkv, experts = named["qkv_projection"], named["experts"]
    assert isinstance(qkv, Gemm)
    assert isinstance(experts, GroupedGemm)
    assert (qkv.format, experts.format) == ("bf16", "mxfp4")


def test_unknown_format_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="fp9"):
        _step(LLAMA, Phase.DECODE, _tokens(1, 1, 8), replace(BF16, gemm="fp9"))


def test_absorbed_decode_by_hand() -> None:
    # DeepSeek-V3: 128 heads, latent 512, rope 64, nope 128, value 128; 8 sequences of 1000 keys.
    decode = _step("deepseek-ai/DeepSeek-V3", Phase.DECODE, _tokens(8, 1, 1000))
    assert _flop(decode["latent_q_absorb"]) == 2 * 8 * 128 * 128 * 512
    assert _flop(decode["latent_v_expand"]) == 2 * 8 * 128 * 512 * 128
    assert _flop(decode["latent_attention"]) == 2 * 8 * 128 * 1000 * (512 + 64 + 512)
    assert "kv_b_projection" not in decode


def test_expanded_prefill_by_hand() -> None:
    # 2 sequences: 10 new tokens after 30 cached; keys 31..40 per query, 355 pairs.
    prefill = _step("deepseek-ai/DeepSeek-V3", Phase.PREFILL, _tokens(2, 10, 40))
    assert _flop(prefill["kv_b_projection"]) == 2 * (2 * 40) * 512 * 128 * (128 + 128)
    assert _flop(prefill["latent_attention"]) == 2 * 2 * 128 * 355 * (128 + 64 + 128)


@pytest.mark.parametrize("kv_len", [1000.0, 100_000.0])
def test_sparse_decode_by_hand(kv_len: float) -> None:
    # DeepSeek-V3.2: 64 index heads of 128, keys in 8 bit with a 4-byte scale, 2048 selected.
    step = _step("deepseek-ai/DeepSeek-V3.2", Phase.DECODE, _tokens(4, 1, kv_len))
    scores, attention = step["indexer_scores"], step["latent_attention"]
    assert _flop(scores) == 2 * 4 * kv_len * 64 * 128
    assert float(scores.work().cold_bytes[0]) == pytest.approx(4 * kv_len * 132)
    logits = 4 * kv_len * 4.0
    assert float(scores.work().activation_bytes[0]) == pytest.approx(logits + 4 * 64 * 128)
    assert _flop(attention) == 2 * 4 * 128 * min(kv_len, 2048) * (512 + 64 + 512)


def test_sparse_prefill_by_hand() -> None:
    # 4096 tokens: scores over every causal pair; 2048 growing queries, then 2048 of 2048 keys.
    step = _step("deepseek-ai/DeepSeek-V3.2", Phase.PREFILL, _tokens(1, 4096, 4096))
    causal = 4096 * 4097 // 2
    selected = 2048 * 2049 // 2 + 2048 * 2048
    assert _flop(step["indexer_scores"]) == 2 * causal * 64 * 128
    attention = step["latent_attention"]
    assert isinstance(attention, LatentAttention)
    assert _flop(attention) == 2 * 128 * selected * (512 + 64 + 512)


def test_window_bounds_decode_of_interleaved_layers() -> None:
    architecture = networks.resolve_model("openai/gpt-oss-120b").network
    operators = architecture.step_operators(BF16, Phase.DECODE, _tokens(1, 1, 5000))
    attention = [op for op in operators if isinstance(op, Attention)]
    flop = sorted(_flop(op) for op in attention)
    assert flop == [2 * 64 * 128 * 128, 2 * 64 * 5000 * 128]
    assert [op.count[0] for op in attention] == [18, 18]


@pytest.mark.parametrize("name", HYBRIDS)
@given(batch=st.integers(1, 64), queries=st.integers(1, 300), cached=st.integers(0, 300))
def test_columns_are_the_single_answers(name: str, batch: int, queries: int, cached: int) -> None:
    architecture = networks.resolve_model(name).network
    column = networks.StepTokens(
        batch=np.array([1.0, batch]),
        q_len=np.array([1.0, queries]),
        kv_len=np.array([1.0, queries + cached]),
    )
    together = architecture.step_operators(BF16, Phase.PREFILL, column)
    alone = architecture.step_operators(
        BF16, Phase.PREFILL, _tokens(batch, queries, queries + cached)
    )
    for many, one in zip(together, alone, strict=True):
        assert many.name == one.name
        for both, single in zip(many.work(), one.work(), strict=True):
            assert both[1] == single[0]
            assert np.isfinite(both).all()


@pytest.mark.parametrize("name", HYBRIDS)
@given(count=st.integers(2, 60))
def test_splitting_a_group_of_equal_layers_changes_nothing(name: str, count: int) -> None:
    architecture = networks.resolve_model(name).network
    layer = replace(architecture.layers[0], count=count)
    halves = (replace(layer, count=1), replace(layer, count=count - 1))
    totals = [
        sum(
            float((op.count * op.work().flop)[0])
            for op in replace(architecture, layers=layers).step_operators(
                BF16, Phase.DECODE, _tokens(3, 1, 77)
            )
        )
        for layers in ((layer,), halves)
    ]
    assert totals[0] == pytest.approx(totals[1])


def test_direct_query_projection_has_no_query_latent() -> None:
    mla = networks.MlaAttention(
        num_heads=2,
        q_lora_rank=0,
        kv_lora_rank=8,
        nope_dim=4,
        rope_dim=2,
        value_head_dim=4,
        indexer=networks.SparseIndexer(num_heads=1, head_dim=4, top_k=2),
    )
    model = networks.Architecture(
        model_type="deepseek_v2",
        hidden_size=16,
        vocab_size=32,
        tie_word_embeddings=True,
        layers=(networks.LayerGroup(count=1, mixer=mla, ffn=None, norms=1),),
    )
    named = {op.name: op for op in model.step_operators(BF16, Phase.DECODE, _tokens(1, 1, 9))}
    query, index = named["q_projection"], named["indexer_q_projection"]
    assert isinstance(query, Gemm)
    assert isinstance(index, Gemm)
    assert (query.k[0], query.n[0]) == (16, 2 * 6)
    assert index.k[0] == 16
    assert "q_b_projection" not in named
