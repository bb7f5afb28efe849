from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas import networks, parallelism
from perfatlas.parallelism.weights import expert_padding_bytes
from tests.parallelism.examples import (
    BF16,
    DEEPSEEK_V3,
    LLAMA_70B,
    SMALL_DENSE,
    SMALL_MOE,
    column,
    model_of,
    plan_of,
)

FP8 = networks.ModelFormats(gemm="fp8_static", moe="fp8_static", kv="bf16", attention="bf16")


def cache(model: networks.Architecture, seq_len: float, kv: str = "bf16", **sizes: float) -> float:
    return float(parallelism.kv_bytes_per_sequence(model, kv, plan_of(**sizes), column(seq_len))[0])


def weights(
    model: networks.Architecture, formats: networks.ModelFormats = BF16, **sizes: float
) -> float:
    return float(parallelism.stage_weights_bytes(model, formats, plan_of(**sizes))[0])


def question(
    model: networks.Architecture = LLAMA_70B,
    formats: networks.ModelFormats = BF16,
    plan: parallelism.PlanColumns | None = None,
    *,
    sequences: float = 64,
    tokens: float = 2560,
    kv_blocks: float = np.nan,
    memory: float = 141e9,
) -> parallelism.MemoryInputs:
    return parallelism.MemoryInputs(
        network=model,
        formats=formats,
        plan=plan or plan_of(tp=8),
        load=parallelism.MemoryLoad(
            sequences=column(sequences),
            tokens_per_sequence=column(tokens),
            max_num_batched_tokens=column(8192),
            max_num_seqs=column(256),
            gpu_memory_utilization=column(0.9),
            block_size=column(16),
            kv_blocks=column(kv_blocks),
        ),
        overheads=parallelism.MemoryOverheads(
            context_bytes=1e8, communication_bytes=4e8, graph_bytes=5e8, sampler_copies=3.5
        ),
        memory_bytes=column(memory),
        spread_weights=column(0.0).astype(np.bool_),
    )


def test_gqa_cache_by_hand() -> None:
    assert cache(LLAMA_70B, 1) == 80 * 2 * 8 * 128 * 2 == 327_680
    assert cache(LLAMA_70B, 1000, tp=8) == 40_960_000  # one head per rank
    assert cache(LLAMA_70B, 1, tp=32) == 40_960  # heads are copied, not divided further
    assert cache(LLAMA_70B, 1, kv="fp8_static") == 163_840
    assert cache(LLAMA_70B, 1, pp=3) == 327_680 * 27 / 80


def test_latent_cache_by_hand() -> None:
    assert cache(DEEPSEEK_V3, 1) == 61 * 576 * 2 == 70_272
    assert cache(DEEPSEEK_V3, 1, tp=8) == 70_272  # every rank keeps the whole row


def test_sparse_indexer_adds_its_keys() -> None:
    mixer = networks.MlaAttention(
        num_heads=16,
        q_lora_rank=0,
        kv_lora_rank=512,
        nope_dim=128,
        rope_dim=64,
        value_head_dim=128,
        indexer=networks.SparseIndexer(num_heads=64, head_dim=128, top_k=2048),
    )
    sparse = model_of(mixer, networks.DenseFfn(intermediate_size=1024), layers=61)
    assert cache(sparse, 1) == 61 * (576 * 2 + 128 + 4)


def test_windowed_layers_stop_at_their_window() -> None:
    full = networks.GqaAttention(num_heads=8, num_kv_heads=4, head_dim=256, value_head_dim=256)
    local = replace(full, window=1024)
    ffn = networks.DenseFfn(intermediate_size=1024)
    interleaved = replace(
        model_of(full, ffn),
        layers=(
            networks.LayerGroup(count=20, mixer=local, ffn=ffn),
            networks.LayerGroup(count=4, mixer=full, ffn=ffn),
        ),
    )
    row = 4 * (256 + 256) * 2
    assert cache(interleaved, 500) == 24 * row * 500
    assert cache(interleaved, 8192) == row * (20 * 1024 + 4 * 8192)


