"""Power of the site of a schedule: overhead by load, caps by hour, carbon."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from perfatlas.cli import main
from perfatlas.energy import node_power
from perfatlas.files import read_table
from perfatlas.hardware import resolve_system
from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.reliability.jobs.model import Cluster
from perfatlas.scenario.cluster_schedules import Site, parse_schedule
from perfatlas.verbs.schedule import FleetSchedule, fleet_schedule
from tests.hardware.test_user_files import COMPLETE

JOBS: Final[dict[str, Any]] = {
    "load": 0.8, "num_jobs": 200, "run_median_s": 7200, "nodes": 16, "power_w": 600.0,
    "idle_power_w": 100.0,
}  # fmt: skip
SITE: Final[dict[str, Any]] = {**JOBS, "trace_resolution_s": 900}
SAVED: Final[dict[str, Any]] = {"checkpoint_interval_s": 1800, "restart_s": 300}
FAILING: Final[dict[str, Any]] = {
    **SAVED, "node_mtbf_s": "3d", "repair_s": "12h", "repair_power_w": 20.0,
}  # fmt: skip


def power_of(found: FleetSchedule) -> dict[str, Any]:
    """Return the samples of a schedule."""
    assert found.power is not None
    return dict(found.power.columns)


def profile(folder: Path, text: str) -> str:
    """Return the path of a profile of the site."""
    path = folder / "site.csv"
    path.write_text(text, "utf-8")
    return str(path)


@pytest.mark.parametrize("failing", [{}, FAILING])
def test_samples_have_the_energy_of_the_categories(failing: dict[str, Any]) -> None:
    found = fleet_schedule(**SITE, **failing)
    energy_j = found.results["cluster_energy_j"]
    assert found.results["site_energy_j"] == pytest.approx(energy_j, rel=1e-9)
    assert found.results["site_pue"] == pytest.approx(1.0)
    plain = fleet_schedule(**JOBS, **failing)
    assert plain.results.items() <= found.results.items()  # watching changes nothing
    watts = power_of(found)["facility_power_w"]
    assert 16 * 8 * 20.0 <= watts.min() <= watts.max() <= 16 * 8 * 600.0


def test_overhead_follows_the_load() -> None:
    asked: dict[str, Any] = {
        "pue": 1.4,
        "pue_fixed_share": 0.5,
        "pue_square_share": 0.2,
        "system": "h100_sxm",
    }
    columns = power_of(fleet_schedule(**SITE, **asked))
    full_w = 16 * node_power(resolve_system("h100_sxm").node).node_w(600.0)
    load = columns["it_power_w"] / full_w
    assert 0.0 < load.min() < load.max() <= 1.0 + 1e-12
    # 0.4 of the full load: half fixed, 30% proportional, 20% by the square
    overhead = 0.4 * full_w * (0.5 + 0.3 * load + 0.2 * load**2)
    assert columns["facility_power_w"] == pytest.approx(columns["it_power_w"] + overhead)


def test_caps_hold_by_hour(tmp_path: Path) -> None:
    free = fleet_schedule(**SITE)
    peak_w = free.results["site_peak_power_w"]
    caps = [0.4 * peak_w if 8 <= hour < 12 else peak_w for hour in range(24)]
    rows = "".join(f"{hour},{cap:.3f},{100 + hour}\n" for hour, cap in enumerate(caps))
    asked = {"site_profile": profile(tmp_path, f"hour,cap_w,gco2_per_kwh\n{rows}")}
    capped = fleet_schedule(**SITE, **SAVED, **asked)
    columns = power_of(capped)
    assert np.all(columns["facility_power_w"] <= columns["cap_w"] * (1 + 1e-9))
    assert capped.results["site_above_cap_share"] == 0.0
    assert "site_above_limit_share" not in capped.results
    both = fleet_schedule(**SITE, **SAVED, **asked, trace_limit_w=1.0).results
    assert (both["site_above_cap_share"], both["site_above_limit_share"]) == (0.0, 1.0)
    assert capped.results["wait_s"]["mean"] > free.results["wait_s"]["mean"]
    lasts_s = np.diff([*columns["time_s"], capped.results["duration_s"]])
    kwh = columns["facility_power_w"] * lasts_s / 3.6e6
    hours = (columns["time_s"] // 3600) % 24
    assert capped.results["site_gco2"] == pytest.approx(float((kwh * (100 + hours)).sum()))
    # 4 of 16 nodes compute, 12 are out of service: 4 x 8 x 600 W
    few = fleet_schedule(**SITE, repair_power_w=50.0, node_mtbf_s="30d", repair_s="1h", **SAVED,
        site_cap_w=4.5 * 8 * 600)  # fmt: skip
    hours = {row["name"]: row["gpu_hours"] for row in few.answer.breakdown}
    lasts_h = few.results["duration_s"] / 3600
    assert hours["held"] == pytest.approx(12 * 8 * lasts_h)
    assert 0.0 < hours["down"] < 4 * 8 * lasts_h
    assert few.results["repair_energy_j"] == pytest.approx(hours["down"] * 3600 * 50.0)
    assert few.results["site_energy_j"] == pytest.approx(few.results["cluster_energy_j"])
    alone = fleet_schedule(**JOBS, site_cap_w=4.5 * 8 * 600)
    assert alone.results["failures"] == 0
    assert few.results["site_peak_power_w"] <= 4 * 8 * 600.0 * (1 + 1e-9)


def test_a_profile_is_read_once(tmp_path: Path) -> None:
    rows = "".join(f"{hour},9e9,100\n" for hour in range(24))
    path = profile(tmp_path, f"hour,cap_w,gco2_per_kwh\n{rows}")
    inputs = parse_schedule({**SITE, **SAVED, "site_profile": path, "until_s": 3600})
    site = Site.of(inputs, Cluster(nodes=16, gpus_per_node=8))
    assert site.outages() is None
    Path(path).unlink()
    assert site.hourly("gco2_per_kwh", 30) == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hour,cap_w\n0,9e9\n2,9e9\n", "lacks hour 1"),
        ("hour,cap_w\n0,9e9\n1,9e9\n", "lacks hour 2: the schedule has"),
        ("hour,cap_w\n" + "".join(f"{hour},{hour}\n" for hour in range(24)), "row 2: cap_w = 0"),
        ("hour,watts\n0,1\n", "needs a column hour and one of cap_w"),
        ("cap_w\n1\n", "needs a column hour"),
        ("hour,cap_w\n", "lacks hour 0"),
        ("hour,cap_w\n" + "".join(f"{hour},\n" for hour in range(24)), "cap_w is empty"),
    ],
)
def test_a_wrong_profile_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InvalidSpecError, match=words):
        fleet_schedule(**SITE, site_profile=profile(tmp_path, text))
    rates = profile(tmp_path, "hour,gco2_per_kwh\n" + "".join(f"{hour},9\n" for hour in range(24)))
    with pytest.raises(InvalidSpecError, match="set trace_resolution_s"):
        fleet_schedule(**JOBS, site_profile=rates)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"site_cap_w": 0}, "greater than 0"),
        ({"site_cap_w": 10}, "raise site_cap_w"),
        ({"site_cap_w": 1e5, "response": "drain"}, "response = drain"),
        ({"site_cap_w": 1e5, "idle_power_w": 700}, "exceeds power_w"),
        ({"pue": 1.2, "pue_fixed_share": 0.7, "pue_square_share": 0.7}, "more than 1"),
        ({"pue_fixed_share": 0.5}, "pue"),
        ({"trace_resolution_s": 0}, "at least 0.001"),
        ({"trace_resolution_s": 0.001}, "raise it"),
        ({"trace_resolution_s": 1000, "site_profile": "site.csv"}, "does not divide the hours"),
        ({"num_jobs": None}, "set num_jobs"),
        ({"power_w": None, "idle_power_w": None}, "power_w"),
    ],
)
def test_what_does_not_suit_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidSpecError, match=words):
        fleet_schedule(**SITE | changes)


def test_nodes_without_power_are_refused(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(COMPLETE, "utf-8")
    with pytest.raises(UnsupportedError, match="leave out system"):
        fleet_schedule(**SITE, system=str(own))


def test_the_command_writes_the_samples(tmp_path: Path) -> None:
    path = tmp_path / "site.csv"
    words = [f"--{name.replace('_', '-')}={value}" for name, value in SITE.items()]
    assert main(["fleet", "schedule", *words, "--power-trace", str(path)]) == 0
    table = read_table(str(path))
    assert table.cells("time_s")[:2] == [0.0, 900.0]
    assert main(["fleet", "schedule", *words[:-1], "--power-trace", str(path)]) == 2
