"""Columns of names, each name stored once.

Shape legend: E rows.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

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


@dataclass(kw_only=True)
class LabelBuilder:
    """A column of names while it grows."""

    codes: array[int] = field(default_factory=lambda: array("i"))
    code_of: dict[str, int] = field(default_factory=dict)

    def add(self, name: str) -> None:
        """Append one row."""
        self.codes.append(self.code_of.setdefault(name, len(self.code_of)))

    def close(self, order_E: NDArray[np.int64]) -> Labels:
        """Return the column."""
        return Labels(np.array(self.codes, np.int32)[order_E], tuple(self.code_of))


def joined_labels(columns: Sequence[Labels], order_E: NDArray[np.int64]) -> Labels:
    """Return several columns of names as one."""
    code_of: dict[str, int] = {}
    parts = []
    for column in columns:
        codes = [code_of.setdefault(name, len(code_of)) for name in column.names]
        parts.append(np.array(codes, np.int32)[column.code_E] if codes else column.code_E)
    return Labels(np.concatenate(parts)[order_E].astype(np.int32), tuple(code_of))
