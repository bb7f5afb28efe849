"""Conversion of table columns to numbers and flags; errors name the row of an invalid cell.

Columns of plain values are converted and checked as arrays; cells are read one by one if a column
holds text, and to find the first invalid one.

Shape legend: L rows of a table.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.quantities import repr_for_error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from perfatlas.files.fields import Number

    Wrong = Callable[[int, str], Exception]

_SCALAR_TYPES: Final = frozenset({int, float, type(None)})
_FLAGS: Final[dict[str | None, bool]] = {
    **dict.fromkeys(("true", "yes", "1", "1.0"), True),
    **dict.fromkeys(("false", "no", "0", "0.0"), False),
}


def number_column(cells: Sequence[Any], field: Number, wrong: Wrong) -> NDArray[np.float64]:
    """Return a column as numbers (L,); empty cells are NaN.

    Args:
        cells: Cells as `Table.cells` returns them (L,).
        field: Rule of a cell; numbers have no units here.
        wrong: Returns the error for a row index and a problem such as " = -1: expected ...".

    Raises:
        InvalidSpecError: Raised by `wrong` for the first cell that is not a valid number.

    Example:
        >>> from perfatlas.files import Number, number_column
        >>> number_column([1, None, "2.5"], Number(least=0.0), lambda at, text: ValueError(text))
        array([1. , nan, 2.5])
    """
    value_L = _plain(cells)
    if value_L is None:
        value_L = np.array([_number(cells, index, wrong) for index in range(len(cells))])
    bad_L = ~((value_L >= field.least) & (value_L <= field.most))
    if field.whole:
        bad_L |= value_L != np.floor(value_L)
    bad_L &= ~np.isnan(value_L)
    if bad_L.any():
        index = int(np.argmax(bad_L))
        problem = field.problem(float(value_L[index]))
        raise wrong(index, f" = {repr_for_error(cells[index])}{problem}")
    return value_L


def flag_column(cells: Sequence[Any], wrong: Wrong, *, empty: bool) -> NDArray[np.bool_]:
    """Return a column of booleans (L,), written as true, yes or 1.

    Args:
        cells: Cells as `Table.cells` returns them (L,).
        wrong: As for `number_column`.
        empty: Value of an empty cell.

    Raises:
        InvalidSpecError: Raised by `wrong` for the first cell that is not a boolean.
    """
    values = {None: empty, "": empty, **_FLAGS}
    flags: list[bool] = []
    for index, cell in enumerate(cells):
        word = cell if cell is None else str(cell).strip().casefold()
        if word not in values:
            raise wrong(index, f" = {repr_for_error(cell)}: expected true or false, 1 or 0")
        flags.append(values[word])
    return np.array(flags, np.bool_)


def _plain(cells: Sequence[Any]) -> NDArray[np.float64] | None:
    """Return the cells as an array if all are finite numbers or empty, else None."""
    if not set(map(type, cells)) <= _SCALAR_TYPES:
        return None
    try:
        value_L = np.array(cells, np.float64)
    except OverflowError:
        return None
    empty = sum(cell is None for cell in cells)
    return value_L if np.isfinite(value_L).sum() + empty == len(cells) else None


def _number(cells: Sequence[Any], index: int, wrong: Wrong) -> float:
    cell = cells[index]
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        return math.nan
    try:
        number = math.nan if isinstance(cell, bool) else float(cell)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise wrong(index, f" = {repr_for_error(cell)} is not a number{_unit_hint(cell)}")
    return number


def _unit_hint(cell: object) -> str:
    """Return a hint if the cell is a number with a unit."""
    text = str(cell).strip()
    if text[:1].isdigit() and (text[-1:].isalpha() or ":" in text):
        return ": write plain numbers, times in seconds"
    return ""
