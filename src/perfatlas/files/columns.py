"""Columns of a table as numbers and switches; a wrong cell is refused with its row.

What is plain is converted and checked as a whole; cells are looked at one by one where a column
holds text, and to name the first wrong one.

Shape legend: L rows of a table.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.quantities import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from perfatlas.files.fields import Number

    Wrong = Callable[[int, str], Exception]

_PLAIN: Final = frozenset({int, float, type(None)})
_FLAGS: Final[dict[str | None, bool]] = {
    **dict.fromkeys(("true", "yes", "1", "1.0"), True),
    **dict.fromkeys(("false", "no", "0", "0.0"), False),
}


def number_column(cells: Sequence[Any], field: Number, wrong: Wrong) -> NDArray[np.float64]:
    """Return a column as numbers (L,), NaN where empty.

    Args:
        cells: As `Table.cells` gives them (L,).
        field: What a cell may hold; numbers carry no unit here.
        wrong: Makes the error of a row from its index and what is wrong: " = -1: expected ...".

    Raises:
        InvalidSpecError: What `wrong` makes of the first cell that is no number or out of range.

    Example:
        >>> from perfatlas.files import Number, number_column
        >>> number_column([1, None, "2.5"], Number(least=0.0), lambda at, text: ValueError(text))
        array([1. , nan, 2.5])
    """
    value_L = _plain(cells)
    if value_L is None:
        value_L = np.array([_number(cells, at, wrong) for at in range(len(cells))])
    bad_L = ~((value_L >= field.least) & (value_L <= field.most))
    if field.whole:
        bad_L |= value_L != np.floor(value_L)
    bad_L &= ~np.isnan(value_L)
    if bad_L.any():
        at = int(np.argmax(bad_L))
        raise wrong(at, f" = {shown(cells[at])}{field.problem(float(value_L[at]))}")
    return value_L


def flag_column(cells: Sequence[Any], wrong: Wrong, *, empty: bool) -> NDArray[np.bool_]:
    """Return a column of true and false (L,), written as true, yes or 1.

    Args:
        cells: As `Table.cells` gives them (L,).
        wrong: As for `number_column`.
        empty: What an empty cell means.

    Raises:
        InvalidSpecError: What `wrong` makes of the first cell that is neither.
    """
    told = {None: empty, "": empty, **_FLAGS}
    flags: list[bool] = []
    for at, cell in enumerate(cells):
        word = cell if cell is None else str(cell).strip().casefold()
        if word not in told:
            raise wrong(at, f" = {shown(cell)}: expected true or false, 1 or 0")
        flags.append(told[word])
    return np.array(flags, np.bool_)


def _plain(cells: Sequence[Any]) -> NDArray[np.float64] | None:
    """Return cells that are all finite numbers or empty, None where they are not."""
    if not set(map(type, cells)) <= _PLAIN:
        return None
    try:
        value_L = np.array(cells, np.float64)
    except OverflowError:
        return None
    empty = sum(cell is None for cell in cells)
    return value_L if np.isfinite(value_L).sum() + empty == len(cells) else None


def _number(cells: Sequence[Any], at: int, wrong: Wrong) -> float:
    cell = cells[at]
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        return math.nan
    try:
        number = math.nan if isinstance(cell, bool) else float(cell)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise wrong(at, f" = {shown(cell)} is not a number{_unit_hint(cell)}")
    return number


def _unit_hint(cell: object) -> str:
    """Return what to do about a number with a unit."""
    text = str(cell).strip()
    if text[:1].isdigit() and (text[-1:].isalpha() or ":" in text):
        return ": write plain numbers, times in seconds"
    return ""
