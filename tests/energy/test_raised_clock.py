"""A clock above the sustained one, in every verb that prices steps or kernels."""

from __future__ import annotations

from typing import Any

import pytest

import perfatlas

SERVED: dict[str, Any] = {"model": "meta-llama/Llama-3.1-8B", "system": "h100_sxm", "isl": 2048}


def answers(clock: float) -> list[perfatlas.Answer]:
    return [
        perfatlas.kernel_gemm(m=8192, n=8192, k=8192, system="h100_sxm", clock_ratio=clock),
        perfatlas.estimate(**SERVED, osl=2, batch=64, clock_ratio=clock),
        perfatlas.simulate(
            **SERVED, osl=2, num_requests=16, concurrency=16, clock_ratio=clock
        ).answer,
    ]


def test_every_verb_warns_of_a_clock_that_takes_more_than_the_limit() -> None:
    for answer in answers(1.3):
        assert any("clock_ratio = 1.3" in text for text in answer.warnings), answer.command
        (text,) = (one for one in answer.warnings if "clock_ratio = 1.3" in one)
        assert "above the limit of 700 W" in text


@pytest.mark.parametrize("clock", [1.0, 0.7])
def test_no_verb_warns_of_a_clock_that_is_not_raised(clock: float) -> None:
    for answer in answers(clock):
        assert not any("would draw" in text for text in answer.warnings), answer.command
