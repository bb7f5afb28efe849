from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from perfatlas import networks

HIDDEN = 8


def _model(
    mixer: networks.Mixer | None = None,
    ffn: networks.DenseFfn | networks.MoeFfn | None = None,
    count: int = 1,
) -> networks.Architecture:
    layer = networks.LayerGroup(count=count, mixer=mixer, ffn=ffn, norms=0)
    return networks.Architecture(
        model_type="llama",
        hidden_size=HIDDEN,
        vocab_size=10,
        tie_word_embeddings=True,
        layers=(layer,),
    )


def _block(
    mixer: networks.Mixer | None = None, ffn: networks.DenseFfn | networks.MoeFfn | None = None
) -> int:
    """Parameters of one block: the total less the embedding (80) and the final norm (8)."""
    return _model(mixer, ffn).parameters().total - 88


def test_llama_8b_by_hand() -> None:
    # Embedding and head 128256 x 4096 each; a layer is q and o 4096 x 4096 each, k and v
    # 4096 x 1024 each, three 4096 x 14336, two norms; one final norm.
    layer = 2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336 + 2 * 4096
    counts = networks.resolve_model("meta-llama/Llama-3.1-8B").network.parameters()
    assert counts.total == 2 * 128256 * 4096 + 32 * layer + 4096 == 8_030_261_248
    assert counts.active == counts.total


def test_gqa_options_by_hand() -> None:
    # q 8x8, k and v 8x4 each, o 8x8: 192. Biases 8+4+4, o 8; sinks 2; head norms 2x4.
    plain = networks.GqaAttention(num_heads=2, num_kv_heads=1, head_dim=4, value_head_dim=4)
    assert _block(plain) == 192
    assert _block(replace(plain, qkv_bias=True, output_bias=True, sinks=True)) == 192 + 24 + 2
    assert _block(replace(plain, qk_norm="head")) == 192 + 8
    assert _block(replace(plain, qk_norm="full")) == 192 + 8 + 4
    assert _block(replace(plain, output_gate=True)) == 192 + 64


def test_mla_with_indexer_by_hand() -> None:
    # q 8x6 + 6x(2x(3+1)), kv 8x(5+1) + 5x(2x(3+2)), o 4x8, norms 6+5: 48+48+48+50+32+11.
    mla = networks.MlaAttention(
        num_heads=2, q_lora_rank=6, kv_lora_rank=5, nope_dim=3, rope_dim=1, value_head_dim=2
    )
    assert _block(mla) == 237
    # Indexer of 2 heads of 4: 6x8 + 8x4 + layer norm 2x4 + head weights 8x2.
    indexed = replace(mla, indexer=networks.SparseIndexer(num_heads=2, head_dim=4, top_k=1))
    assert _block(indexed) == 237 + 48 + 32 + 8 + 16


def test_recurrent_mixers_by_hand() -> None:
    # keys 2, values 4: qkvz 8x12, ba 8x4, conv 8x3, vectors 2+2+2, o 4x8.
    delta = networks.GatedDeltaNet(
        num_key_heads=1, num_value_heads=2, key_head_dim=2, value_head_dim=2, conv_kernel=3
    )
    assert _block(delta) == 96 + 32 + 24 + 6 + 32
    # inner 4, channels 4+2x3: in 8x(4+10+2), conv 10x(4+1), A D dt 3x2, norm 4, out 4x8.
    ssd = networks.Mamba2(num_heads=2, head_dim=2, state_size=3, num_groups=1, conv_kernel=4)
    assert _block(ssd) == 128 + 50 + 6 + 4 + 32
    # inner 4: in 8x8, conv 4x5, x 4x(2+6), dt 2x4+4, A 4x3, D 4, out 4x8.
    selective = networks.Mamba1(intermediate_size=4, state_size=3, time_step_rank=2, conv_kernel=4)
    assert _block(selective) == 64 + 20 + 32 + 12 + 12 + 4 + 32


def test_moe_by_hand() -> None:
    # Router 8x4+4; 4 experts of 3x8x2 with biases 2x2+8; shared 3x8x5 with its gate 8.
    moe = networks.MoeFfn(
        num_experts=4,
        top_k=1,
        intermediate_size=2,
        shared_intermediate_size=5,
        shared_gate=True,
        bias=True,
        router_bias=True,
    )
    assert _block(ffn=moe) == 36 + 4 * (48 + 12) + 120 + 8
    counts = _model(ffn=moe).parameters()
    assert counts.total - counts.active == 3 * (48 + 12)


@pytest.mark.parametrize(
    ("name", "total_b", "active_b"),
    [
        # Published by the authors: DeepSeek-V3 (arXiv 2412.19437) 671B and 37B; gpt-oss model card
        # 116.83B and 5.13B without the embedding; Qwen3 (arXiv 2505.09388) 30.5B and 3.3B.
        ("deepseek-ai/DeepSeek-V3", 671.0, 37.0),
        ("openai/gpt-oss-120b", 116.83, 5.13 + 0.58),
        ("Qwen/Qwen3-30B-A3B", 30.5, 3.3),
        # arXiv 2005.14165, table D.1: 174,600M; arXiv 2104.04473, table 1: 529.6B and 1008.0B
        ("gpt3-175b", 174.6, 174.6),
        ("mt-nlg-530b", 529.6, 529.6),
        ("megatron-1t", 1008.0, 1008.0),
    ],
)
def test_published_totals(name: str, total_b: float, active_b: float) -> None:
    counts = networks.resolve_model(name).network.parameters()
    assert counts.total / 1e9 == pytest.approx(total_b, rel=2e-3)
    assert counts.active / 1e9 == pytest.approx(active_b, rel=2e-2)


def test_mtp_of_deepseek_v3_by_hand() -> None:
    # One MoE layer (11.505e9), the projection 2 x 7168^2 and three norms; the weights' README
    # states 11.5B unique parameters.
    counts = networks.resolve_model("deepseek-ai/DeepSeek-V3").network.parameters()
    assert counts.mtp / 1e9 == pytest.approx(11.5, rel=1e-2)


@given(count=st.integers(1, 200), width=st.integers(1, 64), experts=st.integers(1, 16))
def test_parts_sum_and_layers_add(count: int, width: int, experts: int) -> None:
    attention = networks.GqaAttention(num_heads=2, num_kv_heads=1, head_dim=4, value_head_dim=4)
    moe = networks.MoeFfn(num_experts=experts, top_k=1, intermediate_size=width)
    one, many = (_model(attention, moe, count=n).parameters() for n in (1, count))
    for counts in (one, many):
        parts = counts.embedding + counts.lm_head + counts.dense_linear + counts.expert
        assert parts + counts.other == counts.total
        assert counts.mixer_linear <= counts.dense_linear
        assert counts.active <= counts.total
    assert many.total - 88 == count * (one.total - 88)
