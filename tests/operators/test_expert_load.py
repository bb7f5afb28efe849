"""Experts with tokens on the expert-parallel rank that has the most of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.operators import most_active_experts

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray


def most(tokens: int, experts: int, top_k: int, ep: int, distribution: str = "uniform") -> float:
    sizes: list[FloatArray] = [np.full(1, float(size)) for size in (tokens, experts, top_k, ep)]
    return float(most_active_experts(distribution, *sizes)[0])


def drawn(tokens: int, experts: int, top_k: int, ep: int) -> float:
    """Return the mean of the largest number of experts with tokens on a rank, of 300 draws."""
    random = np.random.default_rng(0)
    chosen = np.argsort(random.random((300, tokens, experts)), axis=2)[:, :, :top_k]
    active = np.zeros((300, experts), np.bool_)
    np.put_along_axis(active, chosen.reshape(300, -1), values=True, axis=1)
    return float(active.reshape(300, ep, -1).sum(axis=2).max(axis=1).mean())


def test_by_hand() -> None:
    # 8 tokens choose 8 of 128: idle (15/16)^8 = 0.5967, of 16 on a rank 6.453 +- 1.962 active, and
    # the most of 8 ranks 0.87 ln(8)^0.7 = 1.4513 deviations more
    idle = (15 / 16) ** 8
    mean, deviation = 16 * (1 - idle), math.sqrt(16 * idle * (1 - idle))
    assert most(8, 128, 8, 8) == pytest.approx(mean + 0.87 * math.log(8) ** 0.7 * deviation)
    assert most(8, 128, 8, 1) == pytest.approx(128 * (1 - idle))


@pytest.mark.parametrize(
    "sizes",
    [
        (8, 128, 8, 8),  # Qwen3-235B
        (32, 128, 8, 8),
        (8, 16, 1, 8),  # Llama 4 Scout
        (16, 16, 1, 4),
        (32, 128, 1, 8),  # Llama 4 Maverick
        (8, 256, 8, 32),  # DeepSeek-V3
        (64, 256, 8, 64),
    ],
)
def test_it_is_the_mean_of_draws(sizes: tuple[int, int, int, int]) -> None:
    assert most(*sizes) == pytest.approx(drawn(*sizes), rel=0.05)


@given(tokens=st.integers(1, 512), ranks=st.sampled_from([1, 2, 8, 64]))
def test_no_more_than_a_rank_has_and_more_with_more_tokens(tokens: int, ranks: int) -> None:
    for distribution in ("uniform", "balanced", "power_law_1.2"):
        found = most(tokens, 128, 8, ranks, distribution)
        assert 0.0 < found <= 128 / ranks
    assert most(tokens, 128, 8, 1) <= most(tokens + 1, 128, 8, 1)
