"""Closed forms, simulations and tables compose one interval of steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perfatlas.engines import resolve_engine, step_errors, step_spreads
from perfatlas.verbs.estimate import estimate, estimate_table

if TYPE_CHECKING:
    from pathlib import Path

ASKED: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "mode": "aggregated",
    "concurrency": 8,
    "isl": 512,
    "osl": 64,
}
SYSTEMS = ("h200_sxm", "rtx_4090")


@pytest.fixture(scope="module")
def answers() -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (system, method): dict(estimate(**ASKED, system=system, method=method).results)
        for system in SYSTEMS
        for method in ("formula", "simulate")
    }


def width(results: dict[str, Any], name: str = "tpot_s") -> tuple[float, float]:
    return results[f"{name}_low"] / results[name], results[f"{name}_high"] / results[name]


@pytest.mark.parametrize("system", SYSTEMS)
def test_formula_and_simulation_have_nearly_equal_intervals(
    system: str, answers: dict[tuple[str, str], dict[str, Any]]
) -> None:
    formula, simulated = (width(answers[system, how]) for how in ("formula", "simulate"))
    assert formula == pytest.approx(simulated, rel=0.1)


def test_a_device_without_tables_has_a_wider_interval_by_both_methods(
    answers: dict[tuple[str, str], dict[str, Any]],
) -> None:
    for how in ("formula", "simulate"):
        known, borrowed = (width(answers[system, how]) for system in SYSTEMS)
        assert borrowed[0] < known[0]
        assert borrowed[1] >= known[1]  # equal where the spread between laboratories is wider


def test_intervals_hold_the_errors_of_runs(
    answers: dict[tuple[str, str], dict[str, Any]],
) -> None:
    spread, own = step_spreads()["dense"], step_errors()["vllm"]
    results = answers["h200_sxm", "formula"]
    low, high = width(results)
    assert low <= np.exp(min(spread.q05, own.q05)) * 1.01
    assert high >= np.exp(max(spread.q95, own.q95)) * 0.99


def test_models_with_experts_have_a_spread_of_their_own() -> None:
    dense, experts = (step_spreads()[kind] for kind in ("dense", "experts"))
    assert experts.q95 - experts.q05 > dense.q95 - dense.q05
    assert max(experts.q05, dense.q05) < 0.0 < dense.q95 < experts.q95


def test_a_table_has_the_interval_of_a_single_estimate(
    answers: dict[tuple[str, str], dict[str, Any]],
) -> None:
    asked = {name: [value] for name, value in ASKED.items()}
    table = estimate_table({**asked, "system": ["rtx_4090"], "method": ["formula"]}).columns
    for name in ("tpot_s_low", "tpot_s_high"):
        assert table[name][0] == pytest.approx(answers["rtx_4090", "formula"][name], rel=1e-12)


def test_no_interval_of_the_throughput_ends_at_the_assumed_front_end() -> None:
    busy = {**ASKED, "concurrency": 2000, "isl": 64, "system": "b200_sxm", "max_num_seqs": 2048}
    results = estimate(**busy, method="formula").results
    assumed = 1.0 / resolve_engine("vllm").front.token_s
    assert results["output_tokens_per_s_per_gpu"] <= assumed * 1.001
    assert results["output_tokens_per_s_per_gpu_high"] > assumed * 1.05


def test_the_lower_bound_has_no_interval() -> None:
    results = estimate(**ASKED, system="h200_sxm", method="formula", tier="bound").results
    assert results["tpot_s_low"] == results["tpot_s"]
    assert results["tpot_s_high"] is None


def test_an_ideal_engine_has_the_interval_of_its_kernels_by_both_methods() -> None:
    formula, simulated = (
        width(dict(estimate(**ASKED, system="h200_sxm", engine="ideal", method=how).results))
        for how in ("formula", "simulate")
    )
    assert formula == pytest.approx(simulated, rel=0.1)
    assert formula[0] > np.exp(step_spreads()["dense"].q05)


def test_an_engine_without_measured_runs_has_the_errors_between_laboratories(
    tmp_path: Path, answers: dict[tuple[str, str], dict[str, Any]]
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('base = "vllm"\nname = "mine"\n')
    for how in ("formula", "simulate"):
        found = dict(estimate(**ASKED, system="h200_sxm", engine=str(path), method=how).results)
        assert found["tpot_s"] == answers["h200_sxm", how]["tpot_s"]
        assert width(found)[0] <= np.exp(step_spreads()["dense"].q05) * 1.01


@pytest.mark.parametrize("how", ["formula", "simulate"])
def test_steps_partly_at_the_roofline_have_no_upper_end(how: str) -> None:
    results = estimate(**ASKED, system="h200_sxm", format="mxfp4", method=how).results
    assert results["tpot_s_low"] < results["tpot_s"]
    assert results["tpot_s_high"] is None
    assert results["output_tokens_per_s_per_gpu_low"] is None


def test_slower_steps_to_which_prompts_add_nothing_are_no_end_below_the_value() -> None:
    asked = {**ASKED, "concurrency": 300, "isl": 7, "tp": 4, "pp": 4, "dp": 2}
    results = estimate(**asked, system="h100_sxm", method="formula").results
    assert results["tpot_s_low"] <= results["tpot_s"] <= results["tpot_s_high"]
