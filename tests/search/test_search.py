"""The verb `search`: its winners are those of estimates, all candidates are accounted for."""

from __future__ import annotations

import json
import re
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import perfatlas
from perfatlas.cli import main
from perfatlas.energy import node_power
from perfatlas.files import read_table
from perfatlas.hardware import resolve_system
from perfatlas.quantities import InfeasibleError, InvalidSpecError, UnsupportedError
from perfatlas.studies.deployments.rows import estimate_fields, plan_row
from perfatlas.verbs.search import SearchAnswer, search

SMALL: Final[dict[str, Any]] = {
    "model": "meta-llama/Llama-3.1-8B",
    "system": "h200_sxm",
    "gpus": 2,
    "isl": 1024,
    "osl": 128,
    "max_num_batched_tokens": 8192,
    "num_simulated": 0,
}
EXPERTS: Final = {**SMALL, "model": "Qwen/Qwen3-30B-A3B", "gpus": 4}
LIMITED: Final = {**SMALL, "slo_ttft_s": 0.5, "slo_tpot_s": 0.02, "usd_per_gpu_hour": 3.0}
OBJECTIVES: Final = (
    "output_tokens_per_s_per_gpu",
    "request_latency_s",
    "usd_per_million_output_tokens",
    "energy_per_output_token_j",
)
PRICED: Final = (
    "ttft_s",
    "tpot_s",
    "tpot_s_low",
    "tpot_s_high",
    "request_latency_s",
    "output_tokens_per_s_per_gpu",
    "output_tokens_per_s_per_gpu_low",
    "energy_per_output_token_j",
    "gpus",
)


@cache
def _searched(objective: str) -> SearchAnswer:
    return search(**{**LIMITED, "objective": objective})


@pytest.mark.parametrize("asked", [SMALL, EXPERTS, {**SMALL, "mode": "static"}])
def test_candidates_have_exactly_the_numbers_of_an_estimate(asked: dict[str, Any]) -> None:
    answer = search(**asked)
    for place in range(0, answer.found.size, 5):
        fields = estimate_fields(
            answer.found, plan_row(answer.found, place, answer.inputs), place, answer.inputs
        )
        estimate = perfatlas.estimate(**fields).results
        row = {name: cells[place] for name, cells in answer.columns.items()}
        for name in PRICED:  # sums of columns of other sizes differ in the last digit
            assert row[name] == pytest.approx(estimate[name], rel=1e-13), name


