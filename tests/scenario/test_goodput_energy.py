"""Energy of jobs: by hand, its parts, its limits and its refusals."""

from __future__ import annotations

from typing import Any

import pytest

import perfatlas
from perfatlas.quantities import InvalidSpecError
from perfatlas.verbs.goodput.text import goodput_headline, result_lines

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


def test_energies_are_told_in_watt_hours() -> None:
    found = answered(duration_s=DAY_S, usd_per_kwh=0.1, pue=1.5, idle_power_w=100.0)
    lines = {label: value for label, value, _ in result_lines(found.to_dict()["results"])}
    watt_hours = found.results["job_energy_j"] / 3600.0
    assert lines["energy of the job"] == f"{watt_hours / 1e6:.2f} MWh"
    assert "PUE 1.50" in goodput_headline(found.to_dict())
