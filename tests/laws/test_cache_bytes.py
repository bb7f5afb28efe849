"""Bytes of the key-value cache, worked by hand, through the public estimate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.networks import resolve_model
from perfatlas.verbs.estimate import estimate
from tests.laws.support import answered, distinct_models

HUGE = "b300_sxm{device.memory.capacity=1 PB}"


def kv_bytes(model: str, tokens: int, *, batch: int = 1, **fields: Any) -> float:  # noqa: ANN401
    """Return the cache of one rank for sequences that end with `tokens` tokens."""
    shared = {"system": HUGE, "tier": "bound", "engine": "ideal", "kv_format": "bf16"}
    load = {"batch": batch, "isl": tokens - 1, "osl": 1}
    answer = estimate(**{"model": model, **shared, **load, **fields})
    return float(answer.results["memory"]["kv_bytes"])


# model, tokens, bytes of one sequence: layers x (heads x (key + value width)) x 2 bytes x tokens
GROUPED = [
    ("meta-llama/Llama-3.1-70B", 1000, 80 * 8 * (128 + 128) * 2 * 1000),
    ("meta-llama/Llama-3.1-8B", 1000, 32 * 8 * (128 + 128) * 2 * 1000),
    ("meta-llama/Llama-2-7b-hf", 1000, 32 * 32 * (128 + 128) * 2 * 1000),
    ("Qwen/Qwen3-30B-A3B", 1000, 48 * 4 * (128 + 128) * 2 * 1000),
    ("EleutherAI/gpt-j-6b", 1000, 28 * 16 * (256 + 256) * 2 * 1000),
    ("EleutherAI/gpt-neox-20b", 1000, 44 * 64 * (96 + 96) * 2 * 1000),
    ("tiiuae/falcon-7b", 1000, 32 * 1 * (64 + 64) * 2 * 1000),
    ("tiiuae/falcon-40b", 1000, 60 * 8 * (64 + 64) * 2 * 1000),
    ("facebook/opt-66b", 1000, 64 * 72 * (128 + 128) * 2 * 1000),
    ("bigscience/bloom", 1000, 70 * 112 * (128 + 128) * 2 * 1000),
    ("microsoft/phi-2", 1000, 32 * 32 * (80 + 80) * 2 * 1000),
    ("bigcode/starcoder2-15b", 1000, 40 * 4 * (128 + 128) * 2 * 1000),
    ("mosaicml/mpt-30b", 1000, 48 * 64 * (112 + 112) * 2 * 1000),
    ("THUDM/chatglm3-6b", 1000, 28 * 2 * (128 + 128) * 2 * 1000),
    # 57 of 60 layers have an index key of 128 in 16 bits
    ("MiniMaxAI/MiniMax-M3", 1000, (60 * 4 * (128 + 128) + 57 * 128) * 2 * 1000),
]
# one latent row of 512 and one rotary key of 64 per layer and token; V3.2 adds an fp8 index key
# of 128 with a 4-byte scale
LATENT = [
    ("deepseek-ai/DeepSeek-V2-Lite", 1000, 27 * (512 + 64) * 2 * 1000),
    ("deepseek-ai/DeepSeek-V3", 1000, 61 * (512 + 64) * 2 * 1000),
    ("moonshotai/Kimi-K2-Instruct", 1000, 61 * (512 + 64) * 2 * 1000),
    ("deepseek-ai/DeepSeek-V3.2", 1000, 61 * ((512 + 64) * 2 + 128 + 4) * 1000),
]
# layers that keep at most their window, then layers that keep everything
WINDOWED = [
    ("mistralai/Mistral-7B-v0.1", 1000, 32 * 8 * 256 * 2 * 1000),
    ("mistralai/Mistral-7B-v0.1", 10_000, 32 * 8 * 256 * 2 * 4096),
    ("openai/gpt-oss-20b", 1000, (12 * 128 + 12 * 1000) * 8 * (64 + 64) * 2),
    ("google/gemma-2-9b", 10_000, (21 * 4096 + 21 * 10_000) * 8 * (256 + 256) * 2),
    ("google/gemma-3-27b-it", 1000, 62 * 16 * (128 + 128) * 2 * 1000),
    ("google/gemma-3-27b-it", 10_000, (52 * 1024 + 10 * 10_000) * 16 * (128 + 128) * 2),
]
# attention layers, then states in fp32 and the last three inputs of the convolution in 16 bit
HYBRID = [
    (
        "Qwen/Qwen3-Next-80B-A3B-Instruct",
        1000,
        12 * 2 * (256 + 256) * 2 * 1000
        + 36 * (32 * 128 * 128 * 4 + 3 * (2 * 16 * 128 + 32 * 128) * 2),
    ),
    (
        "ai21labs/Jamba-v0.1",
        1000,
        4 * 8 * (128 + 128) * 2 * 1000 + 28 * (8192 * 16 * 4 + 3 * 8192 * 2),
    ),
    (
        "nvidia/Nemotron-H-8B-Base-8K",
        1000,
        4 * 8 * (128 + 128) * 2 * 1000
        + 24 * (128 * 64 * 128 * 4 + 3 * (128 * 64 + 2 * 8 * 128) * 2),
    ),
]


@pytest.mark.parametrize(("model", "tokens", "expected"), GROUPED + LATENT + WINDOWED + HYBRID)
def test_one_sequence(model: str, tokens: int, expected: int) -> None:
    assert kv_bytes(model, tokens) == expected
    assert kv_bytes(model, tokens, batch=7) == 7 * expected


def test_grouped_heads_are_divided_until_each_rank_has_one() -> None:
    whole = 80 * 8 * 256 * 2 * 1000
    for tp, share in ((2, 2), (8, 8), (16, 8), (64, 8)):
        assert kv_bytes("meta-llama/Llama-3.1-70B", 1000, tp=tp) == whole / share


def test_a_latent_row_is_whole_on_every_rank() -> None:
    for tp in (1, 8):
        assert kv_bytes("deepseek-ai/DeepSeek-V3", 1000, tp=tp) == 61 * 576 * 2 * 1000
    # attention data parallelism spreads the sequences instead
    spread = kv_bytes("deepseek-ai/DeepSeek-V3", 1000, batch=16, attention_dp=8, ep=8)
    assert spread == 2 * 61 * 576 * 2 * 1000


def test_states_are_divided_over_their_heads() -> None:
    attention, state = 4 * 8 * 256 * 2 * 1000, 24 * (8192 * 128 * 4 + 3 * 10240 * 2)
    assert kv_bytes("nvidia/Nemotron-H-8B-Base-8K", 1000, tp=8) == (attention + state) / 8


def test_pipeline_stages_hold_their_layers() -> None:
    assert kv_bytes("meta-llama/Llama-3.1-70B", 1000, pp=4) == 20 * 8 * 256 * 2 * 1000


def test_an_fp8_cache_is_half() -> None:
    for name in ("fp8", "fp8_static"):
        assert kv_bytes("meta-llama/Llama-3.1-70B", 1000, kv_format=name) == 80 * 8 * 256 * 1000
    # the index keys of sparse attention have their own format
    sparse = kv_bytes("deepseek-ai/DeepSeek-V3.2", 1000, kv_format="fp8")
    assert sparse == 61 * (576 + 132) * 1000


def test_capacity_in_tokens_is_what_is_left_in_whole_blocks() -> None:
    fields = {"model": "meta-llama/Llama-3.1-70B", "system": "h200_sxm", "tp": 8, "tier": "bound"}
    memory = estimate(**fields, batch=1).results["memory"]
    left = memory["capacity_bytes"] - (
        memory["weights_bytes"] + memory["activation_bytes"] + memory["other_bytes"]
    )
    per_token = 80 * 256 * 2  # one of eight heads
    assert memory["kv_capacity_tokens"] % 16 == 0
    assert 0 <= left / per_token - memory["kv_capacity_tokens"] < 16
    assert estimate(**fields, kv_blocks=100).results["memory"]["kv_capacity_tokens"] == 1600


@given(
    model=st.sampled_from(distinct_models()),
    tokens=st.integers(2, 10**6),
    batch=st.integers(1, 1000),
)
def test_the_estimate_reports_the_layout_of_the_catalog(
    model: str, tokens: int, batch: int
) -> None:
    architecture = resolve_model(model).network
    element = 1.0 if architecture.checkpoint.kv_format else 2.0
    length = np.array([float(tokens)])
    layouts = architecture.cache_layouts(element)
    expected = batch * sum(float(layout.bytes_per_sequence(length)[0]) for layout in layouts)
    # an engine without pages: those of others are in tests/parallelism/test_cache_pages.py
    fields = {"model": model, "system": HUGE, "tier": "bound", "engine": "ideal"}
    columns = answered([{"batch": batch, "isl": tokens - 1, "osl": 1}], **fields)
    assert columns["memory_kv_bytes"][0] == pytest.approx(expected, rel=1e-12)
