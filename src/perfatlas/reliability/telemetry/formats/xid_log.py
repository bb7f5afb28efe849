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

import datetime as dt
import math
import re
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.quantities import InvalidSpecError, repr_for_error
from perfatlas.reliability.telemetry import reading
from perfatlas.reliability.telemetry.formats.options import (
    COALESCE_S,
    NO_HELP,
    Imported,
    ImportOptions,
)
from perfatlas.reliability.telemetry.history import NOTICE, Event, History, HistoryBuilder, xid_code

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray


_ISO: Final = re.compile(
    r"(?:<\d+>(?:\d+ )?)?(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?"
    r"(?:Z|[+-]\d\d:?\d\d)?)(?: (?P<host>[\w.-]+)(?= \S*kernel))?"
)
_SYSLOG: Final = re.compile(
    r"(?:<\d+>)?(?P<month>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +(?P<day>\d{1,2}) "
    r"(?P<time>\d\d:\d\d:\d\d(?:\.\d+)?) (?P<host>[\w.-]+) "
)
_CTIME: Final = re.compile(
    r"(?:kern\s*:\s*\w+\s*:\s*)?\[(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (?P<time>[A-Z][a-z]{2} +\d{1,2} "
    r"\d\d:\d\d:\d\d \d{4})\]"
)
_UPTIME: Final = re.compile(r"(?:kern\s*:\s*\w+\s*:\s*)?(?:<\d+>)?\[ *(?P<seconds>\d+\.\d+)\]")
_KMSG: Final = re.compile(r"\d+,\d+,(?P<micros>[0-9]{1,18}),[^;]*;")
_MONTHS: Final = (
    "Jan",
    "Feb",
    "Mar",
    "Apr",
    "May",
    "Jun",
    "Jul",
    "Aug",
    "Sep",
    "Oct",
    "Nov",
    "Dec",
)


class Stamp(NamedTuple):
    """Time and host of a line."""

    time_s: float  # Time [s since 1970-01-01 UTC]
    node: str


class LineClock:
    """Parser of the timestamps of a log, in order: the year advances where months decrease.

    Args:
        clock: Information that the lines omit.
    """

    def __init__(self, clock: reading.LogClock) -> None:
        """Start before the first line."""
        self._clock = clock
        self._year = clock.year
        self._month = 0

    def stamp(self, text: str) -> Stamp:
        """Return time and host of a line."""
        if match := _ISO.match(text):
            return self._at(reading.iso_seconds(match["time"], self._clock.zone), match["host"])
        if match := _SYSLOG.match(text):
            return self._at(self._syslog(match), match["host"])
        if match := _CTIME.match(text):
            return self._at(self._ctime(match["time"]), None)
        if match := _KMSG.match(text):
            return self._at(self._boot_s() + int(match["micros"]) * 1e-6, None)
        if match := _UPTIME.match(text):
            return self._at(self._boot_s() + float(match["seconds"]), None)
        raise InvalidSpecError(f"no time at the start of {repr_for_error(text)}")

    def _at(self, time_s: float, host: str | None) -> Stamp:
        node = host or self._clock.node
        if not node:
            raise InvalidSpecError(
                "the line has no host; set the node (node, --node NAME), or write the log with"
                " journalctl -k -o short-iso"
            )
        return Stamp(reading.checked_s(time_s, time_s), node)

    def _boot_s(self) -> float:
        if self._clock.boot_s is None:
            raise InvalidSpecError(
                "the time counts from boot; set boot_s (--boot), the boot time [s since 1970 UTC]"
                " (the line btime of /proc/stat), or write the log with journalctl -k -o short-iso"
            )
        return self._clock.boot_s

    def _syslog(self, match: re.Match[str]) -> float:
        if self._year is None:
            raise InvalidSpecError(
                "the time has no year; set the year of the first line (year, --year 2026)"
            )
        month = _MONTHS.index(match["month"]) + 1
        # A line late by a day does not advance the year, December before January does.
        if self._month == 12 and month == 1:
            self._year += 1
        elif self._month == 1 and month == 12:
            self._year -= 1
        self._month = month
        stamp = f"{self._year}-{month:02}-{int(match['day']):02}T{match['time']}"
        return reading.iso_seconds(stamp, self._clock.zone)

    def _ctime(self, text: str) -> float:
        if self._clock.zone is None:
            raise InvalidSpecError(
                f"{repr_for_error(text)} has no time zone; set zone (--zone UTC)"
            )
        try:
            moment = dt.datetime.strptime(text, "%b %d %H:%M:%S %Y")  # noqa: DTZ007
        except ValueError as problem:
            raise InvalidSpecError(f"{repr_for_error(text)} is not a time") from problem
        return moment.replace(tzinfo=reading.zone_of(self._clock.zone)).timestamp()


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
    history = read_xid_log(paths, clock=options.clock, coalesce_s=options.coalesce_s)
    return Imported(history)


