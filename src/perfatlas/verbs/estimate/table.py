"""`estimate` for tables: one scenario per row, answered as plain columns with texts.

Shape legend: N rows, C some of them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.answer import SYSTEMS, Answer, AnsweredRun, Evidence, no_effect, tier_names
from perfatlas.files import DictionaryCells
from perfatlas.hardware import changed_fields
from perfatlas.inference import number_cells
from perfatlas.operators import BOUND_NAMES
from perfatlas.pricing import TIERS
from perfatlas.quantities import PerfatlasError
from perfatlas.scenario.deployments import LEAVES_OUT
from perfatlas.scenario.resolution import resolve
from perfatlas.verbs.estimate.columns import EstimateColumns, answered_groups, estimate_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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


# columns of a table that the points of a frontier do not have
NOT_OF_POINTS: Final = ("error", "error_code")


@dataclass(frozen=True, kw_only=True)
class TableAnswer(AnsweredRun):
    """Answers of a table; `results` contains row counts.

    Args:
        cells: Result columns, `tier`, `prefill_bound` and `decode_bound` (what binds most of the
            step), `warnings` of each row as one text, `error_code` and `error`; failed rows
            contain None (N,). In tier bound, times are lower limits and rates are upper
            limits: the other end of their interval is None. Numbers are kept as arrays.
    """

    cells: dict[str, Sequence[Any]]

    @cached_property
    def columns(self) -> dict[str, list[Any]]:
        """The answers of all rows as columns of plain values, each (N,)."""
        return {name: list(cells) for name, cells in self.cells.items()}


def estimate_table(
    table: Mapping[str, Sequence[Any]], progress: Callable[[int, int], None] | None = None
) -> TableAnswer:
    """Return the estimates of all rows; failed rows contain their error.

    Args:
        table: Columns by name; names of the vocabulary are read, others are ignored. None, NaN
            and empty text mean "not given".
        progress: Called before each simulated row with how many of a block are simulated, and how
            many will be.

    Raises:
        InvalidSpecError: A column is not a list, or columns differ in length.

    Limits: A row that method simulate or auto simulates takes up to seconds where its steps have
        prices of their own (another plan, clock or limit), and some milliseconds otherwise; method
        formula answers 10,000 rows in seconds.

    Example:
        >>> from perfatlas.verbs.estimate import estimate_table
        >>> rows = {"model": ["meta-llama/Llama-3.1-8B"] * 2, "system": ["h200_sxm", "h2000"]}
        >>> estimate_table(rows).columns["error_code"]
        ['', 'invalid']
    """
    found = EstimateColumns(resolve(table), progress)
    warnings, codes, errors = ([""] * found.resolution.size for _ in range(3))
    for group in answered_groups(found):
        for row, texts in zip(group.rows_C.tolist(), group.warnings(), strict=True):
            if texts:
                note = "; ".join(texts)
                warnings[row] = note.replace(LEAVES_OUT, "") if found.simulated_N[row] else note
    unused = unused_changes_of_rows(table, found)
    for row, text in found.unused_prices.items():
        unused[row] = [text, *unused.get(row, ())]
    for row, notes in unused.items():
        warnings[row] = "; ".join(filter(None, (warnings[row], *notes)))
    refusals = found.resolution.refusals
    for row in refusals.rows():
        error = refusals.error(row)
        codes[row], errors[row] = error.error_code, str(error)
    columns = {name: number_cells(name, values) for name, values in found.columns.items()}
    failed = int(found.refused.sum())
    answer = Answer(
        command="estimate --table",
        scenario={},
        results={
            "rows": found.resolution.size,
            "answered": found.resolution.size - failed,
            "failed": failed,
            "operators_priced": found.rows_priced,
            "distinct_shapes": found.distinct_shapes,
        },
        breakdown=[],
        evidence=Evidence(tier=""),
    )
    cells: dict[str, Sequence[Any]] = {**columns, **_what_binds(found)}
    status = {"warnings": warnings, "error_code": codes, "error": errors}
    cells |= {name: DictionaryCells.of(texts) for name, texts in status.items()}
    return TableAnswer(answer=answer, cells=cells)


def simulated_points(tell: Callable[[str], None]) -> Callable[[int, int], None]:
    """Return the progress of a table whose rows are the points of a frontier.

    Args:
        tell: Receives a line before each simulated point.

    Example:
        >>> from perfatlas.verbs.estimate.table import simulated_points
        >>> simulated_points(print)(0, 33)
        simulating 33 points, as prompts queue; method = formula leaves queues out and takes seconds
    """
    started_s = time.monotonic()

    def progress(done: int, count: int) -> None:
        nonlocal started_s
        if not done:
            started_s = time.monotonic()
            tell(
                f"simulating {count} points, as prompts queue; method = formula leaves queues out"
                " and takes seconds"
            )
            return
        left_s = (time.monotonic() - started_s) * (count - done) / done
        tell(f"{done} of {count} points simulated, about {left_s:.0f} s left")

    return progress


def _what_binds(found: EstimateColumns) -> dict[str, DictionaryCells]:
    """Return the tier of each row and what binds its steps, empty in failed rows."""
    tiers = tuple(tier_names(np.arange(sum(TIERS.values()) + 1)))
    columns = {"tier": (tiers, found.tier_codes_N)}
    columns |= {f"{p}_bound": (BOUND_NAMES, codes_N) for p, codes_N in found.bound_codes_N.items()}
    return {
        name: DictionaryCells(
            values=(*names, "", None),  # "" is the last but one: rows without a priced step
            codes_N=np.where(found.refused, len(names) + 1, codes_N % (len(names) + 1)),
        )
        for name, (names, codes_N) in columns.items()
    }


def estimate_cells(table: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """Return the answers of all rows as columns, numbers among them as arrays.

    Args:
        table: As for `estimate_table`.
    """
    return estimate_table(table).cells
