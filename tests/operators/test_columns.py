from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas import operators


def column(*values: float) -> operators.FloatArray:
    return np.array(values, dtype=np.float64)


@given(q_len=st.integers(1, 40), prefix=st.integers(0, 40), limit=st.integers(0, 60))
def test_visible_pairs_equal_counting_them_one_by_one(q_len: int, prefix: int, limit: int) -> None:
    kv_len = q_len + prefix
    counted = sum(min(prefix + i, limit or kv_len) for i in range(1, q_len + 1))
    pairs = operators.visible_pairs(column(q_len), column(kv_len), column(limit))
    assert pairs[0] == pytest.approx(counted)


def gqa(phase: str, **sizes: float) -> operators.Attention:
    defaults = {"batch": 1, "q_len": 1, "kv_len": 1, "num_heads": 64, "num_kv_heads": 8}
    values = {**defaults, "head_dim": 128, "value_head_dim": 128, "window": 0, **sizes}
    return operators.Attention(
        name="attention",
        phase=operators.Phase(phase),
        count=np.ones(1),
        **{name: column(value) for name, value in values.items()},  # type: ignore[arg-type]
    )


def test_decode_attention_reads_the_cache_once() -> None:
    # 64 sequences, 2048 keys, 8 heads x (128 + 128) x 2 bytes, the newest key is an activation
    work = gqa("decode", batch=64, kv_len=2048).work()
    assert work.cold_bytes[0] == 64 * 2047 * 8 * 256 * 2
    assert work.flop[0] == 64 * 64 * 2048 * 2 * 256


def test_prefill_attention_counts_causal_pairs() -> None:
    operator = gqa("prefill", q_len=1000, kv_len=1000)
    pairs = 1000 * 1001 / 2
    assert operator.work().flop[0] == 64 * pairs * 2 * 256


def test_attention_without_a_mask_counts_all_pairs() -> None:
    full = operators.with_fields(gqa("prefill", q_len=4, kv_len=8), causal=False)
    assert float(full.visible_pairs()[0]) == 4.0 * 8.0


def test_window_limits_what_decode_reads() -> None:
    windowed = gqa("decode", kv_len=100_000, window=4096).work()
    short = gqa("decode", kv_len=4096).work()
    assert windowed.cold_bytes[0] == short.cold_bytes[0]
    assert windowed.flop[0] == short.flop[0]


def test_a_grouped_gemm_reads_the_weights_of_every_group() -> None:
    # 3 groups of 2 rows: m counts 6 rows, and 3 matrices of 5 x 7 are read.
    one = operators.Gemm(
        name="gemm",
        phase=operators.Phase.PREFILL,
        count=np.ones(1),
        m=np.full(1, 6.0),
        n=np.full(1, 5.0),
        k=np.full(1, 7.0),
        format="bf16",
        weight_bytes_per_element=2.0,
        input_bytes_per_element=2.0,
        groups=np.full(1, 3.0),
    )
    assert float(one.work().flop[0]) == 2 * 6 * 5 * 7
    assert float(one.work().cold_bytes[0]) == 3 * 5 * 7 * 2


def test_gemm_work_by_hand() -> None:
    product = operators.Gemm(
        name="gemm",
        phase=operators.Phase.DECODE,
        count=np.ones(1),
        m=column(64),
        n=column(8192),
        k=column(4096),
        format="nvfp4",
        weight_bytes_per_element=0.5625,
        input_bytes_per_element=0.5,
    )
    work = product.work()
    assert work.flop[0] == 2 * 64 * 8192 * 4096
    assert work.cold_bytes[0] == 8192 * 4096 * 0.5625
    assert work.activation_bytes[0] == 64 * (4096 * 0.5 + 8192 * 2)


def experts(tokens: float, ep: float = 1.0) -> operators.GroupedGemm:
    return operators.GroupedGemm(
        name="experts",
        phase=operators.Phase.DECODE,
        count=np.ones(1),
        tokens=column(tokens),
        hidden=column(7168),
        intermediate=column(2048),
        experts=column(256),
        top_k=column(8),
        ep=column(ep),
        moe_tp=column(1),
        matrices=3,
        format="bf16",
        weight_bytes_per_element=2.0,
        input_bytes_per_element=2.0,
    )


def test_a_single_token_reads_only_its_experts() -> None:
    assert experts(1).work().cold_bytes[0] == 8 * 3 * 7168 * 2048 * 2


def test_many_tokens_read_every_expert_once() -> None:
    assert experts(4096).work().cold_bytes[0] == 256 * 3 * 7168 * 2048 * 2


def test_expert_parallel_ranks_share_the_work() -> None:
    whole, part = experts(4096).work(), experts(4096, ep=8).work()
    assert part.flop[0] * 8 == pytest.approx(whole.flop[0])
    assert part.cold_bytes[0] * 8 == pytest.approx(whole.cold_bytes[0])


def latent(phase: str, *, selected: float = 0.0) -> operators.LatentAttention:
    return operators.LatentAttention(
        name="latent_attention",
        phase=operators.Phase(phase),
        count=np.ones(1),
        batch=column(32),
        q_len=column(1 if phase == "decode" else 4096),
        kv_len=column(4096),
        num_heads=column(128),
        kv_lora_rank=column(512),
        rope_dim=column(64),
        nope_dim=column(128),
        value_head_dim=column(128),
        selected=column(selected),
    )


def test_absorbed_decode_multiplies_in_the_latent_space() -> None:
    work = latent("decode").work()
    # scores over 512 + 64, values over 512: 1088 multiply-adds per pair and head
    assert work.flop[0] == 2 * 32 * 128 * 4096 * 1088
    assert work.cold_bytes[0] == 32 * 4095 * 576 * 2


def test_sparse_selection_limits_keys() -> None:
    work = latent("decode", selected=2048).work()
    assert work.flop[0] == 2 * 32 * 128 * 2048 * 1088


def test_expanded_prefill_multiplies_per_head() -> None:
    pairs = 4096 * 4097 / 2
    assert latent("prefill").work().flop[0] == 2 * 32 * 128 * pairs * (128 + 64 + 128)


def test_a_selection_reads_the_scores_of_queries_that_choose() -> None:
    # Two sequences of 4 queries that see 7 to 10 keys and keep 8: the last two choose, among 9
    # and 10 scores of 4 bytes; all 8 queries write 8 positions of 4 bytes.
    work = operators.KeySelection(
        name="selection",
        phase=operators.Phase.PREFILL,
        count=np.ones(1),
        batch=column(2),
        q_len=column(4),
        kv_len=column(10),
        selected=column(8),
        score_bytes=4.0,
        index_bytes=4.0,
    ).work()
    assert work.activation_bytes.tolist() == [2 * (9 + 10) * 4 + 8 * 8 * 4]
    assert (work.flop.tolist(), work.cold_bytes.tolist()) == ([0.0], [0.0])


def test_a_copy_with_other_fields_equals_a_new_operator() -> None:
    attention = latent("decode")
    for changes in ({}, {"batch": column(8)}, {"name": "other", "kv_len": column(7)}):
        assert vars(operators.with_fields(attention, **changes)) == vars(
            replace(attention, **changes)
        )
    with pytest.raises(TypeError, match=r"LatentAttention.*batches"):
        operators.with_fields(attention, batches=column(8))
