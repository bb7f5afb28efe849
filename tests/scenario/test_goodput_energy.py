"""Energy of jobs: by hand, its parts, its limits and its refusals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

import perfatlas
from perfatlas.quantities import InvalidSpecError
from perfatlas.verbs.goodput import goodput, goodput_frontier
from perfatlas.verbs.goodput.answer import goodput_row
from perfatlas.verbs.goodput.sections import goodput_headline, result_lines

if TYPE_CHECKING:
    from collections.abc import Callable

FLEET_JOB: dict[str, Any] = {
    "fleet": "llama3",
    "gpus": 1024,
    "checkpoint_write_s": 60,
    "restart_s": 300,
}
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


def test_a_waiting_gpu_that_draws_more_than_a_computing_one_is_remarked_on() -> None:
    told = "idle_power_w = 700 W is above power_w = 600 W"
    assert any(told in text for text in answered(idle_power_w=700.0).warnings)
    assert not any("above power_w" in text for text in answered(idle_power_w=600.0).warnings)


def test_a_job_on_a_fleet_has_energy() -> None:
    fields: dict[str, Any] = {"fleet": "llama3", "checkpoint_write_s": 60.0, "restart_s": 300.0}
    fields |= {"power_w": 600.0}
    found = perfatlas.goodput(**fields, half_width=0.05, duration_s=5 * DAY_S)
    parts = sum(row["energy_j"] for row in found.breakdown)
    assert found.results["job_energy_j"] == pytest.approx(parts)
    assert found.results["job_energy_j"] == pytest.approx(
        600.0 * 3600.0 * found.results["gpu_hours"], rel=1e-6
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"method": "young"}, "method young does not divide the time of the job into categories"),
        ({"gpus": None}, "power_w = 600 has no effect.*gpus"),
        ({"power_w": None, "usd_per_kwh": 0.1}, "usd_per_kwh = 0.1 has no effect.*power_w"),
        ({"pue": 1.2}, "pue = 1.2 has no effect.*usd_per_kwh"),
    ],
)
def test_power_that_has_no_effect_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSpecError, match=message):
        answered(**fields)


def test_powers_are_read_with_their_units() -> None:
    found = answered(power_w="0.6 kW", idle_power_w="100 W", duration_s=DAY_S)
    assert found.results == answered(idle_power_w=100.0, duration_s=DAY_S).results


def test_energies_are_told_in_watt_hours() -> None:
    found = answered(duration_s=DAY_S, usd_per_kwh=0.1, pue=1.5, idle_power_w=100.0)
    lines = {one.label: one.value for one in result_lines(found.to_dict()["results"])}
    watt_hours = found.results["job_energy_j"] / 3600.0
    assert lines["energy of the job"] == f"{watt_hours / 1e6:.2f} MWh"
    assert "PUE 1.50" in goodput_headline(found.to_dict())


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


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: goodput(**FLEET_JOB, num_seeds=2, what_if=True), "leave num_seeds out"),
        (lambda: goodput_frontier(**FLEET_JOB, num_seeds=2), "meet the failures of one seed"),
    ],
)
def test_comparisons_keep_one_seed(ask: Callable[[], object], said: str) -> None:
    with pytest.raises(InvalidSpecError, match=said):
        ask()


def test_closed_forms_have_no_seeds() -> None:
    found = goodput(mtti_s=1e5, checkpoint_write_s=60, restart_s=300, num_seeds=2)
    assert any("num_seeds = 2 has no effect" in text for text in found.warnings)
