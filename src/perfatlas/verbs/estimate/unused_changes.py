"""Detect system changes in a table that have no effect on the answers of their rows.

Shape legend: N rows, C some of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfatlas.answer import SYSTEMS, no_effect
from perfatlas.hardware import changed_fields
from perfatlas.quantities import PerfatlasError
from perfatlas.verbs.estimate.columns import EstimateColumns, estimate_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.operators import IntArray
    from perfatlas.scenario.resolution import BoolArray

    Table = Mapping[str, Sequence[Any]]


def unused_changes_of_rows(table: Table, found: EstimateColumns) -> dict[int, list[str]]:
    """Return warnings about system changes without effect on predicted values, by row.

    Rows of systems with changes are priced again for each change, by closed forms.

    Args:
        table: The scenarios (N).
        found: Their answers.
    """
    messages: dict[int, list[str]] = {}
    answered = np.flatnonzero(~found.refused)
    for name in SYSTEMS:
        for text, rows_C in _systems(table.get(name, ()), answered).items():
            rows = _rows(table, rows_C)
            own = estimate_columns(rows)
            for path, unchanged in _changes(text).items():
                other = estimate_columns({**rows, name: [unchanged] * rows_C.size})
                for row in rows_C[_same(own, other)].tolist():
                    messages.setdefault(row, []).append(no_effect(path))
    return messages


def _systems(cells: Sequence[Any], rows_N: IntArray) -> dict[str, IntArray]:
    """Return the rows of each system that may contain changes."""
    found: dict[str, list[int]] = {}
    for row in rows_N.tolist() if len(cells) else ():
        text = cells[row]
        if isinstance(text, str) and ("{" in text or "." in text):
            found.setdefault(text, []).append(row)
    return {text: np.array(rows, np.int64) for text, rows in found.items()}


def _changes(text: str) -> dict[str, str]:
    try:
        return changed_fields(text)
    except PerfatlasError:
        return {}


def _rows(table: Table, rows_C: IntArray) -> dict[str, list[Any]]:
    """Return some rows with method formula."""
    rows = {name: [cells[row] for row in rows_C.tolist()] for name, cells in table.items()}
    return rows | {"method": ["formula"] * rows_C.size}


def _same(own: EstimateColumns, other: EstimateColumns) -> BoolArray:
    """Return where both predict the same values, ignoring intervals (C,)."""
    same_C: BoolArray = ~(own.refused | other.refused)
    for name in own.columns.keys() | other.columns.keys():
        if not name.endswith(("_low", "_high")):
            missing = np.full(same_C.size, np.nan)
            pair = [columns.columns.get(name, missing) for columns in (own, other)]
            same_C &= (pair[0] == pair[1]) | (np.isnan(pair[0]) & np.isnan(pair[1]))
    return same_C