def test_hybrid_keeps_a_state_and_a_cache() -> None:
    linear = networks.GatedDeltaNet(
        num_key_heads=16, num_value_heads=32, key_head_dim=128, value_head_dim=128, conv_kernel=4
    )
    full = networks.GqaAttention(num_heads=16, num_kv_heads=2, head_dim=256, value_head_dim=256)
    ffn = networks.DenseFfn(intermediate_size=1024)
    hybrid = replace(
        model_of(full, ffn),
        layers=(
            networks.LayerGroup(count=36, mixer=linear, ffn=ffn),
            networks.LayerGroup(count=12, mixer=full, ffn=ffn),
        ),
    )
    # fp32 state 32 x 128 x 128, 3 inputs of the convolution over 2 x 2048 + 4096 channels in bf16
    state = 36 * (32 * 128 * 128 * 4 + 3 * 8192 * 2)
    assert cache(hybrid, 1000) == state + 12 * 1000 * 2 * 2 * 256 * 2
    assert cache(hybrid, 0) == state
    assert cache(hybrid, 0, tp=4) == state / 4


def test_mamba_state_does_not_grow() -> None:
    mixer = networks.Mamba2(num_heads=128, head_dim=64, state_size=128, num_groups=8, conv_kernel=4)
    model = model_of(mixer, networks.DenseFfn(intermediate_size=1024))
    assert cache(model, 10) == cache(model, 100_000)


def test_weights_of_one_rank_are_all_parameters() -> None:
    for model in (LLAMA_70B, DEEPSEEK_V3, SMALL_DENSE, SMALL_MOE):
        assert weights(model) == 2 * model.parameters().total


def test_llama_70b_fp8_weights_by_hand() -> None:
    layer = 8192 * (64 + 2 * 8) * 128 + 8192 * 8192 + 3 * 8192 * 28672  # 855,638,016
    ends, norms = 2 * 128256 * 8192, 161 * 8192
    assert weights(LLAMA_70B, FP8) == 80 * layer + 2 * (ends + norms)
    assert weights(LLAMA_70B, FP8, tp=8) == 80 * layer / 8 + 2 * (ends / 8 + norms)


def test_tied_embeddings_are_stored_once_unless_split_by_stages() -> None:
    tied = replace(SMALL_DENSE, tie_word_embeddings=True)
    table = 1024 * 512 * 2
    assert weights(SMALL_DENSE) - weights(tied) == table
    assert weights(SMALL_DENSE, pp=2) == weights(tied, pp=2)
    # half of the layers, and embedding or head, which have the same size
    assert weights(SMALL_DENSE, pp=2) == pytest.approx(weights(tied) / 2 + table / 2, rel=1e-12)


def test_quantized_latent_expansion_is_held_in_16_bits_too() -> None:
    copies = 61 * 128 * (128 + 128) * 512 * 2
    with_copies = weights(DEEPSEEK_V3, FP8)
    plain = replace(FP8, head="fp8_static")  # the expansion then needs no second form
    ends = 2 * 129280 * 7168
    router = 58 * 256 * 7168
    assert with_copies - weights(DEEPSEEK_V3, plain) == copies + router + ends / 2


@given(tp=st.sampled_from([1, 2, 4, 8]), pp=st.sampled_from([1, 2, 4]))
def test_weights_of_all_ranks_sum_to_the_model(tp: int, pp: int) -> None:
    model = replace(
        SMALL_DENSE, layers=(replace(SMALL_DENSE.layers[0], count=4),), tie_word_embeddings=False
    )
    many_heads = replace(
        model,
        layers=(
            replace(
                model.layers[0],
                mixer=networks.GqaAttention(
                    num_heads=16, num_kv_heads=8, head_dim=64, value_head_dim=64
                ),
            ),
        ),
    )
    held = parallelism.stage_weights_bytes(many_heads, BF16, plan_of(tp=tp))[0]
    norms = 9 * 512 * 2.0  # two per layer and the final one, whole on every rank
    total = (held - norms) * tp + norms
    assert total == pytest.approx(2 * many_heads.parameters().total, rel=1e-12)
    stage = parallelism.stage_weights_bytes(many_heads, BF16, plan_of(tp=tp, pp=pp))[0]
    assert stage >= total / (tp * pp) * (1 - 1e-12)


