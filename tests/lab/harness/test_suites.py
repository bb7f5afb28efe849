"""Suites, predictions on ceilings, hardware files and comparisons; measured where PyTorch is."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfatlas.cli import main
from perfatlas.files import format_toml, write_table
from perfatlas.hardware import resolve_system
from perfatlas.lab import harness
from perfatlas.lab.harness.records import predict
from perfatlas.measurements.tables import read_measured_rows
from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.report.pages import page_html
from perfatlas.verbs.bench.blocks import bench_page

WITHOUT_TORCH = importlib.util.find_spec("torch") is None
needs_torch = pytest.mark.skipif(WITHOUT_TORCH, reason="PyTorch is not installed")
CEILINGS = harness.Ceilings(
    flop_per_s={"fp64": 50e9, "fp32": 100e9, "bf16": 200e9, "fp16": 20e9},
    sizes=(1e4, 1e6, 1e8),
    bytes_per_s=(80e9, 80e9, 20e9),
    call_s=2e-6,
    shapes=dict.fromkeys(("fp64", "fp32", "bf16", "fp16"), "1024x1024x1024"),
)
MACHINE = harness.Machine(
    device="Test CPU 9", gpu=False, cache_bytes=2**20, cores=4, memory_bytes=16e9, versions={}
)
BENCH = harness.Bench(
    machine=MACHINE, ceilings=CEILINGS, protocol=harness.Protocol(fewest=3, most=3, sample_s=0.0)
)

ROW = "[[case]]\noperator = 'gemm'\nformats = ['bf16']\narms = ['torch']\n"


def test_suites() -> None:
    assert harness.suite_names() == [
        *("quick", "gemm", "attention", "moe", "memory", "collectives", "analytics", "kernels"),
        harness.LAYERS,
    ]
    for name in harness.suite_names()[:-1]:
        for gpu in (False, True):
            labels = [case.label for case in harness.suite_cases(name, gpu=gpu)]
            assert len(set(labels)) == len(labels)
    assert {case.operator for case in harness.suite_cases("sort")} == {"sort"}
    with pytest.raises(InvalidSpecError, match="did you mean 'analytics'"):
        harness.suite_cases("analytic")


def test_a_suite_file_has_the_cases_that_were_written(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    cases = [
        replace(one, name="g", system="h100_sxm", suite="mine")
        for one in harness.suite_cases("gemm")
    ]
    path.write_text(format_toml(harness.suite_document(cases)))
    found = harness.suite_file_cases(path)
    assert [(one.label, one.arms, one.work, one.system) for one in found] == [
        (one.label, one.arms, one.work, one.system) for one in cases
    ]
    records = [one for rows in harness.run_cases(found, BENCH) for one in rows]
    assert {one["error"] for one in records} == {
        "to be measured on h100_sxm, and this machine is Test CPU 9"
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no suite"),
        ("a = 1", "no suite"),
        ("[[case]]", "are needed"),
        ("case = [3]", "are needed"),
        (f"{ROW}shapes = [{{ m = 1, n = 1 }}]", "has the sizes k, m, n"),
        (f"{ROW}shapes = [{{ m = 1, n = 1, k = 0 }}]", "k = 0 must be"),
        (f"{ROW}shapes = [{{ m = 1, n = 1, k = true }}]", "k = True must be"),
        (f"{ROW}shapes = 1", "shapes must be a list"),
        (f"{ROW}shapes = [1]", "shapes must have tables"),
        (f"{ROW}shapes = [{{}}]\ndata = ['warm']", "unknown data 'warm'"),
        (f"{ROW}shapes = [{{}}]".replace("gemm", "gemn"), "did you mean 'gemm'"),
        (f"{ROW}shapes = [{{}}]".replace("bf16", "bf61"), "did you mean 'bf16'"),
    ],
)
def test_suite_files_that_are_none_are_refused(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(InvalidSpecError, match=problem):
        harness.suite_file_cases(path)


def test_a_page_has_records_residuals_and_reasons() -> None:
    cases = [
        replace(one, system="h100_sxm", name="<b>") for one in harness.suite_cases("quick")[:1]
    ]
    failed = [one for rows in harness.run_cases(cases, BENCH) for one in rows]
    record = {
        **dict.fromkeys(failed[0]),
        "name": "gemm",
        "format": "bf16",
        "data": "cold",
        "kernel": "torch",
        "bound": "memory",
        "time_s": 3e-3,
        "time_s_low": 2.9e-3,
        "time_s_high": 3.1e-3,
        "state": "steady",
        # 3 MB in 3 ms; 2 ms were predicted
        "bytes_per_s": 1e9,
        "flop_per_s": None,
        "predicted_s": 2e-3,
        "residual": 0.5,
        "why": "slower",
        "unmeasured": "energy",
        "error": None,
    }
    results = {"suite": "quick", "interrupted": True, "records": [record, *failed]}
    page = bench_page(results, BENCH, reproduce="perfatlas bench run quick")
    texts = page_html(page, script="none")
    for text in ("+50.0%", "1.00 GB/s", "to be measured on h100_sxm", "&lt;b&gt;", "interrupted"):
        assert text in texts
    assert "<b>" not in texts
    nothing = bench_page({**results, "records": failed}, BENCH, reproduce="")
    assert [section.title for section in nothing.sections] == ["Not measured"]


def test_more_ranks_than_the_machine_has_cores_are_a_failed_row() -> None:
    case = replace(harness.suite_cases("all_reduce")[0], shape={"ranks": 1_000_000, "bytes": 8})
    ((record,),) = harness.run_cases([case], BENCH)
    assert "1,000,000 ranks need as many cores" in record["error"]


def test_work_by_hand() -> None:
    gemm = next(case for case in harness.suite_cases("gemm") if case.format == "fp32")
    sizes = {"m": 1, "n": 1024, "k": 1024}
    assert (gemm.shape["m"], gemm.shape["n"], gemm.shape["k"]) == tuple(sizes.values())
    assert gemm.work.flop == 2 * 1024**2
    assert gemm.work.bytes == 4 * (1024**2 + 1024 + 1024)
    copy = next(case for case in harness.suite_cases("copy") if case.suite == "copy")
    assert copy.work.bytes == 2 * 4 * copy.shape["tokens"] * copy.shape["width"]


def test_operators_of_a_model() -> None:
    cases = {
        case.label: case for case in harness.layer_cases("Qwen/Qwen3-0.6B", batch=2, isl=64, tp=2)
    }
    # 16 heads and 2 x 8 key-value heads of 128 on 1,024 features, half of them on each rank
    qkv = cases["prefill qkv_projection m=128 n=2048 k=1024 bf16 cold"]
    assert (qkv.operator, qkv.count) == ("gemm", 28)
    assert qkv.work.flop == 2 * 128 * 2048 * 1024
    decode = next(one for one in cases.values() if one.operator == "decode_attention")
    assert (decode.shape["kv_len"], decode.shape["num_heads"], decode.count) == (64, 8, 28)


def test_roofline_by_hand() -> None:
    gemm = next(case for case in harness.suite_cases("gemm") if case.shape["m"] == 512)
    found = predict(replace(gemm, data="cold"), BENCH)
    assert found.bound == "compute"
    assert found.time_s == 2 * 512 * 1024 * 1024 / 100e9
    small = replace(gemm, work=replace(gemm.work, flop=0.0, bytes=1e6))
    assert predict(replace(small, data="hot"), BENCH).time_s == pytest.approx(1e6 / 80e9)
    assert predict(replace(small, data="cold"), BENCH).time_s == pytest.approx(1e6 / 20e9)
    middle = CEILINGS.bandwidth(1e7)  # half-way between 1 MB and 100 MB by the logarithm
    assert middle == pytest.approx(50e9)
    assert harness.ceilings_of(resolve_system("cpu")).memory_bytes_per_s == 307.2e9


def test_hardware_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "here.toml"
    readings = harness.Readings(clock_hz=2.5e9, unread=("power and energy: no RAPL counter",))
    path.write_text(harness.device_file(MACHINE, CEILINGS, readings), "utf-8")
    device = resolve_system(str(path)).device
    assert device.peak_flop_per_s["bf16"] == 200e9
    assert device.memory_bandwidth == 20e9
    assert device.memory_bytes == 16e9
    words = ["--system", str(path), "--model", "Qwen/Qwen3-0.6B", "--batch", "1", "--isl", "64"]
    assert main(["estimate", *words, "--osl", "8", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["results"]["ttft_s"] > 0.1


def _written(path: Path, scale: float, *, fails: bool = False) -> str:
    rng = np.random.default_rng(0)
    times = 1e-3 * rng.normal(1.0, 0.01, (2, 40)) * [[1.0], [scale]]
    write_table(
        path,
        {
            "case": ["gemm m=1", "gemm m=2"],
            "kernel": ["torch", "torch"],
            "time_s": [float(np.median(times[0])), None if fails else float(np.median(times[1]))],
            "samples_s": [
                " ".join(map(str, times[0])),
                None if fails else " ".join(map(str, times[1])),
            ],
            "bound": ["compute", "compute"],
            "error": [None, "no kernel" if fails else None],
        },
    )
    return str(path)


@pytest.mark.parametrize(
    ("scale", "fails", "code"),
    [(1.0, False, 0), (1.02, False, 0), (0.8, False, 0), (1.2, False, 7), (1.0, True, 7)],
)
def test_comparison_is_a_gate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], scale: float, *, fails: bool, code: int
) -> None:
    first = _written(tmp_path / "a.csv", 1.0)
    second = _written(tmp_path / "b.parquet", scale, fails=fails)
    assert main(["bench", "compare", first, second, "--json"]) == code
    found = json.loads(capsys.readouterr().out)["results"]
    assert found["slower"] == (scale == 1.2)
    assert found["faster"] == (scale == 0.8)
    assert len(found["failed"]) == fails
    assert "Mann-Whitney" in found["test"]
    assert main(["bench", "compare", first, second]) == code


def test_comparison_refuses_other_files(tmp_path: Path) -> None:
    other = tmp_path / "rows.csv"
    other.write_text("a,b\n1,2\n")
    run = _written(tmp_path / "a.csv", 1.0)
    assert main(["bench", "compare", run, str(other)]) == 3


def test_interrupted_runs_keep_their_records() -> None:
    def cases() -> Iterator[list[dict[str, Any]]]:
        yield [{"case": "one"}]
        raise KeyboardInterrupt

    seen: list[int] = []
    records, interrupted = harness.collected(cases(), lambda rows: seen.append(len(rows)))
    assert (records, interrupted, seen) == ([{"case": "one"}], True, [1])


@pytest.mark.skipif(not WITHOUT_TORCH, reason="PyTorch is installed")
@pytest.mark.parametrize(
    "words", [("bench", "run", "quick"), ("validate", "here")], ids=lambda words: words[0]
)
def test_the_extra_is_named(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(list(words)) == 6
    assert "pip install . './lab[bench]'" in capsys.readouterr().err


def _small(case: harness.Case) -> harness.Case:
    sizes = {"rows": 64, "build_rows": 16, "tokens": 4, "width": 128, "m": 8, "n": 64, "k": 64}
    sizes |= {"q_len": 32, "kv_len": 32, "groups": 8, "per_row": 4, "hidden": 64, "experts": 4}
    shape = {name: min(value, sizes.get(name, value)) for name, value in case.shape.items()}
    return replace(case, shape=shape)


@needs_torch
def test_every_implementation_runs() -> None:
    names = [name for name in harness.suite_names() if name not in (harness.LAYERS, "collectives")]
    cases = [
        replace(_small(case), data="hot") for name in names for case in harness.suite_cases(name)
    ]
    distinct = {(case.operator, case.format, case.arms): case for case in cases}
    records = [row for rows in harness.run_cases(list(distinct.values()), BENCH) for row in rows]
    failed = {(row["kernel"], row["error"]) for row in records if row["error"]}
    assert failed == {
        ("numpy", "NumPy has no bf16; it has fp64, fp32"),
        ("perfatlas", "kernels of perfatlas run on GPUs, and this machine has none"),
    }


@needs_torch
def test_records(tmp_path: Path) -> None:
    cases = [_small(case) for case in harness.suite_cases("quick")]
    unknown = replace(cases[0], format="fp8_block")
    records = [row for rows in harness.run_cases([*cases, unknown], BENCH) for row in rows]
    first, last = records[0], records[-1]
    assert first["time_s_low"] <= first["time_s"] <= first["time_s_high"]
    assert first["residual"] == pytest.approx(first["time_s"] / first["predicted_s"] - 1.0)
    assert len(first["samples_s"].split()) == first["samples"] == 3
    assert (first["energy_j"] is None) == ("energy" in first["unmeasured"])
    assert last["error_code"] == InvalidSpecError.error_code
    assert "fp8_block" in last["error"]
    path = tmp_path / "rows.csv"
    write_table(path, harness.measured_rows(records))
    rows = read_measured_rows(path)
    assert set(rows.texts["operator"]) == {"gemm"}
    assert set(rows.texts["device"]) == {"test_cpu_9_core"}
    with pytest.raises(UnsupportedError, match="no record is a row"):
        harness.measured_rows([last])


@needs_torch
def test_data_beyond_memory_is_a_row() -> None:
    huge = replace(
        harness.suite_cases("quick")[0],
        work=replace(harness.suite_cases("quick")[0].work, bytes=1e12),
    )
    (rows,) = harness.run_cases([huge], BENCH)
    assert rows[0]["error_code"] == UnsupportedError.error_code


@needs_torch
def test_kernels_of_perfatlas_without_a_gpu() -> None:
    bench = replace(BENCH, system=resolve_system("h100_sxm"))
    records = [
        one for rows in harness.run_cases(harness.suite_cases("kernels"), bench) for one in rows
    ]
    assert {one["kernel"] for one in records} == {"perfatlas"}
    assert all("run on GPUs" in one["error"] for one in records)
    designed = {one["operator"] for one in records if one["designed_s"] is not None}
    assert designed == {"gemm", "prefill_attention", "attention_backward", "grouped_gemm"}
    norm = next(
        one for one in harness.suite_cases("kernels", gpu=True) if one.operator == "residual_norm"
    )
    small = replace(_small(norm), shape={"tokens": 8, "width": 16})
    (record,) = next(harness.run_cases([replace(small, arms=("torch",))], BENCH))
    assert record["error"] is None


def test_work_of_kernels_of_perfatlas_by_hand() -> None:
    cases = {
        case.operator: (case.shape, case.work) for case in reversed(harness.suite_cases("kernels"))
    }
    _, backward = cases["attention_backward"]
    pairs = 4 * 32 * 4096 * 4097 // 2  # of a query and a key that it sees
    assert backward.flop == 5 * 2 * pairs * 128
    assert backward.bytes == 4 * 2 * 4 * (32 + 8) * 4096 * 128  # four of queries and four of keys
    _, latent = cases["mla_decode"]
    assert latent.flop == 2 * 64 * 128 * 8192 * (576 + 512)
    assert latent.bytes == 2 * 64 * (8192 * 576 + 128 * (576 + 512))
    _, experts = cases["grouped_gemm"]
    assert experts.flop == 2 * 4096 * 8 * 4096 * 7168


def test_arrays_of_quantizers_and_norms() -> None:
    work = {case.operator: case.work.bytes for case in harness.suite_cases("kernels")}
    elements = 16384 * 8192
    assert work["quantize_block"] == 3 * elements  # bf16 in, fp8 out
    assert work["residual_norm"] == 8 * elements  # x, residual, sum and norm in bf16
