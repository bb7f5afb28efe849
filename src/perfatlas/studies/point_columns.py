"""Columns of a block of points: derived, constrained and ranked by expressions.

Shape legend: K points.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.files import DictionaryCells, NumberCells
from perfatlas.quantities import InvalidSpecError
from perfatlas.studies.refusals import refused_by_rule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from perfatlas.quantities import Expression

MAX_EXACT_INTEGER: Final = 2.0**53  # integers below it are exact as floats


@dataclass
class PointColumns:
    """The columns of a block of points, which lose the points that break a constraint.

    Attributes:
        columns: Cells by name (K).
        inputs: Values of names that are no column, the same at all points.
        rows: Number of points K.
    """

    columns: dict[str, Sequence[Any]]
    inputs: Mapping[str, Any]
    rows: int

    def same(self, values: Mapping[str, Any]) -> dict[str, Sequence[Any]]:
        """Return columns of one value each (K)."""
        same_K = np.zeros(self.rows, np.int32)
        return {
            name: DictionaryCells(values=(value,), codes_N=same_K) for name, value in values.items()
        }

    def derive(self, name: str, expression: Expression) -> None:
        """Add a derived column (K)."""
        values = np.asarray(expression.of(self._arrays(expression)))
        value_K = np.broadcast_to(values, (self.rows,))
        if value_K.dtype == object or value_K.dtype.kind == "U":
            self.columns[name] = [None if cell is None else str(cell) for cell in value_K]
            return
        kind = bool if value_K.dtype == np.bool_ else _number_kind(value_K)
        self.columns[name] = NumberCells(values_N=value_K.astype(np.float64), kind=kind)

    def constrain(self, constraints: Sequence[Expression]) -> dict[str, int]:
        """Leave out points that break a constraint, and return their number by the first of them.

        Raises:
            InvalidSpecError: A constraint is no comparison.
        """
        kept_K, counts = refused_by_rule(self._broken(constraints).items(), self.rows)
        kept = np.flatnonzero(kept_K)
        for name, cells in self.columns.items():
            if isinstance(cells, NumberCells):
                self.columns[name] = NumberCells(values_N=cells.values_N[kept], kind=cells.kind)
            else:
                self.columns[name] = [cells[index] for index in kept.tolist()]
        self.rows = kept.size
        return counts

    def met(
        self, constraints: Sequence[Expression], failed: Sequence[bool]
    ) -> tuple[list[bool], dict[str, int]]:
        """Return which answered points meet all constraints (K), and how many break each.

        Args:
            failed: Whether a point has no answer (K).

        Raises:
            InvalidSpecError: A constraint is no comparison.
        """
        answered_K = ~np.array(failed, np.bool_)
        broken = self._broken(constraints)
        met_K, counts = refused_by_rule(broken.items(), self.rows)
        not_met = {text: int(np.sum(broken[text] & answered_K)) for text in counts}
        return (met_K & answered_K).tolist(), not_met

    def finite(self, name: str, among: Sequence[bool] | None = None) -> dict[int, float]:
        """Return the finite numbers of a column by point.

        Args:
            among: Whether a point counts (K), None for all.

        Raises:
            InvalidSpecError: The column has texts.
        """
        value_K = _array(self.columns[name])
        if value_K.dtype == object:
            raise InvalidSpecError(f"objective = {name!r} is a text and ranks no rows")
        known_K = np.isfinite(value_K) & (True if among is None else np.array(among, np.bool_))
        indices = np.flatnonzero(known_K)
        return dict(zip(indices.tolist(), value_K[indices].tolist(), strict=True))

    def stored(self, name: str) -> Sequence[Any]:
        """Return the cells of a Parquet column: empty text is null, lists become JSON (K)."""
        cells = self.columns[name]
        if isinstance(cells, NumberCells):
            return cells
        if isinstance(cells, DictionaryCells):
            return cells.mapped(lambda cell: None if cell == "" else cell)
        return [_stored(cell) for cell in cells]

    def _arrays(self, *expressions: Expression) -> dict[str, Any]:
        """Return the names that expressions read, as arrays (K)."""
        names = dict.fromkeys(name for expression in expressions for name in expression.names)
        return {
            name: _array(self.columns[name])
            if name in self.columns
            else _array([self.inputs.get(name)] * self.rows)
            for name in names
        }

    def _broken(self, constraints: Sequence[Expression]) -> dict[str, NDArray[np.bool_]]:
        """Return the points that break each constraint (K), by its text."""
        arrays, broken = self._arrays(*constraints), {}
        for constraint in constraints:
            value = np.asarray(constraint.of(arrays))
            if value.dtype != np.bool_:
                raise InvalidSpecError(
                    f"constraint {constraint.text!r} is a number or a text; compare it, as in"
                    f" {constraint.text} <= 8"
                )
            broken[constraint.text] = ~np.broadcast_to(value, (self.rows,))
        return broken


def _array(cells: Sequence[Any]) -> Any:  # noqa: ANN401 - an array
    """Return cells as floats with NaN for empty ones, or as objects if any is text."""
    if isinstance(cells, NumberCells):
        return np.where(cells.empty, np.nan, cells.values_N)
    if isinstance(cells, range):
        return np.array(cells, np.float64)
    if any(isinstance(cell, (str, list, dict)) for cell in cells):
        array = np.empty(len(cells), object)
        array[:] = cells
        return array
    return np.array([np.nan if cell is None else cell for cell in cells], np.float64)


def _number_kind(value_K: NDArray[np.float64]) -> type:
    """Return int if all numbers are integers, so that a derived field of integers can be asked."""
    finite = value_K[np.isfinite(value_K)]
    whole = np.all(finite == np.round(finite)) and np.all(abs(finite) < MAX_EXACT_INTEGER)
    return int if finite.size and whole else float


def _stored(cell: Any) -> Any:  # noqa: ANN401 - a cell
    if cell == "" or (isinstance(cell, float) and not math.isfinite(cell)):
        return None
    return json.dumps(cell) if isinstance(cell, (list, dict)) else cell
