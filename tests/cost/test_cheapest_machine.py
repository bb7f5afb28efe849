"""The cheapest machine that meets limits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfatlas import estimate
from perfatlas.answer import Answer
from perfatlas.hardware import resolve_system
from perfatlas.quantities import InfeasibleError, InvalidSpecError
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


def test_chiplets_are_chosen_where_one_die_cannot_be_made() -> None:
    asked = {**BOUND, "system": "b200_sxm{device.sm_count=148}", "max_die_area_mm2": 858}
    found = search(**asked, slo_tpot_s=0.005, solve="device.dies=1:3").results
    one, two, three = found["dies"]
    assert one["chip_usd"] is None
    assert "die_mm2" in one["reason"]
    assert two["die_mm2"] > three["die_mm2"]
    assert found["machine"]["chip_usd"] == min(two["chip_usd"], three["chip_usd"])
    (row,) = found["unknowns"]
    assert (row["field"], row["held_by"]) == ("device.dies", ["cost"])


def test_links_between_dies_slow_chiplets_down() -> None:
    """Two dies of 1 TB/s read at most 4 TB/s, three 4.5: 15.01 GB take 3.75 and 3.34 ms."""
    weight_bytes = 2 * (8.03e9 - 128256 * 4096)
    system = "b200_sxm{device.die_to_die.bandwidth=1TB/s}"
    asked = {**BOUND, "system": system, "slo_tpot_s": 1.05 * weight_bytes / 4.5e12}
    one, two, three = search(**asked, solve="device.dies=1:3").results["dies"]
    assert [row["chip_usd"] is None for row in (one, two, three)] == [False, True, False]
    assert "tpot_s" in two["reason"]


def test_a_second_memory_is_solved() -> None:
    flash = "device.second_memory.capacity=256GB,device.second_memory.bandwidth=1TB/s"
    asked = {**BOUND, "system": f"h200_sxm{{{flash},device.second_memory.usd_per_gb=1}}"}
    asked |= {"weight_offload": 0.5, "slo_tpot_s": 0.005}
    del asked["tier"]  # what is fetched ahead is not known
    (row,) = search(**asked, solve="device.second_memory.bandwidth").results["unknowns"]
    assert row["held_by"] == ["tpot_s"]
    half = (8.03e9 - 128256 * 4096) * 2 / 2
    assert row["value"] == pytest.approx(half / 0.005, rel=0.1)


@pytest.mark.parametrize(
    ("solve", "told"),
    [
        ("device.dies=0:4", "expected a positive number"),
        ("device.dies=4:2", "the least must be below"),
        ("device.dies=1:40", "at most 16 dies"),
        ("device.dies=-1:4", "device.dies"),
        ("device.second_memory.capacity", "does not state it"),
        ("device.*,device.second_memory.capacity=1GB:2GB", "does not state it"),
    ],
)
def test_wrong_chiplets_are_refused(solve: str, told: str) -> None:
    with pytest.raises(InvalidSpecError, match=told):
        search(**BOUND, slo_tpot_s=0.005, solve=solve)
