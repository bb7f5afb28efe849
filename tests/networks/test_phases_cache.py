from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.networks import GqaAttention, LayerGroup, Network, resolve_model
from perfatlas.operators import FloatArray


def kept_bytes(network: Network, element_bytes: float, tokens: FloatArray) -> FloatArray:
    layouts = network.cache_layouts(element_bytes)
    return sum((layout.bytes_per_sequence(tokens) for layout in layouts), np.zeros_like(tokens))


def _bytes(name: str, tokens: float, element_bytes: float = 2.0) -> float:
    architecture = resolve_model(name).network
    return float(kept_bytes(architecture, element_bytes, np.array([tokens]))[0])


def test_gqa_by_hand() -> None:
    # 80 layers x 8 heads x (128 + 128) x 2 bytes = 327,680 bytes per token.
    assert _bytes("meta-llama/Llama-3.1-70B", 1.0) == 327_680
    assert _bytes("meta-llama/Llama-3.1-70B", 1000.0, 1.0) == 163_840_000


def test_latent_by_hand() -> None:
    # 61 layers x (512 + 64) x 2 bytes = 70,272 bytes per token.
    assert _bytes("deepseek-ai/DeepSeek-V3", 10.0) == 702_720


def test_sparse_attention_adds_index_keys_by_hand() -> None:
    # Beside the latent row 128 bytes of fp8 and a 4-byte scale, whatever the cache format.
    assert _bytes("deepseek-ai/DeepSeek-V3.2", 1.0) == 61 * (1152 + 132)
    assert _bytes("deepseek-ai/DeepSeek-V3.2", 1.0, 1.0) == 61 * (576 + 132)


def test_window_by_hand() -> None:
    # gpt-oss-120b: 18 layers keep everything, 18 keep 128 tokens; 8 heads x 128 x 2 bytes.
    assert _bytes("openai/gpt-oss-120b", 1000.0) == 18 * 2048 * 1000 + 18 * 2048 * 128
    assert _bytes("openai/gpt-oss-120b", 100.0) == 36 * 2048 * 100


def test_hybrid_by_hand() -> None:
    # Qwen3.5-397B-A17B: 15 attention layers of 2 heads x 512; 45 states of 64 x 128 x 128 fp32
    # and 3 inputs of 2 x 16 x 128 + 64 x 128 = 12288 channels in 16 bit.
    state = 64 * 128 * 128 * 4 + 3 * 12_288 * 2
    assert _bytes("Qwen/Qwen3.5-397B-A17B", 7.0) == 15 * 2 * 512 * 2 * 7 + 45 * state


def test_groups_state_their_maximum_division() -> None:
    layouts = {
        name: [layout.divided_by for layout in resolve_model(name).network.cache_layouts(2.0)]
        for name in ("meta-llama/Llama-3.1-70B", "deepseek-ai/DeepSeek-V3.2")
    }
    assert layouts["meta-llama/Llama-3.1-70B"] == [8]
    assert set(layouts["deepseek-ai/DeepSeek-V3.2"]) == {1}


@given(
    window=st.integers(1, 4096),
    tokens=st.lists(st.integers(0, 10_000), min_size=2, max_size=8).map(sorted),
)
def test_cache_grows_until_the_window(window: int, tokens: list[int]) -> None:
    attention = GqaAttention(
        num_heads=4, num_kv_heads=2, head_dim=8, value_head_dim=8, window=window
    )
    base = resolve_model("meta-llama/Llama-3.1-8B").network
    model = replace(base, layers=(LayerGroup(count=3, mixer=attention, ffn=None, norms=1),))
    kept = kept_bytes(model, 2.0, np.array(tokens, dtype=float))
    assert (np.diff(kept) >= 0).all()
    assert kept.max() <= 3 * 2 * 16 * 2 * window
    assert kept == pytest.approx(3 * 2 * 16 * 2 * np.minimum(tokens, window))
