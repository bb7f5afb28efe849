"""Shape legend: U rows, D shape dimensions, S silicon fields, P parameters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfatlas.fitting.cells import MEASURED_DEVICES, device_cells
from perfatlas.fitting.cells.cell import BoundArray
from perfatlas.measurements.calibrations import load_calibrations
from perfatlas.measurements.tables import has_silicon
from perfatlas.operators import FloatArray
from validation.scoring.samples import (
    Sample,
    device_samples,
    moved,
    read_samples,
    renewed_samples,
    score_sample,
)

needs_silicon = pytest.mark.skipif(
    not has_silicon(), reason="the measured tables of the extra silicon are not installed"
)


# of the architectures with most cells; `make validate` compares all
COMPARED = ("h200_sxm",)


@pytest.mark.study
@needs_silicon
@pytest.mark.parametrize(
    "device",
    [
        pytest.param(name, marks=[pytest.mark.study] * (name not in COMPARED))
        for name in MEASURED_DEVICES
    ],
)
def test_no_shipped_cell_moved_since_its_fit(device: str) -> None:
    found = device_samples(device)
    assert set(found) == set(load_calibrations(device))
    assert moved(read_samples(), found) == []


def test_every_sample_is_of_a_shipped_cell() -> None:
    shipped = {name for device in MEASURED_DEVICES for name in load_calibrations(device)}
    assert set(read_samples()) == shipped


@needs_silicon
def test_physics_that_got_slower_is_noticed() -> None:
    cell = next(iter(device_cells("h100_sxm", ("streaming",))))
    parameters = load_calibrations("h100_sxm")[cell.id].parameters

    def slower(
        shape_UD: FloatArray, silicon_US: FloatArray, parameters_UP: FloatArray
    ) -> tuple[FloatArray, BoundArray]:
        time_s, bound = cell.physics(shape_UD, silicon_US, parameters_UP)
        return 1.05 * time_s, bound

    sound = {cell.id: score_sample(cell, parameters)}
    assert moved(read_samples(), sound) == []
    edited = {cell.id: score_sample(replace(cell, physics=slower), parameters)}
    (line,) = moved(read_samples(), edited)
    assert "got worse" in line


def test_a_figure_rises_with_new_parameters_only() -> None:
    stored = {"a": Sample(mape=0.1, fit="x"), "b": Sample(mape=0.1, fit="x")}
    found = {"a": Sample(mape=0.2, fit="x"), "b": Sample(mape=0.2, fit="y")}
    assert renewed_samples(stored, found) == {"a": stored["a"], "b": found["b"]}
    better = {"a": Sample(mape=0.05, fit="x")}
    assert renewed_samples(stored, better) == better