@given(st.sampled_from([(1, 1), (2, 1), (1, 2), (4, 2), (2, 8), (16, 1)]))
def test_experts_of_all_ranks_sum_to_the_model(split: tuple[int, int]) -> None:
    ep, moe_tp = split
    counts = SMALL_MOE.parameters()
    plan = plan_of(attention_dp=ep * moe_tp, ep=ep, moe_tp=moe_tp)
    held = parallelism.stage_weights_bytes(SMALL_MOE, BF16, plan)[0]
    whole = 2 * (counts.total - counts.expert)  # attention is copied by attention_dp
    assert (held - whole) * ep * moe_tp == pytest.approx(2 * counts.expert)


def test_footprint_of_llama_70b_on_eight_gpus() -> None:
    memory = parallelism.memory_footprint(question())
    tokens, hidden = 8192, 8192
    sampling = tokens * hidden * 2 + 3.5 * 256 * 128256 * 4
    network = tokens * (4 * hidden + 3 * 28672 / 8) * 2
    assert memory.activation_bytes.tolist() == [max(sampling, network)]
    assert memory.kv_bytes.tolist() == [64 * 2560 * 40_960]
    assert memory.other_bytes.tolist() == [1e9]
    assert memory.capacity_bytes.tolist() == [126_900_000_000]
    parts = memory.weights_bytes + memory.kv_bytes + memory.activation_bytes + memory.other_bytes
    assert memory.total_bytes.tolist() == parts.tolist()
    left = memory.capacity_bytes - (memory.total_bytes - memory.kv_bytes)
    assert memory.kv_capacity_tokens.tolist() == [float(left[0] // (16 * 40_960)) * 16]
    assert memory.fits.tolist() == [True]


def test_one_gpu_has_no_communication_buffers() -> None:
    memory = parallelism.memory_footprint(question(SMALL_DENSE, plan=plan_of()))
    assert memory.other_bytes.tolist() == [6e8]


def test_the_static_fraction_excludes_context_and_communicators() -> None:
    asked = question()
    static = replace(asked, overheads=replace(asked.overheads, rule="static"))
    memory = parallelism.memory_footprint(static)
    cache = memory.capacity_bytes - (memory.total_bytes - memory.kv_bytes)
    # 0.9 x (141e9 - 0.5e9) - weights; graphs and activations live in the rest
    expected = 0.9 * 140.5e9 - memory.weights_bytes
    assert cache[0] == pytest.approx(expected[0], abs=1.0)


def test_a_sampler_holds_its_copies_of_all_logits() -> None:
    few, many = (
        parallelism.memory_footprint(
            replace(
                question(SMALL_DENSE, plan=plan_of()),
                overheads=parallelism.MemoryOverheads(
                    context_bytes=0.0, communication_bytes=0.0, graph_bytes=0.0, sampler_copies=n
                ),
            )
        ).activation_bytes[0]
        for n in (10_000.0, 10_001.0)
    )
    assert many - few == 256 * SMALL_DENSE.vocab_size * 4


def test_padded_experts_by_hand() -> None:
    (group,) = (g for g in SMALL_MOE.layers if isinstance(g.ffn, networks.MoeFfn))
    ffn = group.ffn
    assert isinstance(ffn, networks.MoeFfn)
    hidden, width = SMALL_MOE.hidden_size, ffn.intermediate_size
    multiples = (hidden + 1, width + 1)  # the next multiple of each
    added = expert_padding_bytes(SMALL_MOE, BF16, plan_of(), multiples)
    per_matrix = (hidden + 1) * (width + 1) - hidden * width
    matrices = 3 if ffn.gated else 2
    assert added.tolist() == [group.count * ffn.num_experts * matrices * per_matrix * 2.0]
    assert expert_padding_bytes(SMALL_MOE, BF16, plan_of(), (1, 1)).tolist() == [0.0]
    assert expert_padding_bytes(SMALL_DENSE, BF16, plan_of(), multiples).tolist() == [0.0]


@given(hidden=st.sampled_from([1, 128, 256]), width=st.sampled_from([1, 64, 128, 256]))
def test_padding_is_shared_by_expert_ranks(hidden: int, width: int) -> None:
    one = expert_padding_bytes(SMALL_MOE, BF16, plan_of(), (hidden, width))[0]
    plan = plan_of(attention_dp=4, ep=4)
    assert expert_padding_bytes(SMALL_MOE, BF16, plan, (hidden, width))[0] == one / 4
    assert one >= 0.0


def test_attention_dp_multiplies_the_cache_of_a_replica() -> None:
    plan = plan_of(attention_dp=8, ep=8)
    memory = parallelism.memory_footprint(question(SMALL_MOE, plan=plan, memory=20e9))
    left = memory.capacity_bytes - (memory.total_bytes - memory.kv_bytes)
    row = 4 * 4 * (64 + 64) * 2
    assert memory.kv_capacity_tokens.tolist() == [8 * 16 * float(left[0] // (16 * row))]


def test_given_blocks_replace_the_derived_ones() -> None:
    memory = parallelism.memory_footprint(question(kv_blocks=1000, sequences=7))
    assert memory.kv_capacity_tokens.tolist() == [16_000]
    assert memory.max_sequences.tolist() == [6.0]  # 160 blocks each
    assert memory.fits.tolist() == [False]


def test_windowed_layers_hold_more_tokens() -> None:
    full = networks.GqaAttention(num_heads=16, num_kv_heads=4, head_dim=64, value_head_dim=64)
    local = replace(full, window=1024)
    ffn = networks.DenseFfn(intermediate_size=2048)
    everything = parallelism.memory_footprint(
        question(model_of(full, ffn), plan=plan_of(), tokens=8192)
    )
    windowed = parallelism.memory_footprint(
        question(model_of(local, ffn), plan=plan_of(), tokens=8192)
    )
    ratio = windowed.kv_capacity_tokens[0] / everything.kv_capacity_tokens[0]
    assert ratio == pytest.approx(8.0, rel=1e-3)


@given(tokens=st.integers(1, 20_000), memory=st.floats(3e10, 2e11))
def test_the_largest_batch_fits_and_one_more_does_not(tokens: int, memory: float) -> None:
    asked = question(tokens=tokens, memory=memory)
    most = float(parallelism.memory_footprint(asked).max_sequences[0])
    if most < 1:
        return
    at = parallelism.memory_footprint(
        replace(asked, load=replace(asked.load, sequences=column(most)))
    )
    beyond = parallelism.memory_footprint(
        replace(asked, load=replace(asked.load, sequences=column(most + 1)))
    )
    assert at.fits.tolist() == [True]
    assert beyond.fits.tolist() == [False]


@given(st.sampled_from(["tp", "pp"]), st.sampled_from([1.0, 2.0, 4.0]))
def test_dividing_further_never_needs_more_weights_or_cache(axis: str, size: float) -> None:
    before = parallelism.memory_footprint(question(plan=plan_of(**{axis: size})))
    after = parallelism.memory_footprint(question(plan=plan_of(**{axis: 2 * size})))
    assert after.weights_bytes[0] < before.weights_bytes[0]
    assert after.kv_bytes[0] < before.kv_bytes[0]
