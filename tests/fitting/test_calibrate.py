"""A synthetic cell: rows made by the physics itself with known parameters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from perfatlas.fitting import row_groups, write_calibrations
from perfatlas.fitting.cells import Cell, Range, Rows, exclusions
from perfatlas.fitting.cells.cell import is_excluded
from perfatlas.fitting.cells.streaming import RANGES
from perfatlas.fitting.device import calibrate_cell, calibration_target
from perfatlas.fitting.held_out_residuals import expected_residuals
from perfatlas.machines.gpu.devices import SiliconRow
from perfatlas.machines.gpu.kernels.streaming import StreamingShape, streaming_time_s
from perfatlas.measurements.calibrations import read_calibrations, user_calibration_folder
from perfatlas.operators import FloatArray
from perfatlas.quantities import InvalidSpecError

SILICON = SiliconRow(peak=1000e12, bandwidth=4e12, sm_count=100.0, clock=2e9, l2=50.0 * 2**20)
TRUTH = {
    "overhead_launch_s": 3e-6,
    "efficiency_bandwidth": 0.8,
    "cache_speedup": 3.0,
    "l2_fraction": 0.5,
    "row_bytes_per_cycle": 40.0,
}


def shapes() -> FloatArray:
    shape_UD = np.zeros((400, len(StreamingShape._fields)))
    draw = np.random.default_rng(7)
    shape_UD[:, 0] = np.exp(draw.uniform(8, 22, 400))
    shape_UD[:, 2] = np.round(np.exp(draw.uniform(0, 9, 400)))
    return shape_UD


def synthetic(grid: tuple[dict[str, float], ...] = ({},)) -> Cell:
    def load() -> Rows:
        return Rows(
            shape_UD=shapes(),
            measured_s=cell.predict(shapes(), TRUTH),
            roofline_s=shapes()[:, 0] / 4e12,
            version="1.0",
            data_hash="sha256:0",
            excluded={"none": 0},
        )

    cell = Cell(
        device="cpu",
        operator="streaming",
        family="vllm",
        format="bf16",
        load=load,
        physics=streaming_time_s,
        silicon=SILICON,
        ranges=RANGES,
        protocol="synthetic",
        grid=grid,
    )
    return cell


def test_small_cells_expect_what_groups_they_did_not_see_show() -> None:
    cell = synthetic()
    rows = cell.load()
    group = row_groups("streaming", rows)
    # every group is a third off in its own way: a fit cannot know a group it has not seen
    off = np.random.default_rng(3).choice([0.75, 1.33], int(group.max()) + 1)[group]
    noisy = rows._replace(measured_s=rows.measured_s * off)

    def fit(_: Cell, seen: Rows) -> dict[str, float]:
        return {**TRUTH, "overhead_launch_s": float(np.min(seen.measured_s)) / 10.0}

    known = expected_residuals(cell, noisy, TRUTH, fit)
    assert known.shape == noisy.measured_s.shape
    assert not np.allclose(known, np.log(off))  # other parameters than those of all rows
    many = noisy._replace(
        shape_UD=np.tile(noisy.shape_UD, (6, 1)),
        measured_s=np.tile(noisy.measured_s, 6),
        roofline_s=np.tile(noisy.roofline_s, 6),
    )
    assert np.allclose(expected_residuals(cell, many, TRUTH, fit), np.log(np.tile(off, 6)))


def test_a_fit_explains_the_rows_it_was_made_of() -> None:
    found = calibrate_cell(synthetic())
    assert found.mape < 0.02
    assert found.parameters["overhead_launch_s"] == pytest.approx(3e-6, rel=0.05)
    assert found.baselines["two_parameter_mape"] > found.mape
    assert found.baselines["roofline_mape"] > found.baselines["two_parameter_mape"]


def test_the_right_alternative_is_chosen() -> None:
    grid = tuple({"row_bytes_per_cycle": value} for value in (4.0, 40.0, 400.0))
    assert calibrate_cell(synthetic(grid)).parameters["row_bytes_per_cycle"] == 40.0


def test_a_calibration_survives_its_file(tmp_path: Path) -> None:
    found = calibrate_cell(synthetic())
    write_calibrations(tmp_path / "cpu.toml", {found.id: found})
    assert read_calibrations(tmp_path / "cpu.toml") == {found.id: found}


def test_ranges_start_inside_their_bounds() -> None:
    for one in RANGES.values():
        assert isinstance(one, Range)
        assert 0.0 < one.low <= one.start <= one.high


def test_every_exclusion_has_a_reason() -> None:
    assert all(len(rule["reason"]) > 20 for rule in exclusions())
    assert is_excluded("b200_sxm", "gemm", "vllm", "fp8_block")
    assert not is_excluded("b200_sxm", "gemm", "vllm", "bf16")


def test_a_fit_is_the_users_own_unless_a_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    own = user_calibration_folder() / "h200_sxm.toml"
    assert calibration_target("h200_sxm", None) == own
    assert calibration_target("h200_sxm", tmp_path) == tmp_path / "h200_sxm.toml"
    with pytest.raises(InvalidSpecError, match="create it first"):
        calibration_target("h200_sxm", tmp_path / "nowhere")
    own.write_text('changed = ["device.sm_count"]\n')
    with pytest.raises(InvalidSpecError, match="whose spec differs"):
        calibration_target("h200_sxm", None)
