"""Node states in Slurm's accounting as failures with their repairs: `sacctmgr show event -P`.

Source: src/sacctmgr/event_functions.c of SchedMD/slurm@9973db6: the columns Cluster, NodeName,
    TimeStart, TimeEnd, State, Reason and User; a state that lasts has the end Unknown.
Limits: tested on hand-written rows, as no output of a cluster was available. Without `all_time` or
    `start=` the command reports one day.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

from perfatlas.quantities import InvalidSpecError, repr_for_error
from perfatlas.reliability.telemetry import history
from perfatlas.reliability.telemetry.formats.options import Imported, ImportOptions
from perfatlas.reliability.telemetry.formats.reasons import reason_of
from perfatlas.reliability.telemetry.formats.slurm_fields import UNKNOWN_TIMES
from perfatlas.reliability.telemetry.reading import LogFile, Tally, iso_seconds, refuse

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from perfatlas.reliability.telemetry.reading import LogLine

FORMAT_NAME: Final = "slurm_events"
_COLUMNS: Final = {
    "node": ("NodeName", "Node"),
    "start": ("TimeStart", "Start"),
    "end": ("TimeEnd", "End"),
    "state": ("State",),
    "reason": ("Reason",),
}
_ASK: Final = (
    "write the log with: sacctmgr -P show event all_time"
    " format=NodeName,TimeStart,TimeEnd,State,Reason"
)


def read(paths: Sequence[str | Path], options: ImportOptions) -> Imported:
    """Return the history in logs of this format."""
    return Imported(read_slurm_events(paths, zone=options.clock.zone))


def read_slurm_events(paths: Sequence[str | Path], *, zone: str | None) -> history.History:
    """Return the states in which nodes were not usable, each with its end as recovery."""
    builder = history.HistoryBuilder()
    seen: dict[tuple[str, float], int] = {}
    for path in paths:
        file = LogFile(path)
        tally = Tally(path=path, unit="lines")
        lines = file.lines()
        index_of, width = _header(path, next(lines), tally)
        for line in lines:
            if not line.text.strip():
                tally.ignore("blank", line.number)
                continue
            if not line.valid:
                tally.repair("invalid UTF-8 shown as U+FFFD", line.number)
            _add(builder, seen, _Row(path, line, index_of, width, zone), tally)
        builder.end_file(tally.close(total=file.count, data_hash=file.data_hash))
    return builder.close()


def _header(path: str | Path, line: LogLine, tally: Tally) -> tuple[dict[str, int], int]:
    """Return the index of each column, and the number of columns."""
    names = line.text.rstrip("|").split("|")
    index_of = {}
    for key, spelled in _COLUMNS.items():
        columns = [names.index(name) for name in spelled if name in names]
        if not columns:
            raise refuse(path, 1, f"no column {spelled[0]} in the first line; {_ASK}")
        index_of[key] = columns[0]
    tally.ignore("header", 1)
    return index_of, len(names)


class _Row:
    """A row, with delimiters inside the reason restored."""

    def __init__(
        self,
        path: str | Path,
        line: LogLine,
        index_of: dict[str, int],
        width: int,
        zone: str | None,
    ) -> None:
        self.path = path
        self.line = line
        self.zone = zone
        cells = line.text.split("|")
        extra = len(cells) - width
        if extra == 1 and not cells[-1]:  # -p ends each row with a delimiter
            cells, extra = cells[:-1], 0
        if extra < 0 or (extra and index_of["reason"] < max(index_of.values())):
            problem = f"a row of {len(cells)} fields where the header has {width}; {_ASK}"
            raise refuse(path, line.number, problem)
        at = index_of["reason"]
        cells[at : at + extra + 1] = ["|".join(cells[at : at + extra + 1])]
        self.cells = {key: cells[index].strip() for key, index in index_of.items()}

    def time_s(self, key: str) -> float:
        """Return a time [s since 1970-01-01 UTC], NaN where not recorded."""
        text = self.cells[key]
        if text.lower() in UNKNOWN_TIMES:
            return history.NOT_TOLD
        try:
            return iso_seconds(text, self.zone)
        except InvalidSpecError as problem:
            column = _COLUMNS[key][0]
            raise refuse(self.path, self.line.number, str(problem), column=column) from problem


def _add(
    builder: history.HistoryBuilder, seen: dict[tuple[str, float], int], row: _Row, tally: Tally
) -> None:
    number, node = row.line.number, row.cells["node"]
    if not node:
        tally.ignore("event of the whole cluster", number)
        return
    start_s, end_s = row.time_s("start"), row.time_s("end")
    if not start_s >= 0.0:
        raise refuse(row.path, number, "is missing", column="TimeStart")
    if end_s < start_s:
        raise refuse(row.path, number, "is before the column 'TimeStart'", column="TimeEnd")
    event = node_event(node, start_s, end_s, row.cells["state"], row.cells["reason"], number)
    if event is None:
        tally.ignore(f"state {repr_for_error(row.cells['state'])} is usable", number)
        return
    key = (node, start_s)
    if key in seen:
        tally.merge("newer record of an earlier state", number)
        if not math.isnan(end_s):
            builder.recover(seen[key], end_s)
        return
    seen[key] = builder.add(event)
    tally.parsed += 1


# Source: sinfo(1), NODE STATE CODES: a suffix (*, ~, #, !, %, $, @, ^, -) and flags joined by +.
_XID: Final = re.compile(r"\bxid\D{0,3}([0-9]{1,9})", re.IGNORECASE)
_FLAGS: Final = re.compile(r"[A-Z_]+")
_FAILED: Final = ("DOWN", "ERROR", "FAIL", "FAILING", "FAILG", "NOT_RESPONDING", "NO_RESPOND")
_DRAINED: Final = ("DRAIN", "DRAINED", "DRAINING", "DRNG")
_PLANNED: Final = ("MAINT", "MAINTENANCE", "REBOOT", "BOOT", "POWERED_DOWN", "POWER_DOWN", "FUTURE")


def node_event(
    node: str, start_s: float, end_s: float, state: str, reason: str, line: int
) -> history.Event | None:
    """Return a state of a node as an event, None where the node can run jobs.

    Args:
        start_s: Start of the state [s since 1970-01-01 UTC].
        state: Such as DOWN*, IDLE+DRAIN or MAINT.
        reason: Reason of the state, "" for none.
        line: Line or record in the log.

    Limits: a reason that is not in data/telemetry/reasons.toml is a failure of a node that is down
        and unclear of one that is drained, as administrators drain for many purposes.

    Example:
        >>> from perfatlas.reliability.telemetry.formats.slurm_events import node_event
        >>> node_event("n1", 0.0, 60.0, "DOWN*", "Not responding", 2).cause
        'not_responding'
        >>> node_event("n1", 0.0, 60.0, "IDLE", "", 2) is None
        True
    """
    flags = set(_FLAGS.findall(state.upper()))
    is_down, is_drained = bool(flags & set(_FAILED)), bool(flags & set(_DRAINED))
    is_planned = bool(flags & set(_PLANNED))
    if not (is_down or is_drained or is_planned):
        return None
    entry = reason_of("slurm", reason)
    cause = "down" if is_down else "drained"
    kind, action = (history.FAILURE if is_down else history.UNCLEAR), ""
    if entry is not None:
        cause, kind, action = entry
        named = _XID.search(reason) if kind == history.FAILURE else None
        if named and not action:
            action = history.xid_code(int(named[1])).action
            if action == history.PROCESS:  # a node out of service does not return with a restart
                action = ""
    if is_planned and not is_down:
        cause, kind, action = "maintenance", history.PLANNED, ""
    return history.Event(
        start_s=start_s,
        component=history.NODE_STATE,
        cause=cause,
        kind=kind,
        line=line,
        node=node,
        detected_s=start_s,
        recovered_s=end_s,
        action=action,
    )
