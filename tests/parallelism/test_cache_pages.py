"""Pages and pools of the cache of models whose layers keep different tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.engines import resolve_engine
from perfatlas.networks import resolve_model
from perfatlas.parallelism import (
    PlanColumns,
    grouped_bytes_per_sequence,
    paged_bytes_per_sequence,
    pooled_bytes_per_sequence,
)
from perfatlas.verbs.estimate import estimate
from perfatlas.verbs.simulate import simulate

MEMORY = resolve_engine("vllm").memory
PAGES = MEMORY.compressed_pages
ONE = np.ones(1)
PLAN = PlanColumns(**dict.fromkeys(PlanColumns.__dataclass_fields__, ONE))
FLASH = "deepseek-ai/DeepSeek-V4-Flash"
ASKED: dict[str, Any] = {"model": FLASH, "system": "b200_sxm", "tp": 8, "ep": 8, "osl": 100}
ASKED |= {"kv_format": "fp8", "gpu_memory_utilization": 0.95, "max_num_batched_tokens": 8192}


def paged(tokens: float, in_flight: float, model: str = FLASH) -> float:
    assert PAGES is not None
    network = resolve_model(model).network
    lengths = (tokens * ONE, in_flight * ONE)
    return float(paged_bytes_per_sequence(network, "fp8_static", PLAN, lengths, PAGES)[0])


# The pool's bytes per page: 43 windows in two groups (22 pages of keys), index keys, sparse keys
STRIDE = 22 * 37_440 + 21 * 8_640 + 20 * 1_728


@pytest.mark.parametrize(
    ("tokens", "in_flight", "published"),
    [(33_792, 8192, 99_826), (1_048_576, 8192, 6_875), (33_792, 0, 4_525), (1_048_576, 0, 3_804)],
)
def test_pages_per_token_are_those_published(tokens: int, in_flight: int, published: int) -> None:
    # vllm-project/vllm PR 52495: with the tokens of a step in flight, and without; its pages have
    # 21 layers with one key per 4 tokens
    pages = paged(tokens, in_flight) / STRIDE
    assert round(pages * 21 * (37_440 + 8_640) / tokens) == published


@pytest.mark.parametrize(("tokens", "gib"), [(30_000, 6.66), (13_528, 5.44)])
def test_pages_are_those_that_a_start_up_check_needs(tokens: int, gib: float) -> None:
    # vllm-project/vllm issue 44376, vLLM 0.22 with steps of 16,384 tokens; the check takes 22
    # layers of all three sizes
    pages = paged(tokens, 16_384) / STRIDE
    assert round(pages * 22 * (37_440 + 8_640 + 1_728) / 2**30, 2) == gib


def test_pages_of_a_request_by_hand() -> None:
    windows = 2 * (np.ceil((127 + 8192) / 64) + 1)  # 43 layers in two groups
    states = np.ceil((7 + 8192) / 4) + 1 + np.ceil((127 + 8192) / 8) + 1
    assert windows + states == 3354
    assert paged(256_000, 8192) == (1000 + 3354) * STRIDE


@given(
    st.integers(1, 1_000_000), st.integers(0, 32_768), st.sampled_from([FLASH, FLASH[:-5] + "Pro"])
)
def test_longer_sequences_and_larger_steps_take_no_fewer_pages(
    tokens: int, in_flight: int, model: str
) -> None:
    here = paged(tokens, in_flight, model)
    assert here <= paged(tokens + 256, in_flight, model)
    assert here <= paged(tokens, in_flight + 64, model)


def test_the_capacity_of_long_requests_is_near_the_log_of_an_engine() -> None:
    # vllm-project/vllm issue 51454: 20.43 requests of 1M tokens
    found = estimate(**ASKED, isl=1_000_000, batch=8).results["memory"]
    assert found["kv_capacity_tokens"] == pytest.approx(20.43e6, rel=0.03)
    shorter = estimate(**ASKED, isl=30_000, batch=8).results["memory"]
    assert shorter["kv_capacity_tokens"] < found["kv_capacity_tokens"] / 10


@pytest.mark.parametrize("changes", [{"engine": "sglang"}, {"kv_format": "bf16"}])
def test_unknown_pages_are_a_warning(changes: dict[str, str]) -> None:
    def warned(**fields: Any) -> bool:  # noqa: ANN401 - fields of estimate
        return any("upper limit" in text for text in estimate(**fields, isl=1000, batch=1).warnings)

    assert warned(**(ASKED | changes))
    traffic: dict[str, Any] = {"isl": 1000, "request_rate": 1, "num_requests": 2}
    simulated = simulate(**(ASKED | changes), **traffic).answer.warnings
    assert any("upper limit" in text for text in simulated)
    assert not warned(**ASKED)
    assert not warned(**(ASKED | changes | {"model": "deepseek-ai/DeepSeek-V3.2-Exp"}))


def grouped(model: str, tokens: float, engine: str = "vllm", tp: float = 1) -> tuple[float, float]:
    groups = resolve_engine(engine).memory.page_groups
    assert groups is not None
    plan = PlanColumns(**(vars(PLAN) | {"tp": tp * ONE}))
    lengths = (tokens * ONE, 8192 * ONE, 16 * ONE)
    found = grouped_bytes_per_sequence(resolve_model(model).network, "bf16", plan, lengths, groups)
    return float(found.each[0]), float(np.max(found.in_flight))


def test_groups_of_windows_by_hand() -> None:
    # Gemma 3 27B: 10 layers keep all tokens, 52 keep 1,024: one group and six of 10 layers
    page = 10 * 16 * 8192
    each, in_flight = grouped("google/gemma-3-27b-it", 16_000)
    assert each == (1000 + 6 * (64 + 1)) * page
    assert in_flight == 6 * np.ceil(8192 * (1 - 1024 / 16_000) / 16) * page
    # shorter than the window: all tokens in all seven groups, and none of a step beside them
    assert grouped("google/gemma-3-27b-it", 800) == (7 * 50 * page, 0.0)


@pytest.mark.parametrize(
    ("model", "engine", "layers", "token", "block"),
    [
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", "vllm", 12, 2048, 544),
        # vllm-project/vllm issue 24280: pages of 672 tokens
        ("nvidia/NVIDIA-Nemotron-Nano-9B-v2", "vllm@0.11", 4, 4096, 672),
    ],
)
def test_attention_pages_hold_a_recurrent_state(
    model: str, engine: str, layers: int, token: int, block: int
) -> None:
    network = resolve_model(model).network
    states = sum(each.layers for each in network.cache_layouts(2.0) if each.kind == "state")
    pages = np.ceil(states / layers) + 3  # one page a group, three of attention
    assert grouped(model, 3 * block, engine) == (pages * layers * block * token, 0.0)
    assert grouped(model, 3 * block + 1, engine)[0] > grouped(model, 3 * block, engine)[0]


def test_a_narrower_layer_has_more_tokens_in_a_page() -> None:
    # Gemma 4 26B: 5 layers of 4,096 bytes keep all tokens, 25 of 8,192 bytes keep 1,024
    page = 5 * 16 * 8192
    assert grouped("google/gemma-4-26B-A4B", 32_000)[0] == (1000 + 5 * 65) * page


def test_releases_group_nearly_equal_kinds_otherwise() -> None:
    # 13 layers with all tokens, 12 windows of 128: groups of 13 since 0.12, of 12 before
    model = "openai/gpt-oss-20b{layers=25}"
    assert grouped(model, 1600)[0] == (100 + 9) * 13 * 16 * 2048
    assert grouped(model, 1600, "vllm@0.11")[0] == (2 * 100 + 9) * 12 * 16 * 2048


@given(
    st.integers(1, 200_000),
    st.sampled_from(["openai/gpt-oss-20b", "Qwen/Qwen3-Next-80B-A3B-Instruct"]),
    st.sampled_from([1, 2, 4]),
)
def test_longer_sequences_take_no_fewer_pages_and_at_least_their_bytes(
    tokens: int, model: str, tp: int
) -> None:
    each, in_flight = grouped(model, tokens, tp=tp)
    longer, beside = grouped(model, tokens + 16, tp=tp)
    assert each <= longer
    assert in_flight <= beside
    whole = sum(
        layout.layers * layout.bytes_per_token / min(tp, layout.divided_by)
        for layout in resolve_model(model).network.cache_layouts(2.0)
        if not layout.token_limit
    )
    assert each >= whole * tokens


def pooled(model: str, tokens: float, engine: str = "sglang") -> float:
    pools = resolve_engine(engine).memory.pools
    assert pools is not None
    network = resolve_model(model).network
    found = pooled_bytes_per_sequence(network, "bf16", PLAN, tokens * ONE, pools)
    return float(found.each[0])


def test_pools_by_hand() -> None:
    # gpt-oss-20b: 0.8 tokens of 12 windowed layers per token of 12 others, 2,048 bytes each
    assert pooled("openai/gpt-oss-20b", 10_000) == pytest.approx(10_000 * 1.8 * 12 * 2048)
    # shorter than the window, the pool of windowed layers is full first
    assert pooled("openai/gpt-oss-20b", 100) == pytest.approx(100 / 0.8 * 1.8 * 12 * 2048)
    # Gemma 3 has no pool for windows
    assert pooled("google/gemma-3-27b-it", 10_000) == 10_000 * 62 * 8192
    # TensorRT-LLM keeps all tokens of all layers by default
    assert pooled("openai/gpt-oss-20b", 10_000, "trtllm") == 10_000 * 24 * 2048
    # Qwen3-Next: five states of 36 layers per request in 9 of 19 parts of the memory, or keys
    model, state = "Qwen/Qwen3-Next-80B-A3B-Instruct", 36 * 2_146_304
    assert pooled(model, 1000) == pytest.approx(5 * state * 19 / 9)
    assert pooled(model, 200_000) == pytest.approx(200_000 * 12 * 2048 * 19 / 10)
