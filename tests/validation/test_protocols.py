from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.fitting import held_out, row_groups, taken
from perfatlas.fitting.cells import Cell, Range, Rows
from perfatlas.fitting.cells.cell import silicon_columns
from perfatlas.machines.gpu.devices import SiliconRow
from perfatlas.machines.gpu.kernels.streaming import streaming_time_s
from perfatlas.measurements.calibrations import load_calibrations
from perfatlas.operators import FloatArray
from validation.scoring import Kin, interval_score
from validation.scoring.protocols import refit, score_rows


def linear(
    shape_UD: FloatArray, _silicon_US: FloatArray, parameters_UP: FloatArray
) -> tuple[FloatArray, np.ndarray[tuple[int], np.dtype[np.int8]]]:
    time_s = parameters_UP[:, 0] + shape_UD[:, 0] / parameters_UP[:, 1]
    return time_s, np.zeros(shape_UD.shape[0], dtype=np.int8)


def rows_of(overhead_s: float, rate: float, count: int = 240) -> Rows:
    size = np.geomspace(1e3, 1e9, count)
    return Rows(
        shape_UD=np.column_stack([size, np.zeros(count), 1.0 + np.arange(count) // 4]),
        measured_s=overhead_s + size / rate,
        roofline_s=size / 1e12,
        version="1",
        data_hash="sha256:0",
        excluded={},
    )


def cell_of(device: str, rows: Rows) -> Cell:
    return Cell(
        device=device,
        operator="streaming",
        family="vllm",
        format="bf16",
        load=lambda: rows,
        physics=linear,
        silicon=SiliconRow(),
        ranges={
            "overhead_s": Range(start=1e-6, low=1e-7, high=1e-3),
            "rate": Range(start=1e11, low=1e9, high=1e13),
        },
        protocol="by hand",
    )


def test_the_interval_score_by_hand() -> None:
    # width 2; misses of 0.5 and 1.0 among four values: 2 + 20 x 1.5 / 4
    values = np.array([0.0, 1.5, -2.0, 0.9])
    assert interval_score(values, -1.0, 1.0) == pytest.approx(9.5)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=60), st.integers(0, 99))
def test_a_split_never_divides_a_group(groups: list[int], seed: int) -> None:
    _, group = np.unique(np.array(groups), return_inverse=True)
    held = held_out(group.astype(np.int64), seed)
    if held is None:
        assert len(set(groups)) < 3
        return
    assert not set(group[held]) & set(group[~held])
    assert 0 < held.sum() < group.size


def test_neighbouring_m_are_one_group_and_other_widths_another() -> None:
    # m, n, k, then columns that a group does not read
    shapes = np.zeros((4, 9))
    shapes[:, :3] = [[128, 4096, 512], [129, 4096, 512], [128, 4096, 1024], [1, 512, 4096]]
    rows = rows_of(1e-6, 1e11, 4)._replace(shape_UD=shapes)
    group = row_groups("gemm", rows)
    assert group[0] == group[1]
    assert len(set(group.tolist())) == 3


@pytest.mark.parametrize("family", [False, True])
def test_a_donor_never_depends_on_the_rows_of_the_device_it_lends_to(*, family: bool) -> None:
    names = ("h100_sxm", "h200_sxm", "b200_sxm", "l40s")
    parameters = load_calibrations("h200_sxm")["h200_sxm/streaming/vllm/bf16"].parameters

    def kin(slowdown: float) -> Kin:
        cells = {}
        for place, name in enumerate(names):
            rows = rows_of(1e-6 * (1 + place), 1e12)
            factor = slowdown if name == "b200_sxm" else 1.0
            rows = rows._replace(measured_s=rows.measured_s * factor)
            cells[name] = replace(
                cell_of(name, rows),
                physics=streaming_time_s,
                silicon=silicon_columns(name, "bf16"),
                ranges=dict.fromkeys(parameters, Range(start=1.0, low=0.1, high=9.0)),
            )
        return Kin(cells=cells)

    before, after = (
        score_rows(kin(slowdown), "b200_sxm", "unseen-family" if family else "unseen-device")
        for slowdown in (1.0, 50.0)
    )
    assert not isinstance(before, str)
    assert not isinstance(after, str)
    # Hopper is of its kind, Ada is not.
    assert before.sources == after.sources
    assert set(before.sources) < {"h100_sxm", "h200_sxm"}
    assert np.array_equal(before.predicted_s, after.predicted_s)
    assert before.interval == after.interval


def test_a_refit_finds_the_device_and_leaves_choices_alone() -> None:
    rows = rows_of(5e-6, 3e11)
    cell = cell_of("h200_sxm", rows)
    start = {"overhead_s": 1e-6, "rate": 1e11}
    few = taken(rows, np.arange(0, 240, 8))
    found = refit(cell, few, start)
    assert found["overhead_s"] == pytest.approx(5e-6, rel=0.02)
    assert found["rate"] == pytest.approx(3e11, rel=0.02)
    held = refit(replace(cell, grid=({"rate": 1e11},)), few, start)
    assert held["rate"] == 1e11


def test_unseen_shapes_are_not_the_fitted_ones() -> None:
    rows = rows_of(5e-6, 3e11)
    cell = cell_of("h200_sxm", rows)
    scored = score_rows(Kin(cells={"h200_sxm": cell}), "h200_sxm", "unseen-shapes")
    assert not isinstance(scored, str)
    assert scored.rows.measured_s.size + scored.known_rows == rows.measured_s.size
    assert np.abs(scored.predicted_s / scored.rows.measured_s - 1.0).max() < 0.05
