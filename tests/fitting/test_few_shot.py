from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfatlas.files import write_table
from perfatlas.fitting import MeasurementReport, calibrate_measurements, few_shot, refit_rows
from perfatlas.fitting.few_shot import REFITS, UNCHANGED, known_calibrations
from perfatlas.fitting.few_shot_rows import row_cells
from perfatlas.formats import get_format
from perfatlas.hardware import resolve_system
from perfatlas.machines.gpu.devices import silicon_row
from perfatlas.machines.gpu.kernels.gemm import GemmShape, gemm_time_s
from perfatlas.measurements import calibrations
from perfatlas.measurements.tables import MeasuredRows, read_measured_rows
from perfatlas.quantities import InvalidSpecError
from perfatlas.verbs.kernel import kernel_gemm

H200 = resolve_system("h200_sxm").device
SHIPPED = calibrations.load_calibrations("h200_sxm")["h200_sxm/gemm/vllm/bf16"].parameters
# Slower memory and a longer launch than anything that is shipped: what a fit has to find.
TRUTH = {**SHIPPED, "efficiency_bandwidth": 0.55, "overhead_launch_s": 5e-6}


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PERFATLAS_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fits of few evaluations, for what does not ask how good they are."""
    monkeypatch.setattr(few_shot, "REFITS", dict.fromkeys(REFITS, 60))


def gemm_columns(truth: dict[str, float], rows: int, noise: float = 0.02) -> dict[str, list[Any]]:
    draw = np.random.default_rng(3)
    shape = np.zeros((rows, len(GemmShape._fields)))
    shape[:, 0] = np.round(np.exp(draw.uniform(0, 8, rows)))
    shape[:, 1] = draw.choice([1024, 4096, 8192, 16384], rows)
    shape[:, 2] = draw.choice([1024, 4096, 8192, 16384], rows)
    layout = get_format("bf16")
    shape[:, 3:6] = (layout.weight_bytes, layout.activation_bytes, 2.0)
    shape[:, GemmShape._fields.index("groups")] = 1.0
    silicon = np.tile(silicon_row(H200, "bf16"), (rows, 1))
    time_s, _ = gemm_time_s(shape, silicon, np.tile(list(truth.values()), (rows, 1)))
    time_s *= np.exp(noise * draw.standard_normal(rows))
    columns: dict[str, list[Any]] = {
        "device": ["h200_sxm"] * rows,
        "operator": ["gemm"] * rows,
        "kernel_family": ["vllm"] * rows,
        "format": ["bf16"] * rows,
        "time_s": time_s.tolist(),
    }
    return columns | {name: shape[:, i].tolist() for i, name in enumerate(("m", "n", "k"))}


def measured(path: Path, truth: dict[str, float], rows: int = 40, **more: list[Any]) -> Path:
    write_table(path, {**gemm_columns(truth, rows), **more})
    return path


def read(path: Path, truth: dict[str, float], rows: int = 40) -> MeasuredRows:
    return read_measured_rows(measured(path, truth, rows))


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> tuple[MeasurementReport, str]:
    """The report of forty rows, and the text of the file it wrote: a fit takes a second."""
    folder = tmp_path_factory.mktemp("once")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PERFATLAS_HOME", str(folder / "home"))
        report = calibrate_measurements(measured(folder / "rows.csv", TRUTH), "h200_sxm")
        assert report.file == str(folder / "home" / "data" / "calibrations" / "h200_sxm.toml")
    return report, Path(report.file).read_text("utf-8")


def place(text: str) -> Path:
    file = calibrations.user_calibration_folder() / "h200_sxm.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text, "utf-8")
    return file


def test_forty_rows_find_what_changed(once: tuple[MeasurementReport, str]) -> None:
    (change,) = once[0].changes
    assert change.kept in REFITS
    assert change.prior == "h200_sxm/gemm/vllm/bf16"
    assert change.before is not None
    assert change.after is not None
    assert change.before.mape > 0.2
    assert change.after.mape < 0.05
    assert change.parameters["efficiency_bandwidth"] == pytest.approx(0.55, rel=0.1)
    assert "overhead_launch_s" in change.moved
    assert change.moved["overhead_launch_s"][0] == SHIPPED["overhead_launch_s"]


@pytest.mark.study
def test_rows_that_say_nothing_new_change_nothing(tmp_path: Path) -> None:
    report = calibrate_measurements(measured(tmp_path / "rows.csv", dict(SHIPPED)), "h200_sxm")
    (change,) = report.changes
    assert change.kept == UNCHANGED
    assert change.moved == {}
    assert report.written == ()
    assert not calibrations.user_calibration_folder().exists()


@pytest.mark.study
def test_wild_rows_do_not_wreck_the_parameters(tmp_path: Path) -> None:
    columns = gemm_columns(TRUTH, 40)
    columns["time_s"][7] *= 30.0
    columns["time_s"][23] /= 10.0
    write_table(tmp_path / "rows.csv", columns)
    (change,) = refit_rows(read_measured_rows(tmp_path / "rows.csv"), H200)
    assert change.parameters["efficiency_bandwidth"] == pytest.approx(0.55, rel=0.15)
    assert change.after is not None
    assert change.after.median_error < 0.06


def test_too_few_rows_change_nothing(tmp_path: Path) -> None:
    (change,) = refit_rows(read(tmp_path / "rows.csv", TRUTH, rows=6), H200)
    assert "fewer than 10 rows" in change.reason
    columns = gemm_columns(TRUTH, 20) | dict.fromkeys("mnk", [4096] * 20)
    columns["time_s"] = [2e-4] * 20
    write_table(tmp_path / "one.csv", columns)
    (change,) = refit_rows(read_measured_rows(tmp_path / "one.csv"), H200)
    assert "no held-out validation possible" in change.reason


@pytest.mark.usefixtures("quick")
def test_rows_with_host_time_inside_are_counted_and_left_out(tmp_path: Path) -> None:
    graph = [1] * 30 + [0] * 10
    path = measured(tmp_path / "rows.csv", TRUTH, graph=graph)
    (change,) = refit_rows(read_measured_rows(path), H200)
    assert change.rows == 30
    assert list(change.left_out.values()) == [10]


@pytest.mark.parametrize("factor", [1e-3, 0.2])
def test_rows_faster_than_light_are_refused(tmp_path: Path, factor: float) -> None:
    columns = gemm_columns(dict(SHIPPED), 40)
    columns["time_s"] = [factor * time_s for time_s in columns["time_s"]]
    write_table(tmp_path / "rows.csv", columns)
    with pytest.raises(InvalidSpecError, match=r"of 40 are faster than .* h200_sxm .* unit"):
        calibrate_measurements(tmp_path / "rows.csv", "h200_sxm")
    assert not calibrations.user_calibration_folder().exists()


def test_the_least_time_of_a_row_by_hand(tmp_path: Path) -> None:
    # 64 x 8192 x 8192 in bf16: 134.2 MB of weights at 4.8 TB/s; of them 50 MiB may stay in L2
    cold = {"m": [64] * 3, "n": [8192] * 3, "k": [8192] * 3, "copies": [0, 6, 0], "hot": [0, 0, 1]}
    words = {"device": "h200_sxm", "operator": "gemm", "kernel_family": "vllm", "format": "bf16"}
    write_table(
        tmp_path / "rows.csv",
        {**{name: [word] * 3 for name, word in words.items()}, **cold, "time_s": [5e-5] * 3},
    )
    (cell,) = row_cells(read_measured_rows(tmp_path / "rows.csv"), H200)
    weights = 2 * 8192**2
    expected = [weights / 4.8e12, *[(weights - H200.number("l2_bytes")) / 4.8e12] * 2]
    assert cell.least_s == pytest.approx(expected)


@pytest.mark.usefixtures("quick")
def test_rows_no_fit_explains_write_nothing(tmp_path: Path) -> None:
    columns = gemm_columns(TRUTH, 40)
    columns["time_s"] = [1e3 * time_s for time_s in columns["time_s"]]
    write_table(tmp_path / "rows.csv", columns)
    report = calibrate_measurements(tmp_path / "rows.csv", "h200_sxm")
    assert "has a median error factor of" in report.changes[0].reason
    assert report.changes[0].moved == {}
    assert report.written == ()
    assert not calibrations.user_calibration_folder().exists()


def test_measurements_below_the_bound_make_nothing_sure(
    once: tuple[MeasurementReport, str],
) -> None:
    quantiles = once[0].changes[0].quantiles
    text = once[1]
    for name, value in quantiles.items():
        assert f"{name} = {value}" in text
        text = text.replace(f"{name} = {value}", f"{name} = {value - 6.0:.4f}")
    place(text)
    answer = kernel_gemm(system="h200_sxm", m=64, n=8192, k=8192, kernel_family="vllm").results
    assert answer["time_s_low"] == answer["bound_time_s"]
    assert answer["time_s_high"] > 100.0 * answer["time_s"]


def test_a_clock_scales_compute_and_nothing_else(tmp_path: Path) -> None:
    slow = [H200.sustained_clock_hz / 2.0] * 40
    path = measured(tmp_path / "rows.csv", TRUTH, clock_hz=slow)
    (cell,) = row_cells(read_measured_rows(path), H200)
    (same,) = row_cells(read(tmp_path / "same.csv", TRUTH), H200)
    # by hand: half the clock is half the peak, and the memory stays
    ratio = cell.silicon_NS[0] / same.silicon_NS[0]
    assert sorted(set(ratio.tolist())) == [0.5, 1.0]
    assert (cell.predict(TRUTH) >= same.predict(TRUTH) * (1.0 - 1e-9)).all()


def test_hidden_devices_are_not_looked_at(tmp_path: Path) -> None:
    (cell,) = row_cells(read(tmp_path / "rows.csv", TRUTH), H200)
    assert "h200_sxm" in {one.device for one in known_calibrations(cell)}
    assert "h200_sxm" not in {one.device for one in known_calibrations(cell, ("h200_sxm",))}


def test_written_cells_are_found_first_and_noted(once: tuple[MeasurementReport, str]) -> None:
    report, text = once
    file = place(text)
    assert report.used
    assert report.written == ("h200_sxm/gemm/vllm/bf16",)
    match = calibrations.find_calibration(H200, "gemm", "vllm", "bf16")
    assert match is not None
    assert match.own
    assert (
        match.calibration == calibrations.user_calibrations("h200_sxm")["h200_sxm/gemm/vllm/bf16"]
    )
    assert report.data_hash in match.notes[0]
    assert "rows.csv" in match.notes[0]
    shipped = calibrations.find_shipped_calibration(H200, "gemm", "vllm", "bf16")
    assert shipped is not None
    assert shipped.calibration.parameters == SHIPPED
    other = calibrations.find_calibration(H200, "gemm", "sglang", "bf16")
    assert other is not None
    assert other.calibration.id == "h200_sxm/gemm/sglang/bf16"
    file.unlink()
    assert calibrations.find_calibration(H200, "gemm", "vllm", "bf16") == shipped


@pytest.mark.usefixtures("quick")
def test_a_second_file_keeps_the_other_cells(
    tmp_path: Path, once: tuple[MeasurementReport, str]
) -> None:
    place(
        once[1].replace("/vllm/", "/mine/").replace('"vllm"', '"mine"')
        + once[1][once[1].index("[[") :]
    )
    both = {"h200_sxm/gemm/vllm/bf16", "h200_sxm/gemm/mine/bf16"}
    assert set(calibrations.user_calibrations("h200_sxm")) == both
    # rows that agree with what is shipped take the user's cell away again, and no other
    report = calibrate_measurements(measured(tmp_path / "c.csv", dict(SHIPPED)), "h200_sxm")
    assert report.written == ()
    assert set(calibrations.user_calibrations("h200_sxm")) == {"h200_sxm/gemm/mine/bf16"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("mape = ", "mape = 'x' #"),
        ("q05 = ", "q05 = 9.0 #"),
        ("efficiency_bandwidth = ", "efficiency_bandwidth = -1 #"),
        ("rows = ", "rows = true #"),
        ('id = "h200_sxm', 'id = "b200_sxm'),
        ("[[calibration]]", "[calibration]"),
        ("[calibration.parameters]", "[calibration.parameter]"),
        ("mape = ", "mape = nan #"),
        ("\n", "\x00"),
    ],
)
def test_a_broken_user_file_is_refused_by_name(
    once: tuple[MeasurementReport, str], old: str, new: str
) -> None:
    assert old in once[1]
    place(once[1].replace(old, new))
    with pytest.raises(InvalidSpecError, match=r"h200_sxm\.toml"):
        calibrations.find_calibration(H200, "gemm", "vllm", "bf16")
