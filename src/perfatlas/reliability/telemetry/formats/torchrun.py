"""Failures of training jobs in the output of torchrun, with the NCCL messages before them.

Source: the summary of torch.distributed.elastic.multiprocessing.errors (pytorch/pytorch#66182): the
    title "NAME FAILED", then the section "Root Cause (first observed failure)" with time (local, as
    2021-10-05_17:37:22), host, rank, exitcode and pid. A negative exitcode is a signal.
Limits: tested on hand-written logs based on published ones. Every agent writes its own summary, so
    that summaries of one job within a minute are one failure. A summary names the first error that
    its agent saw, which may be an effect of a failure elsewhere.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from perfatlas.quantities import InvalidSpecError, repr_for_error
from perfatlas.reliability.telemetry.formats.options import NO_HELP, Imported, ImportOptions
from perfatlas.reliability.telemetry.formats.reasons import Reason, reason_of
from perfatlas.reliability.telemetry.history import (
    EFFECT,
    JOB,
    PROCESS,
    UNCLEAR,
    Event,
    History,
    HistoryBuilder,
)
from perfatlas.reliability.telemetry.reading import Clock, LogFile, Tally, iso_seconds, refuse

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from perfatlas.reliability.telemetry.reading import Line

FORMAT_NAME: Final = "torchrun"
SAME_S: Final = 60.0
_TITLE: Final = re.compile(r"(?:^|\s)(\S+) FAILED\s*$")
_ROOT: Final = re.compile(r"Root Cause \(first observed failure\)")
_FIELD: Final = re.compile(r"\b(time|host|rank|exitcode)\s*:\s*(\S+)")
_ORDER: Final = ("time", "host", "rank", "exitcode")
_STOPPED: Final = ("sigterm", "sigint", "sighup")  # asked to stop, by a scheduler or another agent


def read(paths: Sequence[str | Path], options: ImportOptions) -> Imported:
    """Return the history in logs of this format.

    Args:
        options: The time zone.

    Raises:
        InvalidSpecError: A log is invalid.
    """
    return Imported(read_torchrun(paths, clock=options.clock))


def read_torchrun(paths: Sequence[str | Path], *, clock: Clock = NO_HELP) -> History:
    """Return the failures that torchrun reports.

    Args:
        paths: Outputs of one or more agents, in time order.
        clock: Time zone of the times.

    Raises:
        InvalidSpecError: A file cannot be read, ends inside a summary, or a field of a summary is
            invalid; the message names file, line and field.
    """
    builder = HistoryBuilder()
    latest: dict[str, float] = {}
    for path in paths:
        file = LogFile(path)
        reader = _Reader(path=path, clock=clock, tally=Tally(path=path, unit="lines"))
        for line in file.lines():
            if not line.valid:
                reader.tally.repair("invalid UTF-8 shown as U+FFFD", line.number)
            event = reader.add(line)
            if event is None:
                continue
            before_s = latest.get(event.job)
            if before_s is not None and abs(event.start_s - before_s) < SAME_S:
                reader.tally.merge("summary of another agent", line.number)
                continue
            latest[event.job] = event.start_s
            reader.tally.parsed += 1
            builder.add(event)
        reader.end()
        builder.end_file(reader.tally.close(total=file.count, data_hash=file.data_hash))
    return builder.close()


@dataclass(kw_only=True)
class _Reader:
    """Where the reading of a log stands."""

    path: str | Path
    clock: Clock
    tally: Tally
    job: str = ""
    reason: Reason | None = None
    root: int = 0
    fields: dict[str, str] = field(default_factory=dict)

    def add(self, line: Line) -> Event | None:
        """Return the failure that a line completes."""
        if _ROOT.search(line.text):
            self.root, self.fields = line.number, {}
        elif self.root:
            return self._summary(line)
        elif title := _TITLE.search(line.text):
            self.job = title[1]
        elif self.reason is None:
            self.reason = reason_of("torchrun", line.text[:2000])
        self.tally.ignore("line outside the root cause", line.number)
        return None

    def end(self) -> None:
        """Raise for an incomplete summary at the end of the log."""
        if self.root:
            lacking = [name for name in _ORDER if name not in self.fields]
            problem = f"a root cause without {', '.join(lacking)}: the log is truncated"
            raise refuse(self.path, self.root, problem)

    def _summary(self, line: Line) -> Event | None:
        """Read a line of the root cause; its exit code completes the failure."""
        found = _FIELD.search(line.text)
        if found is not None:
            self.fields.setdefault(found[1], found[2])
        if found is None or found[1] != "exitcode" or not line.ended:
            self.tally.ignore("line of a root cause", line.number)
            return None
        cause, kind = self._ending(found[2], line.number)
        time_s = self._time_s(line.number)
        action = self.reason.action if self.reason else PROCESS
        if self.reason is not None and cause not in _STOPPED:
            cause, kind = self.reason.cause, self.reason.kind
        host = self.fields.get("host", self.clock.node)
        self.root, self.reason = 0, None
        return Event(
            time_s, JOB, cause, kind, line.number, node=host, job=self.job, detected_s=time_s,
            action=action,
        )  # fmt: skip

    def _ending(self, text: str, number: int) -> tuple[str, str]:
        """Return cause and kind of an exit code."""
        if re.fullmatch(r"-?[0-9]{1,6}", text) is None:
            problem = f"{repr_for_error(text)} is not an exit code"
            raise refuse(self.path, number, problem, column="exitcode")
        code = int(text)
        if code >= 0:
            return f"exit_{code}", UNCLEAR
        known = {int(one): one.name.lower() for one in signal.Signals}
        cause = known.get(-code, f"signal_{-code}")
        return cause, EFFECT if cause in _STOPPED else UNCLEAR

    def _time_s(self, number: int) -> float:
        text = self.fields.get("time", "")
        try:
            return iso_seconds(text.replace("_", "T", 1), self.clock.zone)
        except InvalidSpecError as problem:
            raise refuse(self.path, number, str(problem), column="time") from problem
