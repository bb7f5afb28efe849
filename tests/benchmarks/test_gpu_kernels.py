from __future__ import annotations

import importlib
import importlib.util
import itertools
import json
from pathlib import Path
from types import ModuleType

import pytest

from perfatlas.files import file_hash
from perfatlas.measurements.tables import SHAPE_COLUMNS, read_measured_rows
from perfatlas.measurements.tables.rows import COLUMNS

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
# Another list is another suite: change SUITE with it, so that old and new rows are told apart.
SUITE = ("kernels300", "sha256:7875cce796ad40aed37b3ad1ebd0ec591bedab3d863f5c8d0b0ea72af1e7ea40")
RANDOM_SUITE = (
    "random260",
    "sha256:3b104a72e02012a6200fd40f25c7a171e259e36ea3cdc4cb92e68ee8ccc6da98",
)


@pytest.fixture
def shapes(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("gpu_shapes")


@pytest.fixture
def timing(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("gpu_timing")


@pytest.fixture
def telemetry(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("gpu_telemetry")


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("gpu_kernels")


def has_cuda() -> bool:
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


def test_the_list_is_fixed(shapes: ModuleType, timing: ModuleType) -> None:
    found = shapes.shapes()
    assert len(found) == 300
    assert len({json.dumps(row, sort_keys=True) for row in found}) == 300
    assert (shapes.SUITE, timing.list_hash(found)) == SUITE
    drawn = shapes.random_shapes()
    assert len(drawn) == 260
    assert (shapes.RANDOM_SUITE, timing.list_hash(drawn)) == RANDOM_SUITE


def test_every_kind_of_kernel_is_in_the_list(shapes: ModuleType) -> None:
    kinds = {(row["operator"], row["kernel"]) for row in shapes.shapes()}
    assert {operator for operator, _ in kinds} == {
        "gemm",
        "moe",
        "prefill_attention",
        "decode_attention",
        "streaming",
    }
    assert {"rms_norm", "cast_fp8", "copy"} < {kernel for _, kernel in kinds}
    written = (BENCHMARKS / "gpu_torch.py").read_text("utf-8")
    for _, kernel in kinds:
        assert f'"{kernel}": _' in written


def test_every_shape_is_a_row_of_the_schema(shapes: ModuleType) -> None:
    for row in shapes.shapes():
        assert set(row) <= set(COLUMNS)
        known = SHAPE_COLUMNS[row["operator"]]
        needed = {name for name, default in known.items() if default != default}  # noqa: PLR0124 - nan
        assert needed <= set(row)


def test_passes_move_whole_rows(shapes: ModuleType) -> None:
    for row in shapes.shapes():
        if row["operator"] == "streaming":
            size = 3 if row["kernel"] == "cast_fp8" else 4
            assert row["bytes"] % (row["tokens"] * size) == 0


def test_a_suite_is_read_back_as_measured_rows(
    timing: ModuleType, telemetry: ModuleType, shapes: ModuleType, tmp_path: Path
) -> None:
    timed = timing.time_calls(lambda: 2e-3, calls=100, least_s=0.01)
    protocol = {"device": "h200_sxm", "stack": "torch 9", "copies": 0, "hot": 0}
    rows = [
        timing.finished_row(shape, timed, telemetry.Telemetry(), protocol)
        for shape in shapes.shapes()
    ]
    not_run = [{"shape": {"operator": "gemm"}, "reason": "out of memory"}]
    folder = tmp_path / "h200_sxm" / "2026-01-01_kernels300"
    facts = {"gpu": "NVIDIA H200", "list_hash": timing.list_hash(shapes.shapes())}
    timing.write_suite(folder, rows, not_run, facts)
    read = read_measured_rows(folder / "rows.csv")
    assert read.rows == 300
    # by hand: 2 ms for 100 calls
    assert read.time_s == pytest.approx(20e-6)
    assert read.ignored_columns == ()
    assert set(read.texts["kernel_family"].tolist()) == {"torch"}
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    assert manifest["rows"] == 300
    assert manifest["rows_hash"] == file_hash(folder / "rows.csv")
    assert manifest["list_hash"] == SUITE[1]
    assert manifest["not_run"] == not_run
    assert manifest["gpu"] == "NVIDIA H200"


def test_the_loop_warms_up_and_takes_the_median(timing: ModuleType) -> None:
    # three warm-ups of 9 s, then seven batches whose median is 4 s
    batches = iter([9.0, 9.0, 9.0, 1.0, 7.0, 2.0, 6.0, 3.0, 5.0, 4.0])
    timed = timing.time_calls(lambda: next(batches), calls=2, least_s=5.0)
    assert timed.batches == 7
    assert timed.time_s == 2.0
    assert timed.spread == pytest.approx((6.4 - 1.6) / 4.0)
    assert timed.began_s <= timed.ended_s


def test_the_loop_lasts_long_enough_and_ends(timing: ModuleType) -> None:
    assert timing.time_calls(lambda: 0.01, calls=1, least_s=0.2).batches in (20, 21)
    ticks = itertools.repeat(0.0001)
    many = timing.time_calls(lambda: next(ticks), calls=1, least_s=1e9)
    assert many.batches == timing.MAX_BATCHES


def test_copies_leave_nothing_in_cache(timing: ModuleType) -> None:
    # by hand: 3 x 50 MB over 10 MB, and one more
    assert timing.copies_of(10e6, 50e6, 1e12) == (16, True)
    assert timing.copies_of(1e9, 50e6, 1e12) == (2, True)
    assert timing.copies_of(16e3, 50e6, 1e12) == (512, False)
    assert timing.copies_of(10e6, 50e6, 40e6) == (4, False)
    assert timing.copies_of(10e6, 50e6, 1.0) == (1, False)


def test_clock_and_power_are_those_of_the_shape(telemetry: ModuleType) -> None:
    readings = ((0.0, 1e9, 100.0), (1.0, 2e9, 300.0), (2.0, 1e9, 500.0))
    watched = telemetry.Telemetry(
        samples=[
            telemetry.Sample(at_s=at_s, clock_hz=clock_hz, power_instant_w=power_w)
            for at_s, clock_hz, power_w in readings
        ]
    )
    assert watched.between(0.5, 2.5) == (1.5e9, 400.0)
    assert watched.between(5.0, 6.0) == (None, None)
    unknown = telemetry.Telemetry(samples=[telemetry.Sample(at_s=1.0, power_instant_w=70.0)])
    assert unknown.between(0.0, 2.0) == (None, 70.0)


@pytest.mark.skipif(has_cuda(), reason="this machine has a CUDA device")
def test_without_a_gpu_the_answer_is_a_row(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script.main(["--folder", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("gpu_kernels: not run: no CUDA device")
    assert list(tmp_path.iterdir()) == []
