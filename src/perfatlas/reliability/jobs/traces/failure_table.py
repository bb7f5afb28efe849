"""A user's table of node failures: time, node and repair time.

Shape legend: X failures, L rows of the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.files import Number
from perfatlas.quantities import counted
from perfatlas.reliability.jobs.model import MAX_INPUT_TICKS, TICKS_PER_SECOND, Failures, ticks
from perfatlas.reliability.jobs.traces.cells import Cells

if TYPE_CHECKING:
    from pathlib import Path

REQUIRED: Final = ("time_s", "node", "repair_s")
OPTIONAL: Final = ("width", "drain")
MAX_S: Final = MAX_INPUT_TICKS / TICKS_PER_SECOND
LATEST_S: Final = 1e12


class FailureList(NamedTuple):
    """Failures of a table."""

    # Failures from the first submission on, in time order; nodes that are down then fail at 0, for
    # the rest of their repair
    failures: Failures
    before: int  # Number of failures that ended before it and are excluded
    out: int  # Number of failures before it that have not ended


def read_failures(path: str | Path, *, nodes: int, start_s: float = 0.0) -> FailureList:
    """Return the failures of a table.

    Columns: time_s [s, in the clock of the jobs], node (from 0), repair_s [s], empty for never; and
        optionally width (consecutive nodes that fail together), drain (whether running jobs may end
        first).

    Args:
        path: The file; its extension determines the format.
        start_s: Time of the first submission in the clock of the table [s].

    Raises:
        InvalidSpecError: The file cannot be read, a column is missing, or a cell is invalid; names
            its row.
    """
    cells = Cells(path, "failure list", REQUIRED, OPTIONAL)
    time_L = cells.numbers("time_s", Number(unit="s", least=0.0, most=LATEST_S)) - start_s
    node_L = cells.numbers("node", Number(least=0, most=nodes - 1, whole=True))
    repair_L = cells.numbers("repair_s", Number(unit="s", least=0.0, most=MAX_S))
    width_L = np.ones(cells.size)
    if "width" in cells.columns:
        width_L = np.nan_to_num(
            cells.numbers("width", Number(least=1, most=nodes, whole=True)), nan=1.0
        )
    drain_L = np.zeros(cells.size, bool)
    if "drain" in cells.columns:
        drain_L = cells.switches("drain", empty=False)
    for name, value_L in (("time_s", time_L), ("node", node_L)):
        if np.isnan(value_L).any():
            raise cells.wrong(int(np.argmax(np.isnan(value_L))), f"{name} is empty")
    for bad_L, problem in (
        (node_L + width_L > nodes, f"width exceeds the {counted(nodes, 'node')}"),
        (time_L > MAX_S, f"more than {MAX_S:g} s after the first job"),
    ):
        if bad_L.any():
            raise cells.wrong(int(np.argmax(bad_L)), problem)
    over_L = (time_L < 0.0) & ~np.isnan(repair_L) & (time_L + repair_L <= 0.0)
    at_X = np.flatnonzero(~over_L)
    at_X = at_X[np.argsort(time_L[at_X], kind="stable")]
    repair_X = repair_L[at_X] + np.minimum(time_L[at_X], 0.0)
    failures = Failures(
        time_X=ticks(np.maximum(time_L[at_X], 0.0)),
        node_X=node_L[at_X].astype(np.int64),
        repair_X=np.where(np.isnan(repair_X), -1, ticks(np.nan_to_num(repair_X))),
        width_X=width_L[at_X].astype(np.int64),
        drain_X=drain_L[at_X],
    )
    return FailureList(failures, int(over_L.sum()), int((time_L[at_X] < 0.0).sum()))
