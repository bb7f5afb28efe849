"""The cheapest machine that meets limits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfatlas import estimate
from perfatlas.answer import Answer
from perfatlas.hardware import resolve_system
from perfatlas.quantities import InfeasibleError
from perfatlas.scenario.deployments import estimate_of
from perfatlas.studies import read_unknowns
from perfatlas.studies.deployments import machine_toml
from perfatlas.verbs.search import search

BOUND: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "system": "h200_sxm",
    "engine": "ideal",
    "tier": "bound",
    "gpus": 1,
    "concurrency": 1,
    "isl": 16,
    "osl": 16,
    "max_die_area_mm2": 5000,
}


def test_bandwidth_of_memory_bound_decode() -> None:
    """8.03e9 parameters without the 128,256 x 4,096 embeddings, 2 bytes each, per token."""
    weight_bytes = 2 * (8.03e9 - 128256 * 4096)
    found = search(**BOUND, slo_tpot_s=0.005, solve="device.memory.bandwidth").results
    (row,) = found["unknowns"]
    assert row["value"] == pytest.approx(weight_bytes / 0.005, rel=0.01)
    assert row["held_by"] == ["tpot_s"]
    assert found["machine"]["tpot_s"] == pytest.approx(0.005)


def test_the_file_is_the_machine(tmp_path: Path) -> None:
    solve = "device.memory.bandwidth=1TB/s:9TB/s,device.sm_count"
    answer = search(**BOUND, slo_tpot_s=0.005, solve=solve)
    path = tmp_path / "solved.toml"
    path.write_text(machine_toml(answer.to_dict()), "utf-8")
    device = resolve_system(str(path)).device
    named = resolve_system(answer.results["machine"]["system"]).device
    assert device.memory_bandwidth == named.memory_bandwidth
    assert device.number("sm_count") == named.number("sm_count")
    assert answer.columns == {}


@pytest.mark.study
def test_the_machine_holds_all_requests_and_its_answer_keeps_the_limits() -> None:
    load = {"isl": 1024, "osl": 256, "gpus": 1, "concurrency": 16}
    limits = {"slo_ttft_s": 0.5, "slo_tpot_s": 0.02}
    asked: dict[str, Any] = {"model": "llama-3.1-8b", "system": "h100_sxm", **load, **limits}
    found = search(**asked, solve="device.*")
    machine = found.results["machine"]
    shown = {row["limit"]: row for row in found.results["limit_costs"]}
    for name in ("ttft_s", "tpot_s"):
        assert machine[name] == shown[name]["value"] <= shown[name]["most"] * (1 + 1e-9)
    assert not any("run concurrently" in warning for warning in found.answer.warnings)
    estimated = estimate(**found.best)
    assert estimated.results["tpot_s"] == machine["tpot_s"]
    held = {row["field"]: row["held_by"] for row in found.results["unknowns"]}
    assert held["device.memory.capacity"] == ["memory"]


def test_an_answer_above_a_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def slower(fields: dict[str, Any]) -> Answer:
        answer = estimate_of(fields)
        return replace(answer, results={**answer.results, "tpot_s": 0.006})

    monkeypatch.setattr("perfatlas.studies.deployments.machine.estimate_of", slower)
    with pytest.raises(InfeasibleError, match=r"tpot_s .*0\.006.*0\.005"):
        search(**BOUND, slo_tpot_s=0.005, solve="device.memory.bandwidth")


def test_every_field_with_a_cost() -> None:
    found = read_unknowns(["device.*"], resolve_system("h200_sxm"))
    assert len(found) == 4
    assert all(one.least < one.base < one.most for one in found)
