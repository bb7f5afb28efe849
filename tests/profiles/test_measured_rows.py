"""Rows of a profile that `calibrate` reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from perfatlas.cli import main
from perfatlas.measurements.tables import read_measured_rows
from perfatlas.profiles import import_profile, measured_rows, read_rules
from perfatlas.profiles.events import Profile
from tests.profiles.samples import ADD, MM, event, launch, trace, written


def repeated(path: Path) -> Profile:
    """A product that takes 40, 50 and 90 µs, the last one with a second kernel of 5 µs."""
    content = trace()
    for number, (time_us, more) in enumerate(((50.0, 0.0), (85.0, 5.0)), 60):
        at_us = 200.0 * number
        content["traceEvents"] += [
            event("cpu_op", "aten::mm", at_us, 10.0, **MM),
            launch("cudaLaunchKernel", at_us + 1.0, number),
            event("kernel", "sm90_xmma_gemm_bf16", at_us + 9.0, time_us, correlation=number),
        ]
        if more:
            content["traceEvents"] += [
                launch("cudaLaunchKernel", at_us + 3.0, number + 100),
                event("kernel", "splitKreduce_gemm", at_us + 99.0, more, correlation=number + 100),
            ]
    return import_profile(written(path, content))


def test_a_row_has_the_median_of_all_executions(tmp_path: Path) -> None:
    rows = measured_rows([repeated(tmp_path / "t.json")], read_rules())
    at = rows["operator"].index("gemm")
    row = {name: cells[at] for name, cells in rows.items() if cells[at] is not None}
    assert row.pop("time_s") == pytest.approx(50e-6)
    assert row == {
        "device": "h100_sxm",
        "operator": "gemm",
        "kernel_family": "torch",
        "format": "bf16",
        "kv_format": "bf16",
        "m": 64,
        "n": 256,
        "k": 128,
        "count": 3,
    }
    streamed = {name: cells[rows["operator"].index("streaming")] for name, cells in rows.items()}
    # (2^16 + 1) x 1024 floats read, 2^16 x 1024 written; the copy of the same operator is no part
    assert ADD["Input Dims"][0] == [1 << 16, 1024]
    assert streamed["bytes"] == 4 * 1024 * (2 * 2**16 + 1)
    assert (streamed["tokens"], streamed["time_s"]) == (1 << 16, pytest.approx(20e-6))


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_calibrate_reads_all_forms(tmp_path: Path, ending: str) -> None:
    path, file = written(tmp_path / "t.json", trace()), tmp_path / f"rows.{ending}"
    assert main(["profile", str(path), "--to", str(file)]) == 0
    rows = read_measured_rows(file)
    assert (rows.rows, rows.ignored_columns) == (2, ())
    assert sorted(rows.texts["operator"].tolist()) == ["gemm", "streaming"]


def test_attention_is_a_row_if_calibrations_have_it() -> None:
    profile = import_profile("examples/profiles/h100_two_layers.json.gz")
    rows = measured_rows([profile], read_rules())
    at = rows["operator"].index("prefill_attention")
    names = ("batch", "q_len", "kv_len", "num_heads", "num_kv_heads", "head_dim", "count")
    assert [rows[name][at] for name in names] == [16, 559, 559, 16, 16, 64, 2]
    assert np.isfinite(rows["time_s"]).all()
