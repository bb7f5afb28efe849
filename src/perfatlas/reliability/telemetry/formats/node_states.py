"""States of Slurm nodes as events: which are unusable, and what their reason says."""

from __future__ import annotations

import re
from typing import Final

from perfatlas.reliability.telemetry.formats.reasons import reason_of
from perfatlas.reliability.telemetry.history import (
    FAILURE,
    NODE_STATE,
    PLANNED,
    PROCESS,
    UNCLEAR,
    Event,
    xid_code,
)

# Source: sinfo(1), NODE STATE CODES: a suffix (*, ~, #, !, %, $, @, ^, -) and flags joined by +.
_XID: Final = re.compile(r"\bxid\D{0,3}([0-9]{1,9})", re.IGNORECASE)
_FLAGS: Final = re.compile(r"[A-Z_]+")
_FAILED: Final = ("DOWN", "ERROR", "FAIL", "FAILING", "FAILG", "NOT_RESPONDING", "NO_RESPOND")
_DRAINED: Final = ("DRAIN", "DRAINED", "DRAINING", "DRNG")
_PLANNED: Final = ("MAINT", "MAINTENANCE", "REBOOT", "BOOT", "POWERED_DOWN", "POWER_DOWN", "FUTURE")


def node_event(
    node: str, start_s: float, end_s: float, state: str, reason: str, line: int
) -> Event | None:
    """Return a state of a node as an event, None where the node can run jobs.

    Args:
        start_s: Start of the state [s since 1970-01-01 UTC].
        end_s: End [s], NaN while it lasts.
        state: Such as DOWN*, IDLE+DRAIN or MAINT.
        reason: Reason of the state, "" for none.
        line: Line or record in the log.

    Limits: a reason that is not in data/telemetry/reasons.toml is a failure of a node that is down
        and unclear of one that is drained, as administrators drain for many purposes.

    Example:
        >>> from perfatlas.reliability.telemetry.formats.node_states import node_event
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
    told = reason_of("slurm", reason)
    cause = "down" if is_down else "drained"
    kind, action = (FAILURE if is_down else UNCLEAR), ""
    if told is not None:
        cause, kind, action = told
        action = action or _action_of_xid(kind, reason)
    if is_planned and not is_down:
        cause, kind, action = "maintenance", PLANNED, ""
    return Event(
        start_s=start_s,
        component=NODE_STATE,
        cause=cause,
        kind=kind,
        line=line,
        node=node,
        detected_s=start_s,
        recovered_s=end_s,
        action=action,
    )


def _action_of_xid(kind: str, reason: str) -> str:
    """Return the documented action of an Xid that a reason names, "" for none.

    A node that was taken out of service does not return with a restart of the program.
    """
    named = _XID.search(reason)
    action = xid_code(int(named[1])).action if named and kind == FAILURE else ""
    return "" if action == PROCESS else action
