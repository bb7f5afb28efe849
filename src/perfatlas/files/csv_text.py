"""CSV text of many rows, built column by column with Arrow.

The text is the one that Python's `csv` and `repr` give, so that a table does not depend on its
length. Shape legend: N rows.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.files.arrow_buffers import arrow_numbers, arrow_texts
from perfatlas.files.dictionary_cells import DictionaryCells
from perfatlas.files.number_cells import NumberCells
from perfatlas.files.parquet import plain_cells

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

# Loading Arrow takes as long as writing this many numbers one by one.
MANY_NUMBERS: Final = 400_000
# Python and Arrow write numbers between these without an exponent.
LEAST_PLAIN: Final = 1e-4
MOST_PLAIN: Final = 1e10
MOST_WHOLE: Final = 1e15  # whole numbers below are written as integers with ".0"


def is_long(columns: Mapping[str, Sequence[Any]]) -> bool:
    """Return whether columns have so many numbers that Arrow writes them faster.

    Args:
        columns: Cells by column name.
    """
    numbers = sum(len(cells) for cells in columns.values() if isinstance(cells, NumberCells))
    return numbers >= (1 if numbers and "pyarrow" in sys.modules else MANY_NUMBERS)


def csv_rows_text(columns: Mapping[str, Sequence[Any]]) -> str:
    """Return the rows of columns as CSV, without the header.

    Args:
        columns: Cells by column name, of equal length: `NumberCells`, lists or Arrow columns.
    """
    texts = [_texts(cells) for cells in columns.values()]
    texts[-1] = _joined([texts[-1]], "\n")
    rows = texts[0] if len(texts) == 1 else _joined(texts, ",")
    data = rows.buffers()[2]
    return bytes(data).decode() if data is not None else ""


def _joined(texts: Sequence[Any], between: str) -> Any:  # noqa: ANN401 - Arrow arrays
    """Return texts joined row by row; one column gets `between` at its end."""
    import pyarrow.compute as pc

    end = [_scalar("")] if len(texts) == 1 else []
    return pc.binary_join_element_wise(*texts, *end, _scalar(between))


def _scalar(text: str) -> Any:  # noqa: ANN401 - an Arrow scalar
    """Return a text; `pyarrow.scalar` would import pandas."""
    return arrow_texts([text])[0]


def _texts(cells: Sequence[Any]) -> Any:  # noqa: ANN401 - an Arrow array of large_string
    if isinstance(cells, NumberCells):
        return _float_texts(cells.values_N) if cells.kind is float else _arrow_texts(cells.arrow())
    if isinstance(cells, DictionaryCells):
        return _taken([_quoted(value) for value in cells.values], cells.codes_N)
    known: dict[tuple[type, Any], str] = {}
    texts = []
    for cell in plain_cells(cells):
        key = (type(cell), cell if not isinstance(cell, (dict, list)) else id(cell))
        text = known.get(key)
        if text is None:
            text = known[key] = _quoted(cell)
        texts.append(text)
    return arrow_texts(texts)


def _taken(texts: Sequence[str], codes_N: NDArray[np.integer[Any]]) -> Any:  # noqa: ANN401 - an Arrow array
    """Return the text of each code."""
    return arrow_texts(texts).take(_numbers(codes_N.astype(np.int64)))


def _numbers(values_N: NDArray[Any]) -> Any:  # noqa: ANN401 - an Arrow array
    """Return numbers or booleans, none of them empty."""
    return arrow_numbers(values_N, np.zeros(values_N.shape, np.bool_))


def _arrow_texts(numbers: Any) -> Any:  # noqa: ANN401 - Arrow arrays
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.fill_null(numbers.cast(pa.large_string()), _scalar(""))


def _float_texts(values_N: NDArray[np.float64]) -> Any:  # noqa: ANN401 - an Arrow array
    """Return numbers as `repr` writes them, "" if they are not finite."""
    import pyarrow.compute as pc

    finite_N = np.isfinite(values_N)
    kept_N = np.where(finite_N, values_N, 0.0)
    size_N = np.abs(kept_N)
    whole_N = finite_N & (size_N == np.floor(size_N)) & (size_N < MOST_WHOLE)
    whole_N &= ~((size_N == 0.0) & np.signbit(kept_N))
    texts = _arrow_texts(arrow_numbers(values_N, ~finite_N | whole_N))
    if whole_N.any():
        whole = _arrow_texts(_numbers(np.where(whole_N, kept_N, 0.0).astype(np.int64)))
        texts = pc.if_else(_numbers(whole_N), _joined([whole], ".0"), texts)
    apart_N = finite_N & ~whole_N & ((size_N < LEAST_PLAIN) | (size_N >= MOST_PLAIN))
    if apart_N.any():
        others = arrow_texts([repr(one) for one in values_N[apart_N].tolist()])
        texts = pc.replace_with_mask(texts, _numbers(apart_N), others)
    return texts


def _quoted(cell: object) -> str:
    """Return a cell as a CSV file has it."""
    if cell is None or (isinstance(cell, float) and not np.isfinite(cell)):
        return ""
    if type(cell) in (int, float):
        return repr(cell)
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerow([csv_cell(cell), ""])
    # a lone surrogate, which UTF-8 cannot encode, becomes its escape
    return text.getvalue()[:-2].encode("utf-8", "backslashreplace").decode()


def csv_cell(cell: object) -> object:
    """Return a cell that `csv` writes as it is, booleans and nested values as JSON.

    Args:
        cell: A plain value.
    """
    if isinstance(cell, (bool, dict, list)):
        return json.dumps(cell, ensure_ascii=False, default=str)
    return cell
