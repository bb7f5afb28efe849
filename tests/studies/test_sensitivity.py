"""Elasticities, next bottlenecks and break-even values of estimates."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

from perfatlas import studies
from perfatlas.hardware import resolve_system, with_values
from perfatlas.scenario.resolution import read_scenario
from perfatlas.verbs.estimate import estimate, explain

DENSE: Final[dict[str, Any]] = {"model": "meta-llama/Llama-3.1-8B", "system": "h200_sxm"}
SCENARIOS: Final[dict[str, dict[str, Any]]] = {
    "static": {**DENSE, "tp": 4, "batch": 16},
    "aggregated": {**DENSE, "mode": "aggregated", "concurrency": 64, "method": "formula"},
    "experts": {
        "model": "Qwen/Qwen3-30B-A3B",
        "system": "h100_sxm",
        "attention_dp": 8,
        "ep": 8,
        "batch": 64,
    },
    "two nodes": {**DENSE, "tp": 8, "pp": 2, "batch": 8},
    "pools": {
        **DENSE,
        "mode": "disaggregated",
        "prefill_system": "b200_sxm",
        "decode_tp": 2,
        "decode_batch": 16,
    },
    "bound": {**DENSE, "batch": 4, "tier": "bound"},
}
SIGNS: Final = {"latency": 1.0, "rate": -1.0}


@pytest.mark.parametrize("fields", SCENARIOS.values(), ids=SCENARIOS)
def test_latencies_are_homogeneous_in_rates_and_latencies(fields: dict[str, Any]) -> None:
    """Euler: all latencies minus all rates sum to 1."""
    found = studies.elasticities(studies.scaled_scenario(read_scenario(fields)))
    for metric in ("ttft_s", "tpot_s", "request_latency_s"):
        whole = sum(
            SIGNS[factor.kind] * found[metric][factor.name]
            for factor in studies.all_factors()
            if factor.kind in SIGNS and factor.name in found[metric]
        )
        assert whole == pytest.approx(1.0, abs=1e-6)


def test_a_memory_bound_decode_follows_the_memory_bandwidth() -> None:
    found = studies.elasticities(studies.scaled_scenario(read_scenario(SCENARIOS["bound"])))
    assert found["tpot_s"]["device.memory.bandwidth"] == pytest.approx(-1.0, abs=0.01)
    assert found["output_tokens_per_s_per_user"]["device.memory.bandwidth"] == pytest.approx(
        1.0, abs=0.01
    )


def test_elasticities_agree_with_changed_systems() -> None:
    """By hand: two estimates at 1% more and less bandwidth."""
    field = "device.memory.bandwidth"
    base = resolve_system("h200_sxm")
    fields = SCENARIOS["static"]
    sides = [
        estimate(**{**fields, "system": with_values(base, {field: 4.8e12 * ratio}).name})
        for ratio in (1.01, 1.0 / 1.01)
    ]
    by_hand = np.log(sides[0].results["tpot_s"] / sides[1].results["tpot_s"]) / np.log(1.01**2)
    found = studies.elasticities(studies.scaled_scenario(read_scenario(fields)))["tpot_s"][field]
    assert found == pytest.approx(by_hand, rel=1e-3)


def test_break_even_values_meet_the_target_when_put_in() -> None:
    fields = SCENARIOS["static"]
    target = 0.8 * estimate(**fields).results["tpot_s"]
    rows = studies.break_even(studies.scaled_scenario(read_scenario(fields)), "tpot_s", target)
    met = [row for row in rows if row["value"] is not None]
    assert {row["field"] for row in met} >= {"device.memory.bandwidth", "device.overhead_ratio"}
    for row in met:
        system = with_values(resolve_system("h200_sxm"), {row["field"]: row["value"]})
        reached = estimate(**{**fields, "system": system.name}).results["tpot_s"]
        assert reached == pytest.approx(target, rel=1e-8)
    for row in rows:
        assert (row["ratio"] is None) == (row["limit"] > target)


def test_a_target_that_is_met_is_answered_with_what_it_allows() -> None:
    scaled = studies.scaled_scenario(read_scenario(SCENARIOS["bound"]))
    now = float(scaled.results([{}])["tpot_s"][0])
    (row,) = [
        row
        for row in studies.break_even(scaled, "tpot_s", 2.0 * now)
        if row["field"] == "device.memory.bandwidth"
    ]
    assert row["ratio"] == pytest.approx(0.5, rel=0.01)


def test_improving_the_bottleneck_moves_it() -> None:
    rows = [
        row
        for row in studies.next_bottlenecks(
            studies.scaled_scenario(read_scenario({**SCENARIOS["static"], "tp": 2}))
        )
        if row["metric"] == "tpot_s"
    ]
    assert [row["ratio"] for row in rows] == [1.0, 1.2, 2.0]
    assert rows[0]["field"] == rows[0]["improved"] == "device.memory.bandwidth"
    assert rows[0]["value"] > rows[1]["value"] > rows[2]["value"]
    assert rows[2]["field"] == "device.overhead_ratio"


def test_changed_hardware_runs_the_same_kernels() -> None:
    """A bandwidth that is 1 millionth higher changes prices by about as much."""
    fields = {**DENSE, "format": "fp8", "kv_format": "fp8", "isl": 4000}
    near = "h200_sxm{device.memory.bandwidth=4.8000048TB/s}"
    first, second = (estimate(**{**fields, "system": one}).results for one in ("h200_sxm", near))
    assert second["ttft_s"] == pytest.approx(first["ttft_s"], rel=2e-6)


def test_overheads_scale_the_fixed_times() -> None:
    fields = {**DENSE, "tp": 4}
    half = estimate(**{**fields, "system": "h200_sxm{device.overhead_ratio=0.5}"}).results
    assert half["tpot_s"] < estimate(**fields).results["tpot_s"]


def test_an_explanation_has_the_estimate_and_its_sensitivities() -> None:
    answer = explain(**DENSE, slo_tpot_s=0.002)
    assert answer.command == "estimate --explain"
    assert answer.results["tpot_s"] == estimate(**DENSE).results["tpot_s"]
    assert {row["target"] for row in answer.results["break_even"]} == {0.002}
    assert answer.results["sensitivity"]["tpot_s"]["device.memory.bandwidth"] < -0.5


def test_break_even_values_stay_inside_the_range_of_their_field() -> None:
    """An assumed rate may lie so near the end of its range that rounding would leave it."""
    scaled = studies.scaled_scenario(
        read_scenario({"model": "meta-llama/Llama-3.1-8B", "system": "mi300x"})
    )
    rows = studies.break_even(scaled, "tpot_s", 1e-9)
    assert {row["field"] for row in rows if row["ratio"] is None}
