"""Families whose layers differ in kind or width: published sizes, caches and shares by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfatlas import networks, operators
from perfatlas.parallelism import shard_operators
from tests.parallelism.examples import plan_of

BF16 = networks.ModelFormats(gemm="bf16", moe="bf16", kv="bf16", attention="bf16")


@pytest.mark.parametrize(
    ("name", "billions", "active"),
    [
        # Numbers of the model cards or papers; nemotron-nas has no transformers class.
        ("THUDM/glm-4-9b-chat", 9.400, 9.400),
        ("nvidia/Llama-3_3-Nemotron-Super-49B-v1", 49.87, 49.87),
        ("XiaomiMiMo/MiMo-V2-Flash", 309.0, 15.0),
        ("nvidia/Gemma-4-31B-IT-NVFP4", 30.7, 30.7),
        ("stepfun-ai/Step-3.7-Flash", 196.0, 11.0),
        ("deepseek-ai/DeepSeek-V4-Flash", 284.0, 13.8),
    ],
)
def test_published_sizes(name: str, billions: float, active: float) -> None:
    counts = networks.resolve_model(name).network.parameters()
    assert counts.total / 1e9 == pytest.approx(billions, rel=5e-3)
    assert counts.active / 1e9 == pytest.approx(active, rel=3.5e-2)


def test_layers_that_share_an_indexer_cache_and_compute_none() -> None:
    own = networks.MlaAttention(
        num_heads=2,
        q_lora_rank=6,
        kv_lora_rank=5,
        nope_dim=3,
        rope_dim=1,
        value_head_dim=2,
        indexer=networks.SparseIndexer(num_heads=2, head_dim=4, top_k=16),
    )
    assert own.indexer is not None
    reuses = replace(own, indexer=replace(own.indexer, shared=True))
    model = _model(own, reuses)
    kinds = [layout.kind for layout in model.cache_layouts(2.0)]
    assert kinds == ["latent", "index", "latent"]
    names = [operator.name for operator in _step(model, operators.Phase.DECODE)]
    assert names.count("indexer_scores") == 1
    assert names.count("latent_attention") == 2


def test_indexers_of_glm_5_2_by_hand() -> None:
    # Full in layers 0 to 2 and every fourth from there on: 3 + (78 - 6) / 4 = 21.
    layers = networks.resolve_model("zai-org/GLM-5.2").network.layers
    own = sum(
        group.count
        for group in layers
        if isinstance(group, networks.LayerGroup)
        and isinstance(group.mixer, networks.MlaAttention)
        and group.mixer.indexer is not None
        and not group.mixer.indexer.shared
    )
    assert own == 21


def test_selected_blocks_of_minimax_m3_by_hand() -> None:
    # 16 blocks of 128 keys: at 100,000 keys a query of a sparse layer attends to 2,048 of them.
    model = networks.resolve_model("MiniMaxAI/MiniMax-M3").network
    step = _step(model, operators.Phase.DECODE, kv_len=100_000.0)
    keys = {
        (float(one.count[0]), float(one.visible_pairs()[0]))
        for one in step
        if isinstance(one, operators.Attention)
    }
    assert keys == {(3.0, 100_000.0), (57.0, 2048.0)}
    # All keys stay cached, 4 heads x 2 x 128 x 2 bytes, and 128 x 2 bytes of index keys.
    sizes = {(one.kind, one.bytes_per_token, one.token_limit) for one in model.cache_layouts(2.0)}
    assert sizes == {("attention", 2048.0, 0), ("index", 256.0, 0)}


def test_experts_behind_a_latent_width_exchange_it() -> None:
    # Hidden 8, latent 4: tokens travel as 4 elements, sums of the tp group as 8.
    attention = networks.GqaAttention(num_heads=4, num_kv_heads=4, head_dim=2, value_head_dim=2)
    ffn = networks.MoeFfn(
        num_experts=4,
        top_k=1,
        intermediate_size=4,
        shared_intermediate_size=4,
        gated=False,
        latent_size=4,
    )
    layer = networks.LayerGroup(count=1, mixer=attention, ffn=ffn)
    model = _architecture(layer)
    # Router 8x4, two matrices 4x4 in each of 4 experts, shared 2 of 8x4, projections 2 of 8x4.
    attention_parameters = 4 * 8 * 8
    expected = 80 + attention_parameters + 32 + 4 * 32 + 64 + 64 + 3 * 8
    assert model.parameters().total == expected
    plan = plan_of(tp=2, attention_dp=2, ep=4)
    found = shard_operators(_step(model, operators.Phase.PREFILL), plan, model)
    bytes_of = {
        one.name: float(one.bytes[0]) for one in found if isinstance(one, operators.Collective)
    }
    names = [one.name for one in found]
    assert names.index("latent_down_projection") < names.index("experts")
    assert names.index("experts") < names.index("latent_up_projection")
    # Two tokens of a rank, one on each tp rank, go to 4 (1 - 3/4) = 1 group as 4 x 16 bits.
    assert bytes_of["experts_dispatch"] == bytes_of["experts_combine"] == 8.0
    assert bytes_of["experts_all_reduce"] == 2 * 8 * 2.0
    experts = next(one for one in found if isinstance(one, operators.GroupedGemm))
    assert float(experts.hidden[0]) == 4.0


def test_keys_of_deepseek_v4_by_hand() -> None:
    # At 100,000 tokens: 128 recent keys, of which every layer but two adds 512 selected ones of the
    # 25,000 that stand for 4 tokens each, or all 781.25 that stand for 128.
    model = networks.resolve_model("deepseek-ai/DeepSeek-V4-Flash").network
    step = _step(model, operators.Phase.DECODE, kv_len=100_000.0)
    keys: dict[float, float] = {}
    for one in step:
        if isinstance(one, operators.LatentAttention):
            seen = float(one.visible_pairs()[0])
            keys[seen] = keys.get(seen, 0.0) + float(one.count[0])
    assert keys == {128.0: 2.0, 128.0 + 512.0: 21.0, 128.0 + 100_000 / 128: 20.0}
    # Cache per token of a layer with an indexer, in 16 bits: 512 x 2 / 4 and (128 + 4) / 4 bytes.
    sizes = {(one.kind, one.bytes_per_token, one.token_limit) for one in model.cache_layouts(2.0)}
    assert ("latent", 256.0, 0) in sizes
    assert ("index", 33.0, 0) in sizes
    assert ("latent", 1024.0, 128) in sizes


def test_values_that_are_keys_have_no_projection() -> None:
    # Gemma 4 26B: full layers project 16 x 512 queries and 2 x 512 keys.
    model = networks.resolve_model("google/gemma-4-26B-A4B").network
    widths = {
        float(one.n[0])
        for one in _step(model, operators.Phase.DECODE)
        if isinstance(one, operators.Gemm) and one.name == "qkv_projection"
    }
    assert widths == {16 * 256 + 2 * 8 * 256.0, 16 * 512 + 2 * 512.0}


def _architecture(*layers: networks.LayerGroup) -> networks.Architecture:
    return networks.Architecture(
        model_type="llama", hidden_size=8, vocab_size=10, tie_word_embeddings=True, layers=layers
    )


def _model(*mixers: networks.MlaAttention) -> networks.Architecture:
    return _architecture(
        *(networks.LayerGroup(count=1, mixer=one, ffn=None, norms=1) for one in mixers)
    )


def _step(
    model: networks.Network, phase: operators.Phase, *, kv_len: float = 16.0
) -> tuple[operators.Operator, ...]:
    one = np.ones(1)
    q_len = one if phase == operators.Phase.DECODE else 2.0 * one
    tokens = networks.StepTokens(batch=one, q_len=q_len, kv_len=kv_len * one)
    return model.step_operators(BF16, phase, tokens)
