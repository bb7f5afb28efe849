"""Power, energy and electricity of training steps, and the clock that power limits leave."""

from __future__ import annotations

from typing import Any, Final

import pytest

from perfatlas.energy import board_energy, node_power
from perfatlas.hardware import resolve_system
from perfatlas.verbs.train import train, train_columns

JOB: Final[dict[str, Any]] = {
    "model": "meta-llama/Llama-3.1-8B",
    "system": "h100_sxm",
    "gpus": 8,
    "tp": 2,
    "pp": 4,
    "sequence_length": 4096,
    "global_batch": 32,
}


@pytest.fixture(scope="module")
def job() -> dict[str, Any]:
    """Results of the job at its TDP."""
    return dict(train(**JOB, usd_per_kwh=0.2, pue=1.5).results)


def test_parts_sum_and_agree(job: dict[str, Any]) -> None:
    step_s, parts = job["step_time_s"], job["energy_parts"]
    assert sum(parts.values()) == pytest.approx(job["energy_per_step_j"], rel=1e-9)
    assert job["power_w"] * 8 * step_s == pytest.approx(job["energy_per_step_j"], rel=1e-9)
    assert job["energy_per_token_j"] * 32 * 4096 == pytest.approx(job["energy_per_step_j"])
    assert job["kernel_clock_ratio"] == 1.0
    # a bubble draws 70 W idle and 52.2 W awake: 122.2 W on each of 8 GPUs
    assert parts["bubble"] == pytest.approx(8 * 122.2 * job["waterfall"]["bubble"], rel=1e-4)
    assert parts["products"] > parts["attention"] > parts["other_kernels"] > 0.0
    for name in ("power_w", "energy_per_step_j", "energy_per_token_j", "node_power_w"):
        assert job[f"{name}_low"] < job[name] < job[f"{name}_high"], name


def test_electricity_is_that_of_the_nodes(job: dict[str, Any]) -> None:
    node_w = node_power(resolve_system("h100_sxm").node).node_w(job["power_w"])
    assert job["facility_power_w"] == pytest.approx(1.5 * node_w)
    hourly = 1.5 * node_w / 1000 * 0.2
    assert job["electricity_usd_per_hour"] == pytest.approx(hourly)
    million = hourly / 3600 / job["tokens_per_s_per_gpu"] / 8 * 1e6
    assert job["electricity_usd_per_million_tokens"] == pytest.approx(million)
    assert "facility_power_w" not in train(**JOB).results


def test_a_limit_lowers_the_clock_once(job: dict[str, Any]) -> None:
    asked = [None, 700.0, 900.0, 550.0, 450.0]
    table = train_columns(
        {name: [value] * len(asked) for name, value in JOB.items()} | {"power_cap_w": asked}
    )
    whole, tdp, above, high, low = (
        {name: column[at] for name, column in table.items()} for at in range(len(asked))
    )
    # kernels were measured at the TDP, which lowers no clock again
    assert whole["step_time_s"] == tdp["step_time_s"] == above["step_time_s"] == job["step_time_s"]
    assert "has no effect" in above["warnings"]
    assert 1.0 > high["kernel_clock_ratio"] > low["kernel_clock_ratio"]
    assert whole["step_time_s"] < high["step_time_s"] < low["step_time_s"]
    assert whole["energy_per_step_j"] > high["energy_per_step_j"] > low["energy_per_step_j"]
    for limited, limit_w in ((high, 550.0), (low, 450.0)):
        assert limited["power_w"] <= limited["power_w_high"] <= limit_w
    other = train(**{**JOB, "system": "h100_sxm{device.tdp=450W}"}).results
    assert other["step_time_s"] == pytest.approx(low["step_time_s"], rel=1e-9)


def test_waiting_takes_less_power_than_computing(job: dict[str, Any]) -> None:
    few = train(**{**JOB, "vpp": 1, "global_batch": 4}).results  # the bubble is 3 of 7 passes
    assert few["energy_parts"]["bubble"] / few["energy_per_step_j"] > 0.05
    assert board_energy(resolve_system("h100_sxm").device).on_w < few["power_w"] < job["power_w"]


def test_kernels_have_energies_in_the_breakdown() -> None:
    rows = train(**JOB).breakdown
    by_name = {(row["name"], row["phase"]): row["energy_j"] for row in rows}
    assert by_name["down_projection", "forward"] > 0.0
    assert by_name["bubble", "step"] is None


def test_energy_of_a_device_without_energies_is_unknown() -> None:
    results = train(**{**JOB, "system": "h200_sxm{device.architecture=other}"}).results
    assert results["power_w"] is results["energy_parts"] is None
    assert results["step_time_s"] > 0.0
