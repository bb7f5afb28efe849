"""Detect system changes in a table that have no effect on the answers of their rows.

Shape legend: N rows, C some of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from perfatlas.answer import SYSTEMS, no_effect
from perfatlas.files import DictionaryCells
from perfatlas.hardware import changed_fields
from perfatlas.quantities import PerfatlasError
from perfatlas.verbs.estimate.columns import EstimateColumns, estimate_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.scenario.resolution import BoolArray

    Table = Mapping[str, Sequence[Any]]


def unused_changes_of_rows(table: Table, found: EstimateColumns) -> dict[int, list[str]]:
    """Return warnings about system changes without effect on predicted values, by row.

    Rows whose systems change a field are priced again without it, by closed forms, all systems
    together; rows that then are equal are priced once.

    Args:
        table: The scenarios (N).
        found: Their answers.
    """
    messages: dict[int, list[str]] = {}
    answered = np.flatnonzero(~found.refused)
    for name in SYSTEMS:
        changes = _systems(table.get(name, ()), answered)
        for path in sorted({path for unchanged in changes.values() for path in unchanged}):
            cells = table[name]
            rows_C = np.array(
                [row for row in answered.tolist() if path in changes.get(cells[row], ())]
            )
            rows = _rows(table, rows_C)
            own = _own(found, rows, rows_C)
            rows[name] = [changes[cell][path] for cell in rows[name]]
            first_U, place_C = _distinct(rows)
            other = estimate_columns({n: [c[u] for u in first_U] for n, c in rows.items()})
            for row in rows_C[_same(own, _taken(other, place_C))].tolist():
                messages.setdefault(row, []).append(no_effect(path))
    return messages


class _Predicted(NamedTuple):
    """Predictions of some rows: results by name (C,), and which rows are refused (C,)."""

    columns: Mapping[str, FloatArray]
    refused: BoolArray


def _taken(found: EstimateColumns, rows_C: IntArray) -> _Predicted:
    columns = {name: values_N[rows_C] for name, values_N in found.columns.items()}
    return _Predicted(columns, found.refused[rows_C])


def _own(found: EstimateColumns, rows: Table, rows_C: IntArray) -> _Predicted:
    """Return the closed forms of some rows, which `found` has unless it simulated any."""
    if not found.simulated_N[rows_C].any():
        return _taken(found, rows_C)
    return _taken(estimate_columns(rows), np.arange(rows_C.size))


def _systems(cells: Sequence[Any], rows_N: IntArray) -> dict[str, dict[str, str]]:
    """Return, for each system of rows that changes fields, the systems without each change."""
    if isinstance(cells, DictionaryCells):
        texts = [cells.values[code] for code in np.unique(cells.codes_N[rows_N]).tolist()]
    else:
        texts = list(dict.fromkeys(cells[row] for row in rows_N.tolist())) if len(cells) else []
    changed = {
        text: _changes(text)
        for text in texts
        if isinstance(text, str) and ("{" in text or "." in text)
    }
    return {text: changes for text, changes in changed.items() if changes}


def _changes(text: str) -> dict[str, str]:
    try:
        return changed_fields(text)
    except PerfatlasError:
        return {}


def _rows(table: Table, rows_C: IntArray) -> dict[str, list[Any]]:
    """Return some rows with method formula."""
    rows = {name: [cells[row] for row in rows_C.tolist()] for name, cells in table.items()}
    return rows | {"method": ["formula"] * rows_C.size}


def _distinct(rows: Table) -> tuple[list[int], IntArray]:
    """Return the first of each set of equal rows, and the set that each row is in (C,)."""
    keys = list(zip(*rows.values(), strict=True))
    try:
        place = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    except TypeError:  # cells such as lists, which cannot be compared quickly
        return list(range(len(keys))), np.arange(len(keys))
    place_C = np.fromiter(map(place.__getitem__, keys), np.int64, len(keys))
    return np.unique(place_C, return_index=True)[1].tolist(), place_C


def _same(own: _Predicted, other: _Predicted) -> BoolArray:
    """Return where both predict the same values, ignoring intervals (C,)."""
    same_C: BoolArray = ~(own.refused | other.refused)
    for name in own.columns.keys() | other.columns.keys():
        if not name.endswith(("_low", "_high")):
            missing = np.full(same_C.size, np.nan)
            pair = [columns.columns.get(name, missing) for columns in (own, other)]
            same_C &= (pair[0] == pair[1]) | (np.isnan(pair[0]) & np.isnan(pair[1]))
    return same_C
