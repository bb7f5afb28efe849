"""Energy of jobs: by hand, its parts, its limits and its refusals."""

from __future__ import annotations

import math
from typing import Any

import pytest

import perfatlas
from perfatlas.verbs.goodput import goodput
from perfatlas.verbs.goodput.answer import goodput_row

JOB: dict[str, Any] = {
    "mtti_s": 7200.0,
    "checkpoint_write_s": 60.0,
    "restart_s": 300.0,
    "gpus": 104,
}
DAY_S = 86400.0


def answered(**fields: Any) -> Any:  # noqa: ANN401 - fields of goodput
    return perfatlas.goodput(**{**JOB, "power_w": 600.0, **fields})


def test_energy_of_a_job_by_hand() -> None:
    found = answered(duration_s=DAY_S, usd_per_kwh=0.1, pue=1.5).results
    assert found["job_energy_j"] == pytest.approx(600.0 * 104 * DAY_S)
    lost_j = (1.0 - found["goodput"]) * found["job_energy_j"]
    assert found["lost_energy_j"] == pytest.approx(lost_j)
    assert found["electricity_usd"] == pytest.approx(0.6 * 104 * 24 * 1.5 * 0.1)  # 1,497.6 kWh
    share = found["lost_electricity_usd"] / found["electricity_usd"]
    assert share == pytest.approx(1.0 - found["goodput"])


def test_the_energy_of_interrupted_work_is_that_of_a_renewal_process() -> None:
    found = answered(duration_s=DAY_S, checkpoint_interval_s=3600.0, idle_power_w=100.0).results
    mtti_s, work_s, write_s, restart_s = 7200.0, 3600.0, 60.0, 300.0
    segment_s = work_s + write_s
    failures = math.expm1(segment_s / mtti_s)  # before a segment is completed
    failed_s = mtti_s * failures - segment_s
    # the share of failures that interrupt the write, and how long it has run
    writing = math.exp(-work_s / mtti_s) - math.exp(-segment_s / mtti_s)
    writing /= -math.expm1(-segment_s / mtti_s)
    write_lost_s = mtti_s - write_s / math.expm1(write_s / mtti_s)
    lost_s = failed_s - failures * writing * write_lost_s
    cycle_s = segment_s + failed_s + failures * mtti_s * math.expm1(restart_s / mtti_s)
    assert found["goodput"] == pytest.approx(work_s / cycle_s)
    assert found["lost_work_energy_j"] == pytest.approx(lost_s / cycle_s * DAY_S * 104 * 600.0)
    assert found["lost_work_energy_j"] < found["lost_energy_j"] < found["job_energy_j"]


@pytest.mark.parametrize("method", ["exact", "simulate"])
def test_categories_sum_to_the_energy_and_waiting_gpus_draw_their_own_power(method: str) -> None:
    found = answered(idle_power_w=100.0, method=method)
    rows = {row["name"]: row for row in found.breakdown}
    assert sum(row["energy_j"] for row in rows.values()) == pytest.approx(
        found.results["job_energy_j"]
    )
    for name, row in rows.items():
        watts = 600.0 if name in ("productive", "lost_work") else 100.0
        assert row["energy_j"] == pytest.approx(watts * 3600.0 * row["gpu_hours"])
    assert found.results["job_energy_j"] < answered(method=method).results["job_energy_j"]


def test_a_job_on_a_fleet_has_energy() -> None:
    fields: dict[str, Any] = {"fleet": "llama3", "checkpoint_write_s": 60.0, "restart_s": 300.0}
    fields |= {"power_w": 600.0}
    found = perfatlas.goodput(**fields, half_width=0.05, duration_s=5 * DAY_S)
    parts = sum(row["energy_j"] for row in found.breakdown)
    assert found.results["job_energy_j"] == pytest.approx(parts)
    assert found.results["job_energy_j"] == pytest.approx(
        600.0 * 3600.0 * found.results["gpu_hours"], rel=1e-6
    )


def test_seeds_are_averaged_and_rows_share_none() -> None:
    asked: dict[str, Any] = {
        "gpus": 512,
        "node_mtbf_s": 2e6,
        "spares": 2,
        "repair_s": 86400,
        "half_width": 0.05,
        "checkpoint_write_s": 60,
        "restart_s": 300,
        "power_w": 600,
        "idle_power_w": 100,
    }
    found = goodput(**asked, num_seeds=3, seed=4)
    alone = [goodput(**asked, seed=seed) for seed in (4, 5, 6)]
    energies = ("job_energy_j", "lost_energy_j", "lost_work_energy_j")
    for name in ("goodput", *energies, "interruptions"):
        values = [one.results[name] for one in alone]
        assert found.results[name] == pytest.approx(sum(values) / 3)
        assert found.results[f"{name}_seed_half_width"] > 0.0
    assert found.results["replicas"] == sum(one.results["replicas"] for one in alone)
    assert (found.results["seed"], found.results["seeds_simulated"]) == (4, 3)
    assert sum(row["share"] for row in found.breakdown) == pytest.approx(1.0)
    assert sum(row["energy_j"] for row in found.breakdown) == pytest.approx(
        found.results["job_energy_j"]
    )
    assert goodput(**found.scenario).results == found.results
    rows = [goodput_row(number, {**asked, "num_seeds": 2}).results for number in (0, 1)]
    assert [row["seed"] for row in rows] == [1000, 2000]
    assert rows[0]["goodput"] != rows[1]["goodput"]
    fleet = {**asked, "fleet": "llama3", "gpus": 1024, "half_width": 0.02}
    of_fleet = {k: v for k, v in fleet.items() if k not in ("node_mtbf_s", "repair_s")}
    pair = [goodput(**of_fleet, seed=seed).results["goodput"] for seed in (0, 1)]
    assert goodput(**of_fleet, num_seeds=2).results["goodput"] == pytest.approx(sum(pair) / 2)
