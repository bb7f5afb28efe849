"""Probability that a load is stable."""

from __future__ import annotations

from typing import Any

import pytest

from perfatlas.verbs.simulate import simulate

ASKED: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "system": "h200_sxm",
    "isl": 1024,
    "osl": 16,
    "request_rate": 150,
    "slo_ttft_s": 0.08,
}


@pytest.mark.study
def test_near_the_capacity_the_load_is_stable_with_a_probability() -> None:
    served = {name: value for name, value in ASKED.items() if name not in ("dp", "slo_ttft_s")}
    capacity = simulate(**served | {"request_rate": 10}).answer.results["capacity_requests_per_s"]
    near, calm = (
        simulate(**served | {"request_rate": share * capacity}).answer for share in (0.85, 0.1)
    )
    assert 0.5 < near.results["stable_probability"] < 0.95
    assert near.results["tpot_s_high"]["mean"] is None
    assert any("no upper limits of latencies" in text for text in near.warnings)
    assert "stable_probability" not in calm.results
    assert calm.results["tpot_s_high"]["mean"] > calm.results["tpot_s"]["mean"]
