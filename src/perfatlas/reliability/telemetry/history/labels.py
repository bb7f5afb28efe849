"""Typed columns while they grow; columns of names store each name once.

Shape legend: E rows.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Bool = NDArray[np.bool_]


class Labels(NamedTuple):
    """A column of names, each stored once."""

    code_E: NDArray[np.int32]  # Index into `names` of each row (E,)
    names: tuple[str, ...]  # The distinct names, in order of first occurrence

    def text(self) -> list[str]:
        """Return the name of each row."""
        return [self.names[code] for code in self.code_E.tolist()]

    def at(self, row: int) -> str:
        """Return the name of one row."""
        return self.names[int(self.code_E[row])]

    def is_any(self, names: Sequence[str]) -> Bool:
        """Return which rows have one of these names (E,)."""
        wanted = [code for code, name in enumerate(self.names) if name in names]
        return np.isin(self.code_E, wanted)

    def replaced(self, rows: Any, name: str) -> Labels:  # noqa: ANN401 - an index of rows
        """Return the column with another name in some rows."""
        names = self.names if name in self.names else (*self.names, name)
        code_E = self.code_E.copy()
        code_E[rows] = names.index(name)
        return Labels(code_E, names)


@dataclass(kw_only=True)
class LabelBuilder:
    """A column of names while it grows."""

    codes: array[int] = field(default_factory=lambda: array("i"))
    code_of: dict[str, int] = field(default_factory=dict)

    def append(self, name: str) -> None:
        """Append one row."""
        self.codes.append(self.code(name))

    def __setitem__(self, row: int, name: str) -> None:
        """Replace the name of a row."""
        self.codes[row] = self.code(name)

    def code(self, name: str) -> int:
        """Return the code of a name, which may be new."""
        return self.code_of.setdefault(name, len(self.code_of))


NAME: Final = "name"  # type of a column of names; other types are those of `array`


class ColumnBuilder:
    """Rows of typed columns while they grow.

    Args:
        types: Type of each column by its name in the result, in the order of the values of a row.
    """

    def __init__(self, types: Mapping[str, str]) -> None:
        """Start without rows."""
        self.columns: dict[str, Any] = {
            name: LabelBuilder() if kind == NAME else array(kind) for name, kind in types.items()
        }
        self.rows = 0

    def append(self, *values: object) -> int:
        """Append a row, and return its index."""
        for column, value in zip(self.columns.values(), values, strict=True):
            column.append(value)
        self.rows += 1
        return self.rows - 1

    def close(self, by: str) -> dict[str, Any]:
        """Return the columns sorted by one of them; ties keep their order."""
        order_E = np.argsort(np.array(self.columns[by]), kind="stable")
        return {
            name: Labels(np.array(column.codes)[order_E], tuple(column.code_of))
            if isinstance(column, LabelBuilder)
            else np.array(column)[order_E]
            for name, column in self.columns.items()
        }


def joined_columns(
    parts: Sequence[object], types: Mapping[str, str], by: str, file: str, shift: Sequence[int]
) -> dict[str, Any]:
    """Return the rows of several records of columns, sorted by one of them.

    Args:
        file: The column of file indices.
        shift: What is added to the file indices of each part.
    """
    columns: dict[str, list[Any]] = {name: [getattr(p, name) for p in parts] for name in types}
    columns[file] = [c + np.int32(n) for c, n in zip(columns[file], shift, strict=True)]
    order_E = np.argsort(np.concatenate(columns[by]), kind="stable")
    return {
        name: _joined_labels(column, order_E)
        if types[name] == NAME
        else np.concatenate(column)[order_E]
        for name, column in columns.items()
    }


def _joined_labels(columns: Sequence[Labels], order_E: NDArray[np.int64]) -> Labels:
    names = LabelBuilder()
    codes = [
        np.array([names.code(n) for n in each.names], np.int32)[each.code_E] for each in columns
    ]
    return Labels(np.concatenate(codes)[order_E], tuple(names.code_of))
