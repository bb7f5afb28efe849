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

from perfatlas.quantities import repr_for_error
from perfatlas.reliability.telemetry import history, reading
from perfatlas.reliability.telemetry.formats.options import Imported, ImportOptions
from perfatlas.reliability.telemetry.formats.reasons import reason_of
from perfatlas.reliability.telemetry.formats.slurm_fields import UNKNOWN_TIMES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

FORMAT_NAME: Final = "slurm_events"
# Columns by the name that sacctmgr gives them, with other names.
_COLUMNS: Final = {
    "NodeName": ("NodeName", "Node"),
    "TimeStart": ("TimeStart", "Start"),
    "TimeEnd": ("TimeEnd", "End"),
    "State": ("State",),
    "Reason": ("Reason",),
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
        file = reading.LogFile(path)
        tally = file.tally
        for record in _records(file):
            event = _event(record, zone, tally)
            if event is None:
                continue
            key = (event.node, event.start_s)
            if key not in seen:
                seen[key] = builder.add(event)
                tally.parsed += 1
                continue
            tally.merge("newer record of an earlier state", record.number)
            if not math.isnan(event.recovered_s):
                builder.recover(seen[key], event.recovered_s)
        builder.end_file(file.close())
    return builder.close()


def _records(file: reading.LogFile) -> Iterator[reading.LogRecord]:
    """Yield the rows, with delimiters inside the reason restored."""
    lines = file.lines()
    names = next(lines).text.rstrip("|").split("|")
    index_of = {}
    for name, spellings in _COLUMNS.items():
        found = [names.index(spelling) for spelling in spellings if spelling in names]
        if not found:
            raise reading.refuse(file.path, 1, f"no column {name} in the first line; {_ASK}")
        index_of[name] = found[0]
    file.tally.ignore("header", 1)
    reason = index_of["Reason"]
    for line in lines:
        if not line.text.strip():
            file.tally.ignore("blank", line.number)
            continue
        if not line.valid:
            file.tally.repair(reading.INVALID_UTF8, line.number)
        cells = line.text.split("|")
        extra = len(cells) - len(names)
        if extra == 1 and not cells[-1]:  # -p ends each row with a delimiter
            cells, extra = cells[:-1], 0
        if extra < 0 or (extra and reason < max(index_of.values())):
            problem = f"a row of {len(cells)} fields where the header has {len(names)}; {_ASK}"
            raise reading.refuse(file.path, line.number, problem)
        cells[reason : reason + extra + 1] = ["|".join(cells[reason : reason + extra + 1])]
        fields = {name: cells[index].strip() for name, index in index_of.items()}
        yield reading.LogRecord(file.path, line.number, fields)


def _event(
    record: reading.LogRecord, zone: str | None, tally: reading.FileCounts
) -> history.Event | None:
    """Return the event of a row, or None and count the reason."""
    node, state = record.fields["NodeName"], record.fields["State"]
    if not node:
        tally.ignore("event of the whole cluster", record.number)
        return None
    start_s = record.read("TimeStart", _time_s, zone)
    end_s = record.read("TimeEnd", _time_s, zone)
    if math.isnan(start_s):
        raise record.wrong("is missing", "TimeStart")
    if end_s < start_s:
        raise record.wrong("is before the column 'TimeStart'", "TimeEnd")
    event = node_event(node, start_s, end_s, state, record.fields["Reason"], record.number)
    if event is None:
        tally.ignore(f"state {repr_for_error(state)} is usable", record.number)
    return event


def _time_s(text: str, zone: str | None) -> float:
    """Return a time [s since 1970-01-01 UTC], NaN where not recorded."""
    return history.NOT_TOLD if text.lower() in UNKNOWN_TIMES else reading.iso_seconds(text, zone)


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