def _all_rows(asked: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the estimate of every plan and load, one by one, without the code of the search."""
    table: dict[str, list[Any]] = {"tp": [], "pp": [], "dp": [], "concurrency": []}
    loads = [1, 2, 3, *(n << k for k in range(9) for n in (4, 5, 6, 7))]
    for tp, pp, dp in ((1, 1, 2), (2, 1, 1), (1, 2, 1)):
        for load in loads:
            for name, value in zip(table, (tp, pp, dp, load * dp), strict=True):
                table[name].append(value)
    size = len(table["tp"])
    shared = {n: v for n, v in asked.items() if n not in ("gpus", "usd_per_gpu_hour")}
    fields = {n: [v] * size for n, v in shared.items() if not n.startswith("slo")}
    fields |= {"mode": ["aggregated"] * size, "method": ["formula"] * size, **table}
    columns = perfatlas.estimate_table(fields).columns
    rows = [
        {
            **{n: cells[place] for n, cells in table.items()},
            **{n: c[place] for n, c in columns.items()},
        }
        for place in range(size)
    ]
    return [row for row in rows if not row["error"] and "run concurrently" not in row["warnings"]]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_winner_is_that_of_an_exhaustive_search(objective: str) -> None:
    found = search(**{**LIMITED, "objective": objective, "min_slo_probability": 0.5})
    best = found.results["plans"][0]
    meeting = [
        row
        for row in _all_rows(LIMITED)
        if row["ttft_s"] <= LIMITED["slo_ttft_s"] and row["tpot_s"] <= LIMITED["slo_tpot_s"]
    ]
    for row in meeting:
        row["usd_per_million_output_tokens"] = 3.0 / 3600 / row["output_tokens_per_s_per_gpu"] * 1e6
    pick = max if objective.startswith("output") else min
    expected = pick(meeting, key=lambda row: row[objective])
    assert best[objective] == pytest.approx(expected[objective], rel=1e-12)
    names = ("tp", "pp", "dp", "concurrency")
    assert [best[name] for name in names] == [expected[name] for name in names]


def test_the_frontier_is_that_of_an_exhaustive_search() -> None:
    rates = [
        (row["output_tokens_per_s_per_user"], row["output_tokens_per_s_per_gpu"])
        for row in _all_rows(LIMITED)
    ]
    expected = {
        (x, y)
        for x, y in rates
        if not any(a >= x and b >= y and (a, b) != (x, y) for a, b in rates)
    }
    frontier = _searched(OBJECTIVES[0]).results["frontier"]
    told = {
        (row["output_tokens_per_s_per_user"], row["output_tokens_per_s_per_gpu"])
        for row in frontier
    }
    assert told == expected


def test_candidates_and_rejected_ones_add_up() -> None:
    asked = {**SMALL, "gpus": 6, "model": "meta-llama/Llama-3.1-70B"}
    results = search(**asked).results
    sizes = [(tp, pp) for tp in (1, 2, 3, 6) for pp in (1, 2, 3, 6) if 6 % (tp * pp) == 0]
    assert results["candidates"] + sum(results["rejected"].values()) == len(sizes)
    # 64 heads are not divisible by 3 and 6; bf16 weights of 141 GB do not fit on one GPU
    assert results["rejected"]["tp_divides_num_heads"] == sum(tp % 3 == 0 for tp, _ in sizes)
    assert results["rejected"]["fits_in_memory"] == 1


@pytest.mark.parametrize("model", ["Qwen/Qwen3-30B-A3B", "meta-llama/Llama-3.1-70B"])
def test_all_step_sizes_are_counted_once_for_legal_and_refused_plans(model: str) -> None:
    results = search(
        model=model, system="h200_sxm", gpus=4, isl=1024, osl=128, num_simulated=0
    ).results
    sizes = (None, 2048, 4096, 8192, 16384, 32768)  # the default of vLLM on an H200 is 8192
    plans = [
        (tp, pp, adp, ep)
        for tp, pp, adp in product((1, 2, 4), repeat=3)
        if 4 % (tp * pp * adp) == 0 and (adp == 1 or "A3B" in model)
        for ep in (1, 2, 4)
        if tp * adp % ep == 0 and (ep == 1 or "A3B" in model)
    ]
    counted = results["candidates"] + sum(results["rejected"].values())
    assert counted == len(plans) * (len(sizes) - 1)


def test_every_candidate_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "candidates.parquet"
    words = [f"--{n.replace('_', '-')}={v}" for n, v in SMALL.items()]
    assert main(["search", *words, "--json", "--output", str(target)]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    table = read_table(str(target))
    assert table.rows == results["candidates"]
    best = max(table.cells("output_tokens_per_s_per_gpu"))
    assert best == results["plans"][0]["output_tokens_per_s_per_gpu"]


def test_a_required_probability_lowers_the_load() -> None:
    loads, rates = [], []
    for probability in (0.5, 0.8, 0.95):
        asked = {**SMALL, "slo_tpot_s": 0.01, "tp": 2, "min_slo_probability": probability}
        best = search(**asked).results["plans"][0]
        assert best["slo_probability"] >= probability
        assert best["binding_constraint"] == "slo_tpot_s"
        loads.append(best["concurrency"])
        rates.append(best["output_tokens_per_s_per_gpu"])
    assert loads == sorted(loads, reverse=True)
    assert len(set(loads)) == 3
    assert rates == sorted(rates, reverse=True)


def test_fewest_gpus_serve_the_rate_with_the_probability() -> None:
    asked = {**SMALL, "slo_tpot_s": 0.02, "max_gpus": 16, "objective": "gpus", "tp": 1, "pp": 1}
    del asked["gpus"]
    needed = []
    for rate in (10.0, 40.0, 80.0):
        best = search(**asked, request_rate=rate).results["plans"][0]
        served = best["output_tokens_per_s_per_gpu"] * best["gpus"] / SMALL["osl"]
        assert served >= rate
        assert best["slo_probability"] >= 0.8
        needed.append(best["gpus"])
    assert needed == sorted(needed)
    assert needed[0] < needed[-1]


def test_several_systems_and_formats_are_searched() -> None:
    asked = {**SMALL, "systems": "h100_sxm", "formats": ["bf16", "fp8"], "num_plans": 20}
    answer = search(**asked)
    assert set(answer.columns["system"]) == {"h200_sxm", "h100_sxm"}
    assert len(set(answer.columns["gemm_format"])) == 2
    sizes = [answer.columns[name] for name in ("system", "gemm_format", "tp", "pp")]
    assert len(set(zip(*sizes, strict=True))) == answer.found.size == 12


def test_spellings_of_one_system_or_format_are_searched_once() -> None:
    whole = search(**SMALL, formats="fp8").found.size
    assert search(**SMALL, formats="fp8,fp8_dynamic").found.size == whole
    assert search(**SMALL, formats="fp8", systems="H200_SXM").found.size == whole


def test_probabilities_are_those_of_the_intervals() -> None:
    columns = search(**SMALL, slo_tpot_s=0.005, min_slo_probability=0.01).columns
    low, high = np.array(columns["tpot_s_low"]), np.array(columns["tpot_s_high"])
    probability = np.array(columns["slo_probability"])
    assert np.all(probability[high <= 0.005] >= 0.95)
    assert np.all(probability[low > 0.005] <= 0.05)


def test_systems_alone_are_all_that_are_searched() -> None:
    fields = {name: value for name, value in SMALL.items() if name != "system"}
    listed = search(**fields, systems="h100_sxm,h200_sxm").answer
    further = search(**fields, system="h100_sxm", systems="h200_sxm").answer
    assert listed.results["plans"] == further.results["plans"]
    assert listed.scenario == further.scenario
    with pytest.raises(InvalidSpecError, match="system is required"):
        search(**fields, systems="h100_sxm,,h200_sxm")


def test_the_power_of_nodes_limits_a_search() -> None:
    asked = SMALL | {"gpus": 8}
    free = search(**asked).results["plans"][0]
    limits = (4500.0, 6000.0, 1e6)
    plans = [search(**asked, max_deployment_power_w=limit).results["plans"][0] for limit in limits]
    rates = [plan["output_tokens_per_s_per_gpu"] for plan in plans]
    assert rates == sorted(rates)
    assert rates[-1] == free["output_tokens_per_s_per_gpu"]
    for plan, limit in zip(plans[:2], limits, strict=False):
        gpu_w = plan["energy_per_output_token_j"] * plan["output_tokens_per_s_per_gpu"]
        assert node_power(resolve_system("h200_sxm").node).node_w(gpu_w) < limit
    assert plans[1]["concurrency"] < free["concurrency"]
    with pytest.raises(InfeasibleError) as refused:
        search(**asked, max_deployment_power_w=2000)
    assert "use fewer GPUs" in " ".join(refused.value.advice)
    with pytest.raises(InfeasibleError) as refused:  # the rate is met, the power is not
        search(**asked, request_rate=1.0, max_deployment_power_w=2000)
    power_w = re.search(r"([\d,.]+) W of its nodes \(limit 2000 W\)", str(refused.value))
    assert power_w is not None
    assert float(power_w[1].replace(",", "")) > 1500.0
    assert "requests/s" not in str(refused.value)
    with pytest.raises(InfeasibleError, match=r"requests/s \(at least 10000\)") as refused:
        search(**asked, request_rate=1e4, max_deployment_power_w=1e6)
    assert "use more GPUs" in " ".join(refused.value.advice)
    assert "W of its nodes" not in str(refused.value)
    with pytest.raises(UnsupportedError, match="is not predicted"):
        search(
            **asked | {"system": "h200_sxm{device.architecture=other}"},
            max_deployment_power_w=6000,
        )
    with pytest.raises(InvalidSpecError, match="set mode"):
        search(**asked, mode="disaggregated", max_deployment_power_w=6000)
