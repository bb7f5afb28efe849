"""NVIDIA Xid errors in kernel logs as events, with repeats of a code on a GPU merged.

Source: docs.nvidia.com/deploy/xid-errors; line formats as in its examples, with and without
"PCI:", with domains of four or eight digits, with MIG instances, with pid='<unknown>', and NVLink 5
codes (144 to 150), which start with a name and Fatal or Nonfatal.
Limits: tested on hand-written lines based on published ones, as no cluster log was available.

`journalctl -o short-iso[-precise]` and rsyslog's RFC 5424 timestamps are complete; classic syslog
has no year and no time zone; `dmesg` counts from boot, `dmesg -T` has local time and no host.
Missing parts must be specified; they are not guessed.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.quantities import InvalidSpecError, repr_for_error
from perfatlas.reliability.telemetry import history, reading
from perfatlas.reliability.telemetry.formats.options import (
    COALESCE_S,
    NO_HELP,
    Imported,
    ImportOptions,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

FORMAT_NAME: Final = "xid"
_MARK: Final = "NVRM: Xid"
_XID: Final = re.compile(
    r"NVRM: Xid \((?:PCI:)?(?P<domain>[0-9a-fA-F]{4,8}):(?P<bus>[0-9a-fA-F]{2}):"
    r"(?P<slot>[0-9a-fA-F]{2})(?:\.[0-7])?(?: GPU-I:(?P<instance>\d+))?\): (?P<code>[0-9]{1,9})"
    r"(?:, (?P<rest>.*))?$"
)
_NVLINK5: Final = range(144, 151)
_NONFATAL: Final = re.compile(r"\bNon-?fatal\b", re.IGNORECASE)
_REPEAT: Final = "repeat of a code on the same GPU"


def read(paths: Sequence[str | Path], options: ImportOptions) -> Imported:
    """Return the history in logs of this format."""
    return Imported(read_xid_log(paths, clock=options.clock, coalesce_s=options.coalesce_s))


class _Fault(NamedTuple):
    """The content of a line, without its time."""

    node: str
    device: str  # PCI address, with a domain of at least four digits
    xid: int
    nonfatal: bool


def read_xid_log(
    paths: Sequence[str | Path],
    *,
    clock: reading.LogClock | Mapping[str, reading.LogClock] = NO_HELP,
    coalesce_s: float = COALESCE_S,
) -> history.History:
    """Return the Xid errors of kernel logs, independent of the order of files and lines.

    Args:
        paths: Kernel logs, rotated logs of one host or of many hosts.
        clock: Information that timestamps omit, for all or by path.
        coalesce_s: A code repeated on its GPU within this time of its last line is the same event
            [s]; 0 keeps each line. Assumption: a fault writes its lines within seconds.

    Limits: a steady stream of a code with gaps below `coalesce_s` is one event of any length.
        Timestamps without a year depend on the previous lines, which must be in order.
    """
    reading.check_time_span("coalesce_s", coalesce_s)
    code_of: dict[_Fault, int] = {}
    # 24 bytes a line with an Xid (L), and each distinct fault once
    time_s, fault, number = array("d"), array("q"), array("q")
    files: list[tuple[reading.FileCounts, int]] = []  # and the end of its lines
    for path in paths:
        log = reading.LogFile(path)
        own_clock = clock.get(str(path), NO_HELP) if isinstance(clock, Mapping) else clock
        line_clock = reading.LineClock(own_clock)
        for line in log.lines():
            match = _xid_match(log, line)
            if match is None:
                continue
            try:
                stamp_s, node = line_clock.stamp(line.text)
            except InvalidSpecError as problem:
                raise reading.refuse(path, line.number, str(problem)) from problem
            time_s.append(stamp_s)
            fault.append(code_of.setdefault(_fault(match, node), len(code_of)))
            number.append(line.number)
        files.append((log.close(), len(time_s)))
    faults = tuple(code_of)
    is_first_L = _first_lines(np.array(time_s), np.array(fault, np.int64), faults, coalesce_s)
    events, first = history.HistoryBuilder(), 0
    for tally, end in files:
        for row in range(first, end):
            if is_first_L[row]:
                events.add(_event(faults[fault[row]], time_s[row], number[row], tally))
            else:
                tally.merge(_REPEAT, number[row])
        first = end
        events.end_file(tally)
    return events.close()


def _xid_match(log: reading.LogFile, line: reading.LogLine) -> re.Match[str] | None:
    """Return the parts of a line with an Xid, or None and count the reason."""
    if _MARK not in line.text:
        log.tally.ignore("line without an Xid", line.number)
        return None
    if not line.valid:
        log.tally.repair(reading.INVALID_UTF8, line.number)
    match = _XID.search(line.text)
    if not line.ended and match is None:
        problem = f"the file is truncated inside {repr_for_error(line.text)}"
        raise reading.refuse(log.path, line.number, problem)
    if not line.ended and match is not None and match["rest"] is None:
        problem = "the last line has no line break, so its code may be truncated; add one"
        raise reading.refuse(log.path, line.number, problem)
    if match is None:
        log.tally.ignore("Xid line in an unknown format", line.number)
    return match


def _fault(match: re.Match[str], node: str) -> _Fault:
    xid = int(match["code"])
    device = f"{int(match['domain'], 16):04x}:{match['bus'].lower()}:{match['slot'].lower()}"
    if match["instance"]:
        device += f"/{match['instance']}"
    return _Fault(
        node, device, xid, xid in _NVLINK5 and bool(_NONFATAL.search(match["rest"] or ""))
    )


def _first_lines(
    time_s_L: NDArray[np.float64],
    fault_L: NDArray[np.int64],
    faults: Sequence[_Fault],
    coalesce_s: float,
) -> NDArray[np.bool_]:
    """Return the first lines of events (L,): no line with the same code and GPU shortly before.

    Lines are compared in time order, as logs may be rotated, joined or shuffled.
    """
    code_of: dict[tuple[str, str, int], int] = {}
    of_fault = [code_of.setdefault(fault[:3], len(code_of)) for fault in faults]
    code_L = np.array(of_fault, np.int64)[fault_L]
    order_L = np.lexsort((time_s_L, code_L))
    begins_L = np.ones(time_s_L.size, bool)
    again_L = np.diff(code_L[order_L]) == 0
    close_L = np.diff(time_s_L[order_L]) < coalesce_s
    begins_L[order_L[1:]] = ~(again_L & close_L)
    return begins_L


def _event(fault: _Fault, time_s: float, line: int, tally: reading.FileCounts) -> history.Event:
    code = history.xid_code(fault.xid)
    if not code.title:
        tally.repair(f"Xid {code.xid} is not in the table, marked unclear", line)
    tally.parsed += 1
    return history.Event(
        start_s=time_s,
        component=code.component,
        cause=code.cause,
        kind=history.NOTICE if fault.nonfatal else code.kind,
        line=line,
        node=fault.node,
        device=fault.device,
        detected_s=time_s,
        action=code.action,
    )
