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


def test_the_probability_of_slos_is_between_the_ends_of_the_interval() -> None:
    """Where slower steps miss an SLO that predicted ones meet; the later the SLO, the surer."""
    asked = {**ASKED, "request_rate": 20, "osl": 64, "num_requests": 200}
    del asked["slo_ttft_s"]
    tpot_s = simulate(**asked).answer.results["tpot_s"]["p95"]
    tight, loose, sure = (
        simulate(**asked, slo_tpot_s=factor * tpot_s).answer.results for factor in (1.05, 1.3, 9.0)
    )
    assert 0.5 < tight["attainment_probability"] < loose["attainment_probability"] < 0.95
    assert loose["slo_attainment_low"] < 0.9 < loose["slo_attainment"]
    assert "attainment_probability" not in sure
    missed = simulate(**asked, slo_tpot_s=0.95 * tpot_s / 1.2).answer.results
    assert 0.05 < missed["attainment_probability"] < 0.5
