"""Arrow arrays from buffers equal those that pyarrow makes from Python values."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from perfatlas.files import NumberCells, arrow_column
from perfatlas.files.arrow_buffers import arrow_list

CELLS = st.one_of(
    *(
        st.lists(st.none() | kind, min_size=1, max_size=70)
        for kind in (
            st.text(st.characters(codec="utf-8")),
            st.floats(allow_nan=False),
            st.integers(-(2**63), 2**63 - 1),
            st.booleans(),
        )
    )
)


@given(CELLS)
def test_columns_equal_those_of_pyarrow(cells: list[Any]) -> None:
    found, expected = arrow_column("a", cells), pa.array(cells)
    assert found.equals(expected)
    found.validate(full=True)


@given(st.lists(st.none() | st.integers(-(2**40), 2**40), min_size=1, max_size=70))
def test_number_cells_are_null_where_they_are_not_finite(cells: list[int | None]) -> None:
    values_N = np.array([np.nan if cell is None else cell for cell in cells], np.float64)
    for kind in (float, int, bool):
        expected = [None if cell is None else kind(cell) for cell in cells]
        assert NumberCells(values_N=values_N, kind=kind).arrow().to_pylist() == expected


@pytest.mark.parametrize("cells", [[], [None], [1, "a"], [1, 2.5], [2**63], [b"a"], [{"a": 1}]])
def test_other_cells_are_left_to_pyarrow(cells: list[Any]) -> None:
    assert arrow_list(cells) is None


def test_a_given_type_is_kept() -> None:
    assert arrow_column("a", [1, None], pa.float64()).equals(pa.array([1.0, None]))
    assert arrow_column("a", [None, None], pa.string()).equals(pa.array([None, None], pa.string()))
    assert arrow_column("a", [None]).type == pa.null()


ARROW_COLUMNS = (
    "from perfatlas.files import arrow_column;"
    "[arrow_column('a', cells) for cells in (['a', None], [1.5], [1], [True], [None])];"
)
CSV_TEXT = (
    "import numpy as np; from perfatlas.files.tables import csv_rows_text;"
    "from perfatlas.files.number_cells import NumberCells;"
    "numbers = NumberCells(values_N=np.array([1.5, 2.0, np.nan, 1e30]), kind=float);"
    "assert csv_rows_text({'a': numbers, 'b': list('wxyz')}).startswith('1.5,w');"
)
CSV_CODES = (
    "from perfatlas.files.arrow_buffers import arrow_texts;"
    "from perfatlas.files.table_source import _coded; import pyarrow as pa;"
    "assert list(_coded(pa.chunked_array([arrow_texts('aba')]))) == ['a', 'b', 'a'];"
)


@pytest.mark.parametrize("work", [ARROW_COLUMNS, CSV_TEXT, CSV_CODES])
def test_pandas_is_not_imported_for_a_table(work: str) -> None:
    code = f"import sys; {work} print('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
