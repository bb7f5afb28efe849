from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from perfatlas.files import write_table
from perfatlas.measurements.tables import PROTOCOL_COLUMNS, SHAPE_COLUMNS, read_measured_rows
from perfatlas.measurements.tables.rows import COLUMNS
from perfatlas.quantities import PerfatlasError
from tests.examples import scaled_examples

SHAPES: dict[str, dict[str, float]] = {
    "gemm": {"m": 64, "n": 4096, "k": 8192},
    "moe": {"tokens": 64, "hidden": 4096, "intermediate": 1536, "experts": 128, "top_k": 8},
    "prefill_attention": {
        "batch": 2,
        "q_len": 1024,
        "kv_len": 2048,
        "num_heads": 32,
        "num_kv_heads": 8,
        "head_dim": 128,
    },
    "decode_attention": {
        "batch": 2,
        "kv_len": 2048,
        "num_heads": 32,
        "num_kv_heads": 8,
        "head_dim": 128,
    },
    "mla_prefill": {
        "batch": 2,
        "q_len": 1024,
        "kv_len": 2048,
        "num_heads": 16,
        "kv_lora_rank": 512,
        "rope_dim": 64,
        "nope_dim": 128,
        "value_head_dim": 128,
    },
    "mla_decode": {
        "batch": 2,
        "kv_len": 2048,
        "num_heads": 16,
        "kv_lora_rank": 512,
        "rope_dim": 64,
        "nope_dim": 128,
        "value_head_dim": 128,
    },
    "scan_prefill": {
        "batch": 2,
        "q_len": 1024,
        "num_heads": 32,
        "num_key_heads": 16,
        "head_dim": 128,
        "value_head_dim": 128,
    },
    "scan_decode": {
        "batch": 64,
        "num_heads": 32,
        "num_key_heads": 16,
        "head_dim": 128,
        "value_head_dim": 128,
    },
    "conv_prefill": {"batch": 2, "q_len": 1024, "channels": 8192},
    "conv_decode": {"batch": 64, "channels": 8192},
    "streaming": {"bytes": 3e6, "tokens": 256},
}


def row(kind: str = "gemm", /, **changes: object) -> dict[str, Any]:
    words = {"device": "my_gpu", "operator": kind, "kernel_family": "vllm", "format": "bf16"}
    return {**words, **SHAPES[kind], "time_us": 12.5, **changes}


def write(path: Path, *rows: dict[str, Any]) -> Path:
    names = list(dict.fromkeys(name for one in rows for name in one))
    write_table(path, {name: [one.get(name) for one in rows] for name in names})
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_every_operator_is_read_from_every_format(tmp_path: Path, suffix: str) -> None:
    rows = read_measured_rows(write(tmp_path / f"rows{suffix}", *map(row, SHAPES)))
    assert rows.texts["operator"].tolist() == list(SHAPES)
    # by hand: 12.5 us
    assert rows.time_s == pytest.approx(12.5e-6)
    assert rows.numbers["m"][0] == 64
    assert math.isnan(rows.numbers["m"][1])  # an MoE row has no m
    assert rows.data_hash.startswith("sha256:")
    assert len(rows.data_hash) == len("sha256:") + 16


def test_empty_cells_take_the_documented_value(tmp_path: Path) -> None:
    rows = read_measured_rows(write(tmp_path / "rows.csv", *map(row, SHAPES)))
    moe, decode = 1, 3
    assert rows.numbers["matrices"][moe] == 3
    assert rows.numbers["ep"][moe] == 1
    assert rows.numbers["q_len"][decode] == 1
    assert rows.numbers["value_head_dim"][decode] == 128  # that of head_dim
    assert rows.texts["kv_format"][decode] == "bf16"
    for name, default in PROTOCOL_COLUMNS.items():
        assert (rows.numbers[name] == default).all()
    assert np.isnan(rows.numbers["clock_hz"]).all()


def test_unknown_columns_are_named_not_dropped_in_silence(tmp_path: Path) -> None:
    rows = read_measured_rows(write(tmp_path / "rows.csv", row(driver="570", clock_hz=1.5e9)))
    assert rows.ignored_columns == ("driver",)
    assert rows.numbers["clock_hz"].tolist() == [1.5e9]


def test_some_rows_keep_their_numbers(tmp_path: Path) -> None:
    rows = read_measured_rows(write(tmp_path / "rows.csv", row(m=1), row(m=2), row(m=3)))
    part = rows.take(np.array([2, 0]))
    assert part.numbers["m"].tolist() == [3, 1]
    assert part.number_N.tolist() == [3, 1]


def test_the_documented_columns_are_the_schema() -> None:
    page = (Path(__file__).parents[2] / "docs" / "calibrate.md").read_text("utf-8")
    for name in COLUMNS:
        assert f"`{name}`" in page, name
    for name in SHAPE_COLUMNS:
        assert f"`{name}`" in page, name


CELL = st.one_of(
    st.none(),
    st.booleans(),
    st.floats(),
    st.integers(min_value=-(10**40), max_value=10**40),
    st.text(max_size=8),
    st.sampled_from(["gemm", "moe", "bf16", "1e5", "nan", "inf", "1_0", "٣", "0x10", "\x00"]),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=1),
)


@settings(max_examples=scaled_examples(4))
@given(
    operator=st.sampled_from(sorted(SHAPES)),
    changes=st.dictionaries(st.sampled_from(COLUMNS), CELL, max_size=4),
)
def test_hostile_cells_are_refused_or_read(
    tmp_path_factory: pytest.TempPathFactory, operator: str, changes: dict[str, Any]
) -> None:
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    one = row(operator, **changes)
    path.write_text(json.dumps(one) + "\n", "utf-8")
    try:
        rows = read_measured_rows(path)
    except PerfatlasError:
        return
    assert (rows.time_s > 0).all()
    assert np.isfinite(rows.time_s).all()


@settings(max_examples=scaled_examples(2))
@given(content=st.binary(max_size=200), suffix=st.sampled_from([".csv", ".parquet", ".jsonl"]))
def test_hostile_files_are_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, suffix: str
) -> None:
    path = tmp_path_factory.mktemp("rows") / f"rows{suffix}"
    path.write_bytes(content)
    with pytest.raises(PerfatlasError):
        read_measured_rows(path)
