"""Cells kept as arrays are written as the plain cells they stand for."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from perfatlas.files import NumberCells, read_table, write_table
from perfatlas.files.tables import csv_rows_text

NUMBERS = [0.0, -0.0, 1.0, 0.1, 9.999e-5, 1e-4, 1e10, 12345678901.5, 1e15, 1e16, 1e22, -3.25, 1 / 3]
LABELS = ['a "b", c', "two\nlines", None, "", "plain"]


def _written(values: list[float], label: str | None) -> str:
    """Return rows as Python's own writer has them."""
    text = io.StringIO(newline="")
    rows = [(v if np.isfinite(v) else None, label, int(v > 0)) for v in values]
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


@given(
    st.lists(st.floats(width=64) | st.sampled_from(NUMBERS), min_size=1, max_size=30),
    st.sampled_from(LABELS),
)
def test_csv_text_of_arrays_is_that_of_plain_numbers(
    values: list[float], label: str | None
) -> None:
    columns = {
        "number": NumberCells(values_N=np.array(values)),
        "label": [label] * len(values),
        "count": NumberCells(values_N=(np.array(values) > 0.0).astype(np.float64), kind=int),
    }
    assert csv_rows_text(columns) == _written(values, label)


def test_csv_text_has_the_escape_of_a_lone_surrogate() -> None:
    columns = {"number": NumberCells(values_N=np.ones(1)), "label": [chr(0xD83D)]}
    assert csv_rows_text(columns) == "1.0,\\ud83d\n"


def test_cells_are_plain_values_of_their_kind() -> None:
    values = np.array([8.0, np.nan, np.inf, 0.0])
    assert list(NumberCells(values_N=values)) == [8.0, None, None, 0.0]
    whole = NumberCells(values_N=values, kind=int)
    assert list(whole) == [8, None, None, 0]
    assert type(whole[0]) is int
    assert list(whole[2:]) == [None, 0]
    assert list(NumberCells(values_N=values, kind=bool)) == [True, None, None, False]
    assert whole.arrow().type == pa.int64()
    assert whole.arrow().to_pylist() == [8, None, None, 0]


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_files_of_arrays_hold_what_files_of_lists_hold(tmp_path: Path, suffix: str) -> None:
    values = np.array([1.5, np.nan, 1e12])
    kinds = {"rate": float, "count": int}
    arrays = {n: NumberCells(values_N=np.floor(values), kind=kind) for n, kind in kinds.items()}
    write_table(tmp_path / f"arrays{suffix}", arrays)
    write_table(tmp_path / f"lists{suffix}", {n: list(cells) for n, cells in arrays.items()})
    one, other = (read_table(tmp_path / f"{name}{suffix}") for name in ("arrays", "lists"))
    assert [one.cells(n) for n in kinds] == [other.cells(n) for n in kinds]
