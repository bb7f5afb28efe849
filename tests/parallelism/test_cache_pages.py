"""Pages of the cache of models with compressed keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.engines import resolve_engine
from perfatlas.networks import resolve_model
from perfatlas.parallelism import PlanColumns, paged_bytes_per_sequence
from perfatlas.verbs.estimate import estimate
from perfatlas.verbs.simulate import simulate

PAGES = resolve_engine("vllm").memory.compressed_pages
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


@pytest.mark.parametrize(
    ("tokens", "in_flight", "published"),
    [(33_792, 8192, 99_826), (1_048_576, 8192, 6_875), (33_792, 0, 4_525), (1_048_576, 0, 3_804)],
)
def test_bytes_per_token_are_those_published(tokens: int, in_flight: int, published: int) -> None:
    # vllm-project/vllm PR 52495: with the tokens of a step in flight, and without
    assert round(paged(tokens, in_flight) / tokens) == published


def test_pages_of_a_request_by_hand() -> None:
    stride = 21 * (37_440 + 8_640)  # layers with one key per 4 tokens: keys and index keys
    windows = 2 * (np.ceil((127 + 8192) / 64) + 1)  # 43 layers in two groups
    states = np.ceil((7 + 8192) / 4) + 1 + np.ceil((127 + 8192) / 8) + 1
    assert windows + states == 3354
    assert paged(256_000, 8192) == (1000 + 3354) * stride


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
    assert 20.4e6 < found["kv_capacity_tokens"] < 1.12 * 20.4e6
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
