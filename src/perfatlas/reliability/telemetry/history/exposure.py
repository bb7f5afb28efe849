"""Number and observation window of each component, from nodes and a window."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Final

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.telemetry.history.history import NODE_STATE
from perfatlas.reliability.telemetry.history.survival_intervals import ObservationWindow
from perfatlas.reliability.telemetry.reading import LogRecord, epoch_seconds, read_log_table, refuse

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from perfatlas.reliability.telemetry.history.history import History

OF_GPUS: Final = ("gpu", "hbm", "nvlink")  # components that exist once per GPU
OF_NODES: Final = ("host", "nvswitch", NODE_STATE)
JOB: Final = "job"
# Causes that a scheduler reports because a job ran on the node.
SEEN_UNDER_JOBS: Final = ("node_fail", "boot_fail", "launch_failed", "reconfig_fail")


def observation_windows(
    history: History,
    *,
    nodes: int,
    gpus_per_node: int,
    window_s: tuple[float, float],
    units: Mapping[str, int],
) -> dict[str, ObservationWindow]:
    """Return the observation window of every component of a history.

    Args:
        window_s: Start and end of the window [s since 1970-01-01 UTC].
        units: Number by component, where it is not one per GPU or per node.

    Raises:
        InvalidSpecError: A count is below 1, the window is empty, or the number of a component is
            unknown.
    """
    for name, count in {"nodes": nodes, "gpus_per_node": gpus_per_node, **units}.items():
        if count < 1:
            raise InvalidSpecError(f"{name} = {count}: expected 1 or more")
    counts = dict.fromkeys(OF_GPUS, nodes * gpus_per_node) | dict.fromkeys(OF_NODES, nodes)
    counts |= {JOB: 1, **units}
    if not window_s[1] > window_s[0]:
        raise InvalidSpecError(
            f"the observation window ends at {utc(window_s[1])}, not after its start at"
            f" {utc(window_s[0])}"
        )
    windows = {}
    for component in sorted(set(history.component.text()) | {"gpu"}):
        if component not in counts:
            raise InvalidSpecError(
                f"the history has events of component {component!r}: set their number with --units"
                f" {component}=NUMBER"
            )
        windows[component] = ObservationWindow(
            start_s=window_s[0], end_s=window_s[1], units=counts[component]
        )
    return windows


def utc(time_s: float) -> str:
    """Return a time [s since 1970-01-01 UTC] as ISO 8601 text in UTC, to the second.

    Example:
        >>> from perfatlas.reliability.telemetry.history import utc
        >>> utc(0.0)
        '1970-01-01T00:00:00Z'
    """
    return dt.datetime.fromtimestamp(time_s, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


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
    table = read_log_table(path, _REQUIRED)
    rows = zip(*(table.cells(name) for name in table.columns), strict=True)
    starts: dict[str, dict[str, float]] = {}  # by component and unit [s since 1970-01-01 UTC]
    for number, row in enumerate(rows, 1):
        record = LogRecord(path, number, dict(zip(table.columns, row, strict=True)), "row")
        component, node, device = (record.get(name) for name in ("component", "node", "device"))
        for name, value in (("component", component), ("node", node)):
            if value in (None, ""):
                raise record.wrong("is empty", name)
        unit = f"{node}/{device}" if device not in (None, "") else str(node)
        of_component = starts.setdefault(str(component), {})
        if unit in of_component:
            problem = f"{component} {unit} has two rows: expected one service start per unit"
            raise record.wrong(problem)
        of_component[unit] = record.read("start", epoch_seconds, None)
    if not starts.keys() & watches.keys():
        text = ", ".join(starts) or "none"
        problem = (
            f"none of its components ({text}) is among the observed ones: {', '.join(watches)}"
        )
        raise refuse(path, 0, problem)
    return {
        component: watch._replace(new_s={**watch.new_s, **starts.get(component, {})})
        for component, watch in watches.items()
    }
