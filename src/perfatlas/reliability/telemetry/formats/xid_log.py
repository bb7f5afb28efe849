"""NVIDIA Xid and SXid errors in kernel logs as events, with repeats of a code on a GPU merged.

Source: docs.nvidia.com/deploy/xid-errors; line formats as in its examples, with and without
"PCI:", with domains of four or eight digits, with MIG instances, with pid='<unknown>', and NVLink 5
codes (144 to 150), which start with a name and Fatal or Nonfatal. GPUs that drivers report off the
bus without an Xid, in one line or in three, as in kernel-open/nvidia/nv.c of
NVIDIA/open-gpu-kernel-modules, are Xid 79. SXid errors of NVSwitches, as in the Fabric Manager user
guide: a fatal one stops the NVLinks of its node until GPUs and NVSwitches are reset with it.
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
_ADDRESS: Final = (
    r"(?P<domain>[0-9a-fA-F]{4,8}):(?P<bus>[0-9a-fA-F]{2}):(?P<slot>[0-9a-fA-F]{2})(?:\.[0-7])?"
)
_XID: Final = re.compile(
    rf"NVRM: Xid \((?:PCI:)?{_ADDRESS}(?: GPU-I:(?P<instance>\d+))?\): (?P<code>[0-9]{{1,9}})"
    r"(?:, (?P<rest>.*))?$"
)
_SXID: Final = re.compile(
    rf"SXid \((?:PCI:)?{_ADDRESS}\): (?P<code>[0-9]{{1,9}}), (?P<severity>Fatal|Non-fatal),"
)
# A GPU off the bus, whose address stands in the line or, as `_GPU`, in the line before the last.
_OFF_BUS: Final = re.compile(
    rf"NVRM: (?:GPU (?:at )?(?:PCI:)?{_ADDRESS}: )?(?:GPU has )?fallen off the bus\b"
)
_GPU: Final = re.compile(rf"NVRM: The NVIDIA GPU (?:PCI:)?{_ADDRESS}\s*$")
_PATTERNS: Final = {
    "NVRM: Xid": _XID,
    "SXid (": _SXID,
    "off the bus": _OFF_BUS,
    "NVRM: The NVIDIA GPU": _GPU,
}
_OFF_BUS_XID: Final = 79
_MESSAGE_S: Final = 60.0  # within which the lines of a message are logged
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
    is_switch: bool = False  # Whether the code is an SXid


def read_xid_log(
    paths: Sequence[str | Path],
    *,
    clock: reading.LogClock | Mapping[str, reading.LogClock] = NO_HELP,
    coalesce_s: float = COALESCE_S,
) -> history.History:
    """Return the Xid and SXid errors of kernel logs, independent of the order of files and lines.

    Args:
        paths: Kernel logs, rotated logs of one host or of many hosts.
        clock: Information that timestamps omit, for all or by path.
        coalesce_s: A code repeated on its GPU within this time of its last line is the same event
            [s]; 0 keeps each line. Assumption: a fault writes its lines within seconds.

    Limits: a steady stream of a code with gaps below `coalesce_s` is one event of any length.
        Timestamps without a year depend on the previous lines, which must be in order, and so does
        the address of a GPU off the bus that is reported in three lines.
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
        gpu: re.Match[str] | None = None  # The last GPU that a line names alone
        for line in log.lines():
            match = _match(log, line)
            if match is None or match.re is _GPU:
                gpu = match or gpu
                continue
            try:
                stamp_s, node, match = _stamped(match, gpu, line_clock)
            except InvalidSpecError as problem:
                raise reading.refuse(path, line.number, str(problem)) from problem
            time_s.append(stamp_s)
            fault.append(code_of.setdefault(_fault(match, node), len(code_of)))
            number.append(line.number)
        files.append((log.close(), len(time_s)))
    faults = tuple(code_of)
    is_first_L = _first_lines(np.array(time_s), np.array(fault, np.int64), coalesce_s)
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


