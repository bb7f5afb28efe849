"""Columns of numbers that go from arrays into table files without a Python object per cell.

Shape legend: N rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from perfatlas.files.arrow_buffers import arrow_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, eq=False)
class NumberCells(Sequence[Any]):
    """The cells of a column of numbers, kept as an array; as a sequence, plain Python values.

    Example:
        >>> import numpy as np
        >>> from perfatlas.files import NumberCells
        >>> list(NumberCells(values_N=np.array([8.0, np.nan]), kind=int))
        [8, None]
    """

    values_N: NDArray[np.float64]  # The numbers (N,); those that are not finite are empty cells
    kind: type = float  # What the cells are: float, int or bool

    @property
    def empty(self) -> NDArray[np.bool_]:
        """Whether each cell is empty (N,)."""
        return ~np.isfinite(self.values_N)

    def plain(self) -> list[Any]:
        """Return the cells as Python values, None if empty."""
        cells: list[Any] = self._filled().tolist()
        for row in np.flatnonzero(self.empty).tolist():
            cells[row] = None
        return cells

    def arrow(self) -> Any:  # noqa: ANN401 - an Arrow array
        """Return the cells as an Arrow array of 64-bit numbers or booleans, null if empty."""
        return arrow_numbers(self._filled(), self.empty)

    def _filled(self) -> NDArray[Any]:
        """Return the numbers as their kind, with any value in empty cells (N,)."""
        if self.kind is float:
            return self.values_N
        return np.where(self.empty, 0.0, self.values_N).astype(self.kind)

    def __len__(self) -> int:
        """Return the number of rows."""
        return int(self.values_N.size)

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the plain cells."""
        return iter(self.plain())

    @overload
    def __getitem__(self, index: int) -> Any: ...  # noqa: ANN401 - a number of any kind
    @overload
    def __getitem__(self, index: slice) -> NumberCells: ...
    def __getitem__(self, index: int | slice) -> Any:
        """Return one plain cell, or some rows."""
        if isinstance(index, slice):
            return NumberCells(values_N=self.values_N[index], kind=self.kind)
        return NumberCells(values_N=self.values_N[[index]], kind=self.kind).plain()[0]
