from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perfatlas.answer import Answer
from perfatlas.verbs.kernel import kernel_attention, kernel_gemm, kernel_moe

LARGE = {"system": "h200_sxm", "m": 8192, "n": 8192, "k": 8192}


def test_the_compute_bound_follows_the_clock() -> None:
    whole, half = (kernel_gemm(**LARGE, tier="bound", clock_ratio=r).results for r in (1, 0.5))
    assert half["bound_time_s"] == pytest.approx(2.0 * whole["bound_time_s"])


def test_the_memory_bound_does_not() -> None:
    small = {**LARGE, "m": 1}
    whole, half = (kernel_gemm(**small, tier="bound", clock_ratio=r).results for r in (1, 0.5))
    assert half["bound"] == whole["bound"] == "memory"
    assert half["bound_time_s"] == whole["bound_time_s"]


@pytest.mark.parametrize(
    ("verb_function", "fields"),
    [
        (kernel_gemm, LARGE),
        (kernel_attention, {"system": "h200_sxm", "kv_len": 4096, "num_heads": 8, "batch": 64}),
        (
            kernel_moe,
            {
                "system": "h200_sxm",
                "tokens": 4096,
                "hidden": 4096,
                "intermediate": 1536,
                "experts": 128,
                "top_k": 8,
            },
        ),
    ],
)
def test_a_slower_clock_is_no_faster_and_is_stated(
    verb_function: Callable[..., Answer], fields: dict[str, Any]
) -> None:
    answers = [verb_function(**fields, tier="physics", clock_ratio=ratio) for ratio in (1.0, 0.7)]
    whole, slow = (answer.results["time_s"] for answer in answers)
    assert whole <= slow <= whole / 0.7
    assert "0.7 of the sustained clock" not in str(answers[0].to_dict())
    assert "leaves 0.7 of the clock sustained" in str(answers[1].to_dict())


def test_a_product_at_the_power_limit_says_what_it_takes_when_repeated() -> None:
    large: dict[str, object] = {"system": "h100_sxm", "m": 8192, "n": 8192, "k": 8192}

    def warned(**fields: object) -> bool:
        return any("reaches the power limit" in text for text in kernel_gemm(**fields).warnings)

    assert warned(**large)
    assert not warned(**large | {"m": 16})  # memory bandwidth limits it
    assert not warned(**large, input_distribution="zeros")
    for system in ("a100_sxm", "h100_pcie", "h100_nvl", "h800_sxm"):  # not measured
        assert not warned(**large | {"system": system})
    assert not warned(**large, format="fp16")
