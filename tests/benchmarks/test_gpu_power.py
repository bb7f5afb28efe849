from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest

from perfatlas.files import file_hash, read_table
from perfatlas.hardware import resolve_system
from perfatlas.measurements.tables import read_measured_rows
from tests.benchmarks.test_gpu_kernels import BENCHMARKS, has_cuda

MEASUREMENTS = Path(__file__).parents[2] / "measurements"
POWER_TABLES = sorted(MEASUREMENTS.glob("*/*/power.csv"))
SAMPLING_ERROR = 0.02  # of power, between the energy counter and the mean of the sensor
# Another list is another suite: change its name with it, so that old and new rows are told apart.
SUITES = {
    "power138": "sha256:cdd1f871421391766a89256318fa319e9f354271932ba3bdcc784a19e9eb6580",
    "power24": "sha256:e0252641b621a3b36605eb8608f02a623f45eaf54822930e49aee8a1510699e9",
}


@pytest.fixture
def points(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("gpu_power_points")


@pytest.fixture
def telemetry(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("gpu_telemetry")


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("gpu_power")


def test_the_lists_are_fixed(points: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    list_hash = importlib.import_module("gpu_timing").list_hash
    assert {name: list_hash(made()) for name, made in points.SUITES.items()} == SUITES


def test_every_point_has_known_columns_and_a_kernel(points: ModuleType) -> None:
    written = "".join(
        (BENCHMARKS / f"gpu_power_{name}.py").read_text("utf-8") for name in ("torch", "custom")
    )
    for point in (*points.points(), *points.unit_points()):
        assert set(point) <= set(points.COLUMNS)
        assert point["study"] == "idle" or f'"{point["kernel"]}"' in written


def test_energy_is_counted_between_updates(telemetry: ModuleType) -> None:
    # by hand: the counter moves at 0.1, 0.3 and 0.5 s; from 20 to 80 J in 0.4 s
    counted = ((0.0, 10.0), (0.1, 20.0), (0.2, 20.0), (0.3, 50.0), (0.5, 80.0), (0.6, 80.0))
    samples = [telemetry.Sample(at_s=at_s, energy_j=energy_j) for at_s, energy_j in counted]
    assert telemetry.counted_energy(samples) == pytest.approx((60.0, 0.4))
    assert telemetry.counted_energy(samples[:2]) == (None, None)
    assert telemetry.counted_energy([]) == (None, None)


def test_a_window_is_summarized(telemetry: ModuleType) -> None:
    samples = [
        telemetry.Sample(
            at_s=at_s,
            power_instant_w=power_w,
            power_average_w=power_w / 2,
            energy_j=100.0 * at_s,
            clock_hz=clock_hz,
            event_reasons=reasons,
        )
        for at_s, power_w, clock_hz, reasons in (
            (1.0, 100.0, 1e9, 0),
            (2.0, 200.0, 2e9, 4),
            (3.0, 600.0, 1e9, 1),
        )
    ]
    found = telemetry.summary(samples, loaded_s=0.5)
    assert found["power_instant_w"] == 300.0
    assert found["power_average_w"] == 200.0  # the sample at 1 s still averages what ran before
    assert found["energy_power_w"] == pytest.approx(100.0)
    assert (found["clock_min_hz"], found["clock_max_hz"]) == (1e9, 2e9)
    assert found["event_reasons"] == "0x5"
    assert found["power_capped_share"] == pytest.approx(1 / 3)
    assert found["temperature_c"] is None


@pytest.mark.skipif(has_cuda(), reason="this machine has a CUDA device")
def test_without_a_gpu_the_answer_is_a_row(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script.main(["--folder", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("gpu_power: not run: no CUDA device")
    assert list(tmp_path.iterdir()) == []


def test_kept_measurements_are_read_and_whole() -> None:
    manifests = sorted(MEASUREMENTS.glob("*/*/manifest.json"))
    assert manifests
    for path in manifests:
        manifest = json.loads(path.read_text("utf-8"))
        rows = path.with_name("rows.csv")
        (table,) = (
            path.with_name(name)
            for name in ("rows.csv", "power.csv", "networks.csv", "operators.csv")
            if path.with_name(name).exists()
        )
        assert manifest["rows_hash"] == file_hash(table)
        assert manifest["device"] == path.parents[1].name
        assert manifest["rows"] == read_table(table).rows
        if rows.exists():
            read = read_measured_rows(rows)
            assert set(read.texts["device"].tolist()) == {manifest["device"]}
            assert read.ignored_columns == ()


@pytest.mark.parametrize("path", POWER_TABLES, ids=lambda path: "/".join(path.parts[-3:-1]))
def test_kept_powers_obey_the_counter_the_cap_and_the_bound(path: Path) -> None:
    manifest = json.loads(path.with_name("manifest.json").read_text("utf-8"))
    device = resolve_system(manifest["device"]).device
    table = read_table(path)
    names = ("study", "energy_power_w", "power_instant_w", "clock_hz", "bytes_per_s", "cold")
    for cells in zip(*(table.cells(name) for name in names), strict=True):
        study, counter_w, sensor_w, clock_hz, bytes_per_s, cold = cells
        assert counter_w <= 1.01 * manifest["power_cap_w"]
        if study != "gaps":  # bursts beat with the sensor's updates, every 100 ms
            assert counter_w == pytest.approx(sensor_w, rel=SAMPLING_ERROR)
        assert clock_hz <= manifest["clock_most_hz"]
        if cold:
            assert bytes_per_s <= device.memory_bandwidth
