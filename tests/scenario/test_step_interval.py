"""Closed forms, simulations and tables compose one interval of steps."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from perfatlas import engines
from perfatlas.answer import Answer
from perfatlas.scenario.deployments import evaluate_one
from perfatlas.scenario.fields import Scenario
from perfatlas.verbs.estimate import estimate
from perfatlas.verbs.kernel import kernel_gemm
from perfatlas.verbs.simulate import simulate

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


def told(assumptions: Sequence[str], phase: str) -> tuple[float, float]:
    """Return the limits that the evidence tells of a step, as ratios."""
    text = next(one for one in assumptions if "90% interval combines" in one)
    found = re.search(rf"{phase} steps: ([+-]\d+)% to ([+-]\d+)% at least", text)
    assert found is not None
    return 1.0 + int(found[1]) / 100.0, 1.0 + int(found[2]) / 100.0


def composed(model: str, *, engine: str = "vllm", **fields: Any) -> tuple[Answer, float, float]:  # noqa: ANN401
    """Return a static estimate, and the limits of its decode step by hand."""
    answer = estimate(model=model, engine=engine, isl=512, osl=64, mode="static", **fields)
    whole = engines.whole_run_spread()
    kind = "experts" if "A3B" in model else "dense"
    ideal = engine == "ideal"  # takes no time of its own, but its kernels do on other machines
    center = 0.0 if ideal else engines.step_spreads()[kind].center
    rows = [row for row in answer.breakdown if row["phase"] == "decode" and row["calibration"]]
    total_s = sum(row["time_s"] for row in answer.breakdown if row["phase"] == "decode")
    of_class: dict[str, float] = {}
    for row in rows:
        key = engines.operator_class(row["calibration"].split("/")[1])
        of_class[key] = of_class.get(key, 0.0) + row["time_s"] / total_s
    parts = [engines.operator_spreads()[key].deviation * share for key, share in of_class.items()]
    deviation = math.hypot(0.0 if ideal else whole.deviation, *parts)
    low, high = center - whole.lower * deviation, center + whole.upper * deviation
    return answer, math.exp(low), math.exp(high)


@pytest.mark.parametrize("model", ["meta-llama/Llama-3.1-8B", "Qwen/Qwen3-30B-A3B"])
@pytest.mark.parametrize(("tp", "engine"), [(1, "vllm"), (4, "vllm"), (1, "ideal")])
def test_a_step_deviates_by_its_operators_and_by_whole_runs(
    model: str, tp: int, engine: str
) -> None:
    answer, low, high = composed(model, engine=engine, system="h200_sxm", batch=32, tp=tp)
    found = width(dict(answer.results))
    assert told(answer.evidence.assumptions, "decode") == pytest.approx((low, high), abs=0.006)
    asked = {"model": model, "engine": engine, "isl": 512, "osl": 64, "mode": "static"}
    scenario = Scenario.read(asked | {"system": "h200_sxm", "batch": 32, "tp": tp})
    cost = evaluate_one(scenario)[1].decode
    kernels = (cost.low_s() / cost.total_s(), cost.high_s() / cost.total_s())
    fastest, slowest = (float(end_C[0]) for end_C in kernels)
    assert found == pytest.approx((min(low, fastest), max(high, slowest)), rel=0.005)
    assert slowest < high or engine == "ideal"  # kernels are known better than whole runs


def test_experts_and_collectives_widen_a_step() -> None:
    widths = {
        name: composed(model, system="h200_sxm", batch=32, tp=tp, engine="trtllm")[2]
        for name, model, tp in (
            ("dense", "meta-llama/Llama-3.1-8B", 1),
            ("sharded", "meta-llama/Llama-3.1-8B", 8),
            ("experts", "Qwen/Qwen3-30B-A3B", 1),
        )
    }
    assert widths["dense"] < widths["sharded"]
    assert widths["dense"] < widths["experts"]


def test_a_kernel_has_the_spread_of_its_class_in_quadrature() -> None:
    results = dict(kernel_gemm(m=4096, n=4096, k=4096, system="h200_sxm").results)
    spread = engines.operator_spreads()["gemm"].half_width
    tabulated, anywhere = (
        math.log(results[end] / results["time_s"]) for end in ("tabulated_high_s", "time_s_high")
    )
    assert anywhere == pytest.approx(math.hypot(tabulated, spread), rel=1e-6)


def test_models_with_experts_have_a_center_of_their_own() -> None:
    dense, experts = (engines.step_spreads()[kind] for kind in ("dense", "experts"))
    assert 0.0 < dense.center != experts.center > 0.0


@pytest.mark.parametrize("method", ["formula", "simulate"])
def test_tpot_without_prompts_is_inside_where_prompts_run_first(method: str) -> None:
    """Clients of SGLang that start together wait for each other's prompts before they decode."""
    asked = {**ASKED, "engine": "sglang", "isl": 4000, "system": "h200_sxm"}
    answer = estimate(**asked, method=method)
    equal = {k: v for k, v in asked.items() if k != "mode"} | {"length_distribution": "fixed"}
    spread = simulate(**equal, num_requests=80).answer
    together = spread.results["tpot_s"]["mean"]
    assert answer.results["tpot_s_low"] < together < 0.8 * answer.results["tpot_s"]
    assert "together" in " ".join(answer.evidence.assumptions)
    # TTFT ends where clients come together, TPOT where they are spread: no run has both
    assert "different phases" in " ".join(answer.evidence.assumptions)
    found, gaps = answer.results, ASKED["osl"] - 1
    assert found["request_latency_s_low"] > 1.01 * (
        found["ttft_s_low"] + gaps * found["tpot_s_low"]
    )


@pytest.mark.parametrize("method", ["formula", "simulate"])
def test_the_ends_of_one_run_add_up(method: str) -> None:
    answer = estimate(**ASKED, system="h200_sxm", method=method)
    assert "different phases" not in " ".join(answer.evidence.assumptions)
    for end in ("low", "high"):
        ttft, tpot, latency = (
            answer.results[f"{name}_s_{end}"] for name in ("ttft", "tpot", "request_latency")
        )
        assert ttft is None or latency == pytest.approx(ttft + (ASKED["osl"] - 1) * tpot)


def test_no_interval_of_the_throughput_ends_at_the_assumed_front_end() -> None:
    busy = {**ASKED, "concurrency": 2000, "isl": 64, "system": "b200_sxm", "max_num_seqs": 2048}
    results = estimate(**busy, method="formula").results
    assumed = 1.0 / engines.resolve_engine("vllm").front.token_s
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
    assert formula[0] > 0.8  # the spread of whole runs reaches 0.77


def test_an_engine_without_measured_runs_has_the_errors_between_laboratories(
    tmp_path: Path, answers: dict[tuple[str, str], dict[str, Any]]
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('base = "vllm"\nname = "mine"\n')
    for how in ("formula", "simulate"):
        found = dict(estimate(**ASKED, system="h200_sxm", engine=str(path), method=how).results)
        assert found["tpot_s"] == answers["h200_sxm", how]["tpot_s"]
        low, _ = told(
            estimate(**ASKED, system="h200_sxm", engine=str(path), method=how).evidence.assumptions,
            "decode",
        )
        assert width(found)[0] <= low * 1.03


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
