"""Typed cells of a table; invalid cells raise an error with their row.

Shape legend: L rows of the table.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from perfatlas.files import flag_column, number_column, read_table, unpacked_name
from perfatlas.quantities import InvalidSpecError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from perfatlas.files import Number

    Float = NDArray[np.float64]


class Cells:
    """A table whose columns are read one by one.

    Args:
        path: The file; its extension determines the format.
        what: Kind of table, for messages.
        optional: Columns it may have; others are ignored.

    Raises:
        InvalidSpecError: The file cannot be read, or a column is missing or has no unit.
    """

    def __init__(
        self, path: str | Path, what: str, required: Sequence[str], optional: Sequence[str]
    ) -> None:
        """Read the file."""
        self.path, self.what = Path(path), what
        table = read_table(self.path)
        self.columns, self.size = table.columns, table.rows
        self._table = table
        self._first = 2 if unpacked_name(path).suffix.lower() == ".csv" else 1
        missing = [name for name in required if name not in table.columns]
        if missing:
            raise InvalidSpecError(
                f"{what} '{path}' lacks the columns {', '.join(missing)}"
                f"{_suggestion(missing, tuple(table.columns), optional)}; it has"
                f" {', '.join(list(table.columns)[:30])}"
            )
        for name in table.columns:
            if name not in (*required, *optional) and f"{name}_s" in optional:
                raise InvalidSpecError(
                    f"{what} '{path}', column {name!r} has no unit: rename it '{name}_s' if it is"
                    " in seconds"
                )
        self.unread = tuple(n for n in table.columns if n not in (*required, *optional))

    def row(self, at: int) -> int:
        """Return the row number in the file; the header of a CSV is row 1."""
        return at + self._first

    def wrong(self, at: int, problem: str) -> InvalidSpecError:
        """Return an error for a row."""
        return InvalidSpecError(f"{self.what} '{self.path}', row {self.row(at)}: {problem}")

    def numbers(self, name: str, field: Number) -> Float:
        """Return a column as numbers (L,), NaN where empty."""
        return number_column(self._table.cells(name), field, self._wrong_in(name))

    def switches(self, name: str, *, empty: bool) -> NDArray[np.bool_]:
        """Return a column of booleans (L,)."""
        return flag_column(self._table.cells(name), self._wrong_in(name), empty=empty)

    def _wrong_in(self, name: str) -> Callable[[int, str], InvalidSpecError]:
        return lambda at, problem: self.wrong(at, f"{name}{problem}")

    def texts(self, name: str) -> list[str]:
        """Return a column as text, "not recorded" where empty."""
        return ["not recorded" if cell is None else str(cell) for cell in self._table.cells(name)]


def _suggestion(missing: Sequence[str], columns: Sequence[str], used: Sequence[str]) -> str:
    """Return suggestions for missing columns."""
    for name in missing:
        bare = name.removesuffix("_s")
        if bare != name and bare in columns:
            return f" (column {bare!r} has no unit: rename it {name!r} if it is in seconds)"
    for name in missing:
        near = did_you_mean(name, [other for other in columns if other not in used])
        if near:
            other = near.removeprefix("; did you mean ").removesuffix("?")
            return f" (is column {other} meant as {name}?)"
    return ""
