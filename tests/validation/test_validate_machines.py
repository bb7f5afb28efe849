"""The fit of scheduled machines: constants by hand, networks left out, and the shipped cell."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from perfatlas.measurements.calibrations import load_calibrations
from validation.machines import validate_machines
from validation.machines.schedules import (
    PER_LAYER,
    SCHEDULED,
    Step,
    errors_left_out,
    fitted_constant,
    published_rows,
    schedule_cell,
)


def step(network: str, measured_s: float) -> Step:
    return Step(
        model=network,
        network=network,
        measured_s=measured_s,
        scheduled_s=1e-4,
        points=20.0,
        layers=10.0,
    )


def test_constants_by_hand() -> None:
    # 100 us of schedule and 20 points of 10 us are 300 us; 10 layers of 30 us are as long
    assert fitted_constant([step("a", 3e-4)], SCHEDULED) == pytest.approx(1e-5, rel=1e-3)
    assert fitted_constant([step("a", 3e-4)], PER_LAYER) == pytest.approx(3e-5, rel=1e-3)


def test_a_network_of_two_names_counts_once_and_is_left_out_with_both() -> None:
    steps = [step("a", 3e-4), step("b", 5e-4), step("b", 5e-4)]
    once = [step("a", 3e-4), step("b", 5e-4)]
    assert fitted_constant(steps, SCHEDULED) == fitted_constant(once, SCHEDULED)
    errors = errors_left_out(steps, SCHEDULED)
    assert errors["b"] == pytest.approx(0.511, abs=1e-3)  # ln(500 / 300)


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    return validate_machines()


def test_five_of_six_models_left_out_are_inside_and_beat_a_constant(
    results: dict[str, Any],
) -> None:
    ours, constant = results["forms"]
    assert ours["inside_90"] >= 5 / 6
    assert ours["interval_score"] < constant["interval_score"]
    assert ours["median_error"] < constant["median_error"]


def test_lower_limits_are_below_published_steps(results: dict[str, Any]) -> None:
    assert all(row["lower_limit_s"] < row["measured_s"] for row in results["limits"])
    assert all(row["reason"] for row in published_rows("refused"))


def test_the_shipped_calibration_is_that_of_the_rows() -> None:
    (shipped,) = load_calibrations("groq_tsp_v1").values()
    assert asdict(schedule_cell()) == asdict(shipped)