def _match(log: reading.LogFile, line: reading.LogLine) -> re.Match[str] | None:
    """Return the parts of a line with an error or of `_GPU`, and count those without an error."""
    text, pattern = line.text, None
    if "NVRM" in text or "SXid" in text:  # few lines of a kernel log
        pattern = next((pattern for mark, pattern in _PATTERNS.items() if mark in text), None)
    match = pattern.search(text) if pattern else None
    if pattern is None or pattern is _GPU or (match is None and pattern is _OFF_BUS):
        log.tally.ignore("line without an Xid", line.number)
        return match
    if not line.valid:
        log.tally.repair(reading.INVALID_UTF8, line.number)
    if pattern is _SXID and match is None:
        log.tally.ignore("SXid line without a severity", line.number)
    if pattern is not _XID:
        return match
    if not line.ended and match is None:
        problem = f"the file is truncated inside {repr_for_error(line.text)}"
        raise reading.refuse(log.path, line.number, problem)
    if not line.ended and match is not None and match["rest"] is None:
        problem = "the last line has no line break, so its code may be truncated; add one"
        raise reading.refuse(log.path, line.number, problem)
    if match is None:
        log.tally.ignore("Xid line in an unknown format", line.number)
    return match


def _stamped(
    match: re.Match[str], gpu: re.Match[str] | None, clock: reading.LineClock
) -> tuple[float, str, re.Match[str]]:
    """Return time [s since 1970] and host of an error, and the match with its address."""
    if match.re is not _OFF_BUS or match["bus"] or gpu is None:
        return *clock.stamp(match.string), match
    named_s, node = clock.stamp(gpu.string)
    try:
        stamp_s, own_node = clock.stamp(match.string)
    except InvalidSpecError:  # lines of a message after its first may have no time
        return named_s, node, gpu
    is_same = own_node == node and abs(stamp_s - named_s) <= _MESSAGE_S
    return stamp_s, own_node, gpu if is_same else match


def _fault(match: re.Match[str], node: str) -> _Fault:
    if match.re is _SXID:
        is_nonfatal = match["severity"] != "Fatal"
        return _Fault(node, "", int(match["code"]), is_nonfatal, is_switch=True)
    is_xid = match.re is _XID
    xid = int(match["code"]) if is_xid else _OFF_BUS_XID
    if not match["bus"]:
        return _Fault(node, "", xid, nonfatal=False)
    device = f"{int(match['domain'], 16):04x}:{match['bus'].lower()}:{match['slot'].lower()}"
    if is_xid and match["instance"]:
        device += f"/{match['instance']}"
    nonfatal = xid in _NVLINK5 and bool(_NONFATAL.search(match["rest"] or ""))
    return _Fault(node, device, xid, nonfatal)


def _first_lines(
    time_s_L: NDArray[np.float64],
    fault_L: NDArray[np.int64],
    coalesce_s: float,
) -> NDArray[np.bool_]:
    """Return the first lines of events (L,): no line with the same code and GPU shortly before.

    Lines are compared in time order, as logs may be rotated, joined or shuffled.
    """
    order_L = np.lexsort((time_s_L, fault_L))
    begins_L = np.ones(time_s_L.size, bool)
    again_L = np.diff(fault_L[order_L]) == 0
    close_L = np.diff(time_s_L[order_L]) < coalesce_s
    begins_L[order_L[1:]] = ~(again_L & close_L)
    return begins_L


def _event(fault: _Fault, time_s: float, line: int, tally: reading.FileCounts) -> history.Event:
    code = history.xid_code(_OFF_BUS_XID if fault.is_switch else fault.xid)  # which a reboot ends
    if not code.title:
        tally.repair(f"Xid {code.xid} is not in the table, marked unclear", line)
    tally.parsed += 1
    return history.Event(
        start_s=time_s,
        component="nvswitch" if fault.is_switch else code.component,
        cause=f"sxid_{fault.xid}" if fault.is_switch else code.cause,
        kind=history.NOTICE if fault.nonfatal else code.kind,
        line=line,
        node=fault.node,
        device=fault.device,
        detected_s=time_s,
        action="" if fault.is_switch and fault.nonfatal else code.action,
    )