def read_xid_log(
    paths: Sequence[str | Path],
    *,
    clock: reading.LogClock | Mapping[str, reading.LogClock] = NO_HELP,
    coalesce_s: float = COALESCE_S,
) -> History:
    """Return the Xid errors of kernel logs, independent of the order of files and lines.

    Args:
        paths: Kernel logs, rotated logs of one host or of many hosts.
        clock: Information that timestamps omit, for all or by path.
        coalesce_s: A code repeated on its GPU within this time of its last line is the same event
            [s]; 0 keeps each line. Assumption: a fault writes its lines within seconds.

    Limits: a steady stream of a code with gaps below `coalesce_s` is one event of any length.
        Timestamps without a year depend on the previous lines, which must be in order.
    """
    if not 0.0 <= coalesce_s < math.inf:
        raise InvalidSpecError(
            f"coalesce_s = {repr_for_error(coalesce_s)}: expected a finite time, 0 s or more"
        )
    log = _XidLog()
    for path in paths:
        log.read(path, clock.get(str(path), NO_HELP) if isinstance(clock, Mapping) else clock)
    return log.close(coalesce_s)


class _Fault(NamedTuple):
    """The content of a line, without its time."""

    node: str
    device: str
    xid: int
    nonfatal: bool


@dataclass(kw_only=True)
class _XidLog:
    """The Xid lines so far, 24 bytes each, and each distinct content.

    Shape legend: L lines with an Xid, of all files.
    """

    faults: dict[_Fault, int] = field(default_factory=dict)
    time_s: array[float] = field(default_factory=lambda: array("d"))
    fault: array[int] = field(default_factory=lambda: array("q"))
    number: array[int] = field(default_factory=lambda: array("q"))
    files: list[tuple[reading.LogFile, reading.Tally, int]] = field(
        default_factory=list
    )  # and its first line

    def read(self, path: str | Path, clock: reading.LogClock) -> None:
        """Read the lines of a file."""
        file = reading.LogFile(path)
        tally = reading.Tally(path=path, unit="lines")
        self.files.append((file, tally, len(self.time_s)))
        line_clock = LineClock(clock)
        for line in file.lines():
            if _MARK not in line.text:
                tally.ignore("line without an Xid", line.number)
                continue
            if not line.valid:
                tally.repair("invalid UTF-8 shown as U+FFFD", line.number)
            match = _XID.search(line.text)
            if match is None:
                if not line.ended:
                    problem = f"the file is truncated inside {repr_for_error(line.text)}"
                    raise reading.refuse(path, line.number, problem)
                tally.ignore("Xid line in an unknown format", line.number)
                continue
            if not line.ended and match["rest"] is None:
                problem = "the last line has no line break, so its code may be truncated; add one"
                raise reading.refuse(path, line.number, problem)
            try:
                stamp = line_clock.stamp(line.text)
            except InvalidSpecError as error:
                raise reading.refuse(path, line.number, str(error)) from error
            self._keep(match, stamp, line.number)

    def close(self, coalesce_s: float) -> History:
        """Return the events, each with its first line; other lines are merged."""
        time_s_L = np.array(self.time_s, np.float64)
        is_first_L = self._first_lines(time_s_L, coalesce_s)
        faults = tuple(self.faults)
        events = HistoryBuilder()
        ends = [first for _, _, first in self.files[1:]] + [len(time_s_L)]
        for (file, tally, first), end in zip(self.files, ends, strict=True):
            for row in range(first, end):
                if is_first_L[row]:
                    self._add(events, row, faults[self.fault[row]], tally)
                else:
                    tally.merge(_REPEAT, self.number[row])
            events.end_file(tally.close(total=file.count, data_hash=file.data_hash))
        return events.close()

    def _first_lines(self, time_s_L: NDArray[np.float64], coalesce_s: float) -> NDArray[np.bool_]:
        """Return the first lines of events: no line with the same code and GPU shortly before.

        Lines are compared in time order, as logs may be rotated, joined or shuffled.
        """
        code_of: dict[tuple[str, str, int], int] = {}
        of_fault = [code_of.setdefault(fault[:3], len(code_of)) for fault in self.faults]
        code_L = np.array(of_fault, np.int64)[np.array(self.fault, np.int64)]
        order_L = np.lexsort((time_s_L, code_L))
        begins_L = np.ones(time_s_L.size, bool)
        again_L = np.diff(code_L[order_L]) == 0
        close_L = np.diff(time_s_L[order_L]) < coalesce_s
        begins_L[order_L[1:]] = ~(again_L & close_L)
        return begins_L

    def _keep(self, match: re.Match[str], stamp: Stamp, number: int) -> None:
        xid = int(match["code"])
        nonfatal = xid in _NVLINK5 and _NONFATAL.search(match["rest"] or "") is not None
        fault = _Fault(stamp.node, _device_of(match), xid, nonfatal)
        self.time_s.append(stamp.time_s)
        self.fault.append(self.faults.setdefault(fault, len(self.faults)))
        self.number.append(number)

    def _add(self, events: HistoryBuilder, row: int, fault: _Fault, tally: reading.Tally) -> None:
        code = xid_code(fault.xid)
        if not code.title:
            text = f"Xid {code.xid} is not in the table, marked unclear"
            tally.repair(text, self.number[row])
        tally.parsed += 1
        events.add(
            Event(
                start_s=self.time_s[row],
                component=code.component,
                cause=code.cause,
                kind=NOTICE if fault.nonfatal else code.kind,
                line=self.number[row],
                node=fault.node,
                device=fault.device,
                detected_s=self.time_s[row],
                action=code.action,
            )
        )


def _device_of(match: re.Match[str]) -> str:
    """Return the PCI address of a line, with a domain of at least four digits."""
    domain = f"{int(match['domain'], 16):04x}"
    address = f"{domain}:{match['bus'].lower()}:{match['slot'].lower()}"
    return f"{address}/{match['instance']}" if match["instance"] else address
