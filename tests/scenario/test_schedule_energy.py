"""Energy of a cluster: watts times the GPU-hours of each category."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from perfatlas.scenario.cluster_schedules import PARTS
from perfatlas.verbs.schedule import FleetSchedule, fleet_schedule

CLUSTER: Final[dict[str, Any]] = {
    "load": 0.7, "num_jobs": 300, "nodes": 16, "node_mtbf_s": "3d", "repair_s": "12h",
    "checkpoint_interval_s": 3600, "restart_s": 300, "response": "slurm_requeue",
}  # fmt: skip
POWER: Final[dict[str, Any]] = {"power_w": 620.0, "idle_power_w": 90.0, "repair_power_w": 20.0}


@pytest.fixture(scope="module")
def found() -> FleetSchedule:
    """Return a schedule with failures and its energy."""
    return fleet_schedule(**CLUSTER, **POWER, usd_per_kwh=0.1, pue=1.25)


def test_each_category_draws_its_power_and_the_parts_sum_to_the_total(found: FleetSchedule) -> None:
    results = found.results
    hours = {row["name"]: row["gpu_hours"] for row in found.breakdown}
    computing = ("productive", "unfinished", "under_way")
    stalled = ("restart", "detection", "waiting")
    idle = ("draining", "idle_jobs_queued", "idle_no_jobs")
    expected = {
        "work_energy_j": 620.0 * sum(hours[name] for name in computing),
        "lost_work_energy_j": 620.0 * hours["lost_work"],
        "stalled_energy_j": 90.0 * sum(hours[name] for name in stalled),
        "idle_gpu_energy_j": 90.0 * sum(hours[name] for name in idle),
        "repair_energy_j": 20.0 * hours["down"],
    }
    for name, watt_hours in expected.items():
        assert watt_hours > 0.0
        assert results[name] == pytest.approx(3600.0 * watt_hours, rel=1e-12)
    assert results["cluster_energy_j"] == sum(results[name] for name in PARTS)
    of_rows = sum(row["energy_j"] for row in found.breakdown)
    assert of_rows == pytest.approx(results["cluster_energy_j"], rel=1e-12)
    kwh = results["cluster_energy_j"] / 3.6e6
    assert results["cluster_electricity_usd"] == pytest.approx(1.25 * 0.1 * kwh)
    lost = results["lost_work_energy_j"] / results["cluster_energy_j"]
    share = results["lost_work_electricity_usd"] / results["cluster_electricity_usd"]
    assert share == pytest.approx(lost)


def test_power_changes_nothing_but_energy(found: FleetSchedule) -> None:
    plain = fleet_schedule(**CLUSTER)
    assert plain.results.items() <= found.results.items()
    assert not any("energy" in name or "electricity" in name for name in plain.results)
    doubled = fleet_schedule(**CLUSTER, power_w=1240.0, idle_power_w=180.0, repair_power_w=40.0)
    assert doubled.results["cluster_energy_j"] == 2.0 * found.results["cluster_energy_j"]


def test_the_energy_of_interrupted_work_by_hand(tmp_path: Path) -> None:
    jobs, failures = tmp_path / "jobs.csv", tmp_path / "failures.csv"
    jobs.write_text("submit_s,run_s,gpus\n0,1000,16\n", "utf-8")
    failures.write_text("time_s,node,repair_s\n700,0,60\n", "utf-8")
    asked: dict[str, Any] = {"jobs": str(jobs), "failures": str(failures), "nodes": 2}
    asked |= {"checkpoint_interval_s": 300, "response": "slurm_requeue", "detection_s": 0}
    run = fleet_schedule(**asked, power_w=620.0, idle_power_w=90.0)
    # work since the checkpoint at 600 s is lost: 100 s on 16 GPUs
    assert run.results["lost_work_energy_j"] == pytest.approx(100 * 16 * 620.0)
    assert run.results["work_energy_j"] == pytest.approx(1000 * 16 * 620.0)
