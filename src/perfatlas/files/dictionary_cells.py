"""Columns of few distinct values that go between tables and answers without work per cell.

Shape legend: N rows, V distinct values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, overload

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, eq=False)
class DictionaryCells(Sequence[Any]):
    """The cells of a column as its values and the position of each row's value, as Arrow has them.

    As a sequence, plain Python values.

    Example:
        >>> import numpy as np
        >>> from perfatlas.files import DictionaryCells
        >>> list(DictionaryCells(values=("memory", None), codes_N=np.array([0, 0, 1])))
        ['memory', 'memory', None]
    """

    # The values (V); None is an empty cell. Some may be equal, or in no row.
    values: tuple[Any, ...]
    codes_N: NDArray[np.integer[Any]]  # Position of the value of each row (N,)

    @classmethod
    def of(cls, cells: Sequence[Any]) -> DictionaryCells:
        """Return cells of one hashable type, and None, by their distinct values.

        Args:
            cells: The cells (N).
        """
        values = dict.fromkeys(cells)
        code = dict(zip(values, count(), strict=False))
        codes_N = np.fromiter(map(code.__getitem__, cells), np.int32, len(cells))
        return cls(values=tuple(values), codes_N=codes_N)

    def plain(self) -> list[Any]:
        """Return the cells as Python values."""
        return list(map(self.values.__getitem__, self.codes_N.tolist()))

    def mapped(self, function: Callable[[Any], Any]) -> DictionaryCells:
        """Return the same rows with other values."""
        return DictionaryCells(values=tuple(map(function, self.values)), codes_N=self.codes_N)

    def where(self, function: Callable[[Any], bool]) -> NDArray[np.bool_]:
        """Return the rows whose value has a property (N,)."""
        found_N: NDArray[np.bool_] = np.fromiter(map(function, self.values), np.bool_)[self.codes_N]
        return found_N

    def __len__(self) -> int:
        """Return the number of rows."""
        return int(self.codes_N.size)

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the plain cells."""
        return iter(self.plain())

    @overload
    def __getitem__(self, index: int) -> Any: ...  # noqa: ANN401 - a value of any kind
    @overload
    def __getitem__(self, index: slice) -> DictionaryCells: ...
    def __getitem__(self, index: int | slice) -> Any:
        """Return one plain cell, or some rows."""
        if not isinstance(index, slice):
            return self.values[self.codes_N[index]]
        codes_N = self.codes_N[index]
        if len(self.values) <= codes_N.size:
            return DictionaryCells(values=self.values, codes_N=codes_N)
        used_V, codes_N = np.unique(codes_N, return_inverse=True)  # blocks keep their own values
        values = tuple(map(self.values.__getitem__, used_V.tolist()))
        return DictionaryCells(values=values, codes_N=codes_N.reshape(-1))


def joined_dictionaries(parts: Sequence[DictionaryCells]) -> DictionaryCells:
    """Return the rows of several columns, one after the other."""
    if len(parts) == 1:
        return parts[0]
    values = tuple(value for part in parts for value in part.values)
    starts = np.cumsum([0, *(len(part.values) for part in parts[:-1])])
    codes = [part.codes_N + start for part, start in zip(parts, starts, strict=True)]
    return DictionaryCells(values=values, codes_N=np.concatenate(codes))
