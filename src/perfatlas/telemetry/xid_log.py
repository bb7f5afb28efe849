"""NVIDIA Xid errors in kernel logs as events, repeats of one code on one GPU taken together.

Source: docs.nvidia.com/deploy/xid-errors; forms of lines as in its examples, with and without
"PCI:", with domains of four or eight digits, with MIG instances, with pid='<unknown>', and those of
NVLink 5 (144 to 150), which begin with a name and say Fatal or Nonfatal.
Limits: tested on lines written by hand after published ones; no log of a cluster was at hand.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from perfatlas.quantities import InvalidSpecError, shown
from perfatlas.telemetry.counts import Tally
from perfatlas.telemetry.history import NOTICE, Event, History, HistoryBuilder
from perfatlas.telemetry.kernel_lines import LineClock
from perfatlas.telemetry.lines import LogFile
from perfatlas.telemetry.places import refuse
from perfatlas.telemetry.stamps import Clock
from perfatlas.telemetry.xid_codes import xid_code

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from perfatlas.telemetry.kernel_lines import Stamp
    from perfatlas.telemetry.lines import Line

COALESCE_S: Final = 5.0
NO_HELP: Final = Clock()
_MARK: Final = "NVRM: Xid"
_XID: Final = re.compile(
    r"NVRM: Xid \((?:PCI:)?(?P<domain>[0-9a-fA-F]{4,8}):(?P<bus>[0-9a-fA-F]{2}):"
    r"(?P<slot>[0-9a-fA-F]{2})(?:\.[0-7])?(?: GPU-I:(?P<instance>\d+))?\): (?P<code>\d+)"
    r"(?:, (?P<rest>.*))?$"
)
_NVLINK5: Final = range(144, 151)
_NONFATAL: Final = re.compile(r"\bNon-?fatal\b", re.IGNORECASE)
_REPEAT: Final = "repeat of one code on one GPU"


def read_xid_log(
    paths: Sequence[str | Path],
    *,
    clock: Clock | Mapping[str, Clock] = NO_HELP,
    coalesce_s: float = COALESCE_S,
) -> History:
    """Return the Xid errors of kernel logs, in the order of the files given.

    Args:
        paths: Kernel logs; of one host rotated, or of many.
        clock: What the stamps of the lines leave out, one for all or by path.
        coalesce_s: A code that comes again on its GPU within so long of its last line is the same
            event [s]; 0 keeps each line. By assumption: one fault writes its lines within seconds.

    Raises:
        InvalidSpecError: A file cannot be read or ends inside an Xid line, or a stamp lacks what
            `clock` does not give; the message names file and line.

    Limits: A steady stream of one code with gaps below `coalesce_s` is one event however long it
        lasts. Lines of one GPU that are out of order by more than that start events of their own.
    """
    if not 0.0 <= coalesce_s < math.inf:
        raise InvalidSpecError(f"coalesce_s = {shown(coalesce_s)}; finite, at least 0 s")
    log = _XidLog(coalesce_s=coalesce_s)
    for path in paths:
        one = clock.get(str(path), NO_HELP) if isinstance(clock, Mapping) else clock
        log.read(path, one)
    return log.events.close()


@dataclass(kw_only=True)
class _XidLog:
    """Events so far, and when each code last came on each GPU."""

    coalesce_s: float
    events: HistoryBuilder = field(default_factory=HistoryBuilder)
    last_s: dict[tuple[str, str, int], float] = field(default_factory=dict)

    def read(self, path: str | Path, clock: Clock) -> None:
        file = LogFile(path)
        tally = Tally(path=path, unit="lines")
        line_clock = LineClock(clock)
        for line in file.lines():
            if _MARK not in line.text:
                tally.ignore("line without an Xid", line.number)
                continue
            if not line.valid:
                tally.repair("invalid UTF-8 shown as U+FFFD", line.number)
            match = _XID.search(line.text)
            if match is None:
                self._unread(path, line, tally)
                continue
            if not line.ended and match["rest"] is None:
                problem = "the last line has no line break, so its code may be cut off; add one"
                raise refuse(path, line.number, problem)
            try:
                stamp = line_clock.stamp(line.text)
            except InvalidSpecError as problem:
                raise refuse(path, line.number, str(problem)) from problem
            self._add(match, stamp, line, tally)
        self.events.end_file(tally.close(total=file.count, data_hash=file.data_hash))

    def _unread(self, path: str | Path, line: Line, tally: Tally) -> None:
        if not line.ended:
            raise refuse(path, line.number, f"the file was cut off inside {shown(line.text)}")
        tally.ignore("Xid line of an unknown form", line.number)

    def _add(self, match: re.Match[str], stamp: Stamp, line: Line, tally: Tally) -> None:
        code = xid_code(int(match["code"]))
        device = _device_of(match)
        key = (stamp.node, device, code.xid)
        before_s = self.last_s.get(key)
        self.last_s[key] = stamp.time_s
        if before_s is not None and 0.0 <= stamp.time_s - before_s < self.coalesce_s:
            tally.merge(_REPEAT, line.number)
            return
        if not code.title:
            tally.repair(f"Xid {code.xid} is not in the table, taken as unclear", line.number)
        nonfatal = code.xid in _NVLINK5 and _NONFATAL.search(match["rest"] or "")
        tally.parsed += 1
        self.events.add(
            Event(
                start_s=stamp.time_s,
                component=code.component,
                cause=code.cause,
                kind=NOTICE if nonfatal else code.kind,
                line=line.number,
                node=stamp.node,
                device=device,
                detected_s=stamp.time_s,
            )
        )


def _device_of(match: re.Match[str]) -> str:
    """Return the PCI address of a line, its domain in four digits or as many as it needs."""
    domain = f"{int(match['domain'], 16):04x}"
    address = f"{domain}:{match['bus'].lower()}:{match['slot'].lower()}"
    return f"{address}/{match['instance']}" if match["instance"] else address
