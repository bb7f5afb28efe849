"""Service start times of units, from a table, as logs do not contain ages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.files import read_table
from perfatlas.quantities import InvalidSpecError, did_you_mean
from perfatlas.reliability.telemetry.reading import epoch_seconds, refuse

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from perfatlas.reliability.telemetry.history import ObservationWindow

_REQUIRED: Final = ("component", "node", "start")


def with_service_starts(
    watches: Mapping[str, ObservationWindow], path: str | Path
) -> dict[str, ObservationWindow]:
    """Return the observation windows with the service starts of a table.

    Args:
        path: A table with the columns component, node and start, and device where a node holds
            several: one row per unit, named as in the history. Starts are seconds since 1970-01-01
                UTC, or ISO 8601 text with time zone. Rows of components without failures have no
                effect.

    Raises:
        InvalidSpecError: The table cannot be read, lacks a column, repeats a unit, has no observed
            component, or a cell is invalid; the message names the row.
    """
    starts = _starts(path)
    if not starts.keys() & watches.keys():
        told = ", ".join(starts) or "none"
        problem = (
            f"none of its components ({told}) is among the observed ones: {', '.join(watches)}"
        )
        raise refuse(path, 0, problem)
    return {
        component: watch._replace(new_s={**watch.new_s, **starts.get(component, {})})
        for component, watch in watches.items()
    }


def _starts(path: str | Path) -> dict[str, dict[str, float]]:
    """Return the service start by component and unit [s since 1970-01-01 UTC]."""
    table = read_table(path)
    for name in _REQUIRED:
        if name not in table.columns:
            hint = did_you_mean(name, table.columns)
            raise refuse(path, 0, f"no column {name!r}{hint}; needed: {', '.join(_REQUIRED)}")
    cells = {name: table.cells(name) for name in table.columns}
    devices = cells.get("device", [None] * table.rows)
    starts: dict[str, dict[str, float]] = {}
    for row in range(table.rows):
        component, node, start = (cells[name][row] for name in _REQUIRED)
        for name, value in (("component", component), ("node", node)):
            if value in (None, ""):
                raise refuse(path, row + 1, "is empty", column=name, unit="row")
        unit = f"{node}/{devices[row]}" if devices[row] not in (None, "") else str(node)
        of_component = starts.setdefault(str(component), {})
        if unit in of_component:
            problem = f"{component} {unit} has two rows: expected one service start per unit"
            raise refuse(path, row + 1, problem, unit="row")
        try:
            of_component[unit] = epoch_seconds(start, None)
        except InvalidSpecError as problem:
            raise refuse(path, row + 1, str(problem), column="start", unit="row") from problem
    return starts
