"""The event log of a training job as a history: one JSON object per event.

Events and their valid order:
start -> (checkpoint_start -> checkpoint_end)* -> interrupt -> detected? -> nodes_ready? -> running
-> ... -> end; a new start may follow an end, and another interrupt any step of a recovery.
An interruption starts at `interrupt`, is detected at `detected` and ends at `running`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from perfatlas.quantities import InvalidSpecError, did_you_mean, repr_for_error
from perfatlas.reliability.telemetry.formats.json_log import JsonLog
from perfatlas.reliability.telemetry.formats.options import Imported, ImportOptions
from perfatlas.reliability.telemetry.history import (
    FAILURE,
    KINDS,
    NOT_TOLD,
    OVERHEAD,
    Event,
    History,
    HistoryBuilder,
    OccupancyBuilder,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from perfatlas.reliability.telemetry.formats.json_log import Item
    from perfatlas.reliability.telemetry.reading import Tally

FORMAT_NAME: Final = "jobs"
_AFTER: Final = {
    "": ("start",),
    "start": ("checkpoint_start", "interrupt", "end"),
    "checkpoint_start": ("checkpoint_end", "interrupt", "end"),
    "checkpoint_end": ("checkpoint_start", "interrupt", "end"),
    "interrupt": ("detected", "nodes_ready", "running", "interrupt", "end"),
    "detected": ("nodes_ready", "running", "interrupt", "end"),
    "nodes_ready": ("running", "interrupt", "end"),
    "running": ("checkpoint_start", "interrupt", "end"),
    "end": ("start",),
}
EVENTS: Final = tuple(name for name in _AFTER if name)


def read(paths: Sequence[str | Path], options: ImportOptions) -> Imported:
    """Return the history in logs of this format.

    Args:
        options: Information that the logs omit.

    Raises:
        InvalidSpecError: A log is invalid.
    """
    zone, tolerance_s = options.clock.zone, options.tolerance_s
    return Imported(read_job_log(paths, zone=zone, tolerance_s=tolerance_s))


def read_job_log(
    paths: Sequence[str | Path], *, zone: str | None = None, tolerance_s: float = 0.0
) -> History:
    """Return interruptions and checkpoints of jobs.

    Args:
        paths: Files in time order, one object per line with `time`, `event` and `job`; an
            `interrupt` also with `cause`, and optionally `node`, `device`, `component`, `kind`.
        zone: Time zone of times without one.
        tolerance_s: Allowed decrease between successive times [s], as node clocks differ; the
            earlier time is replaced by the previous one and counted.

    Raises:
        InvalidSpecError: A file is not JSON Lines or is truncated, a field is invalid, events are
            out of order, or times decrease; the message names file and line.

    Limits: checkpoint_end is when the job resumed, not when the checkpoint was durable. An
        interrupted checkpoint has no end. An interruption at the end of the log has no recovery.
    """
    if not tolerance_s >= 0.0:
        raise InvalidSpecError(f"tolerance_s = {repr_for_error(tolerance_s)}: expected 0 s or more")
    jobs = _Jobs(tolerance_s=tolerance_s)
    for path in paths:
        log = JsonLog(path, "events")
        for item in log.items():
            jobs.add(item, zone, log.tally)
        jobs.events.end_file(log.close())
        jobs.file += 1
    return jobs.close()


@dataclass
class _Job:
    """Where a job stands."""

    last: str = ""
    last_line: int = 0
    last_s: float = float("-inf")
    begun_s: float | None = None
    begun_at: tuple[int, int] = (0, 0)  # file and line
    checkpoint: int = -1
    interrupts: list[int] = field(default_factory=list)


@dataclass(kw_only=True)
class _Jobs:
    """Events so far, and the state of each job."""

    tolerance_s: float
    events: HistoryBuilder = field(default_factory=HistoryBuilder)
    jobs: dict[str, _Job] = field(default_factory=dict)
    runs: OccupancyBuilder = field(default_factory=OccupancyBuilder)
    file: int = 0

    def add(self, item: Item, zone: str | None, tally: Tally) -> None:
        name = item.text("event", required=True)
        job_name = item.text("job", required=True)
        job = self.jobs.setdefault(job_name, _Job())
        if name not in EVENTS:
            known = ", ".join(EVENTS)
            hint = did_you_mean(name, EVENTS)
            raise item.wrong(f"{repr_for_error(name)} is not one of {known}{hint}", "event")
        if name not in _AFTER[job.last]:
            allowed = " or ".join(_AFTER[job.last])
            before = f"'{job.last}' (line {job.last_line})" if job.last else "the start of the log"
            raise item.wrong(
                f"{name!r} of job {job_name!r} after {before}; expected {allowed}", "event"
            )
        time_s = self._time(item, job, zone, tally)
        self._act(name, job_name, job, item, time_s, tally)
        self._run(name, job_name, job, time_s, item.number)
        job.last, job.last_line, job.last_s = name, item.number, time_s

    def _time(self, item: Item, job: _Job, zone: str | None, tally: Tally) -> float:
        time_s = item.time_s("time", zone)
        back_s = job.last_s - time_s
        if back_s <= 0.0:
            return time_s
        if back_s > self.tolerance_s:
            raise item.wrong(
                f"{back_s:.3f} s before line {job.last_line} of the same job; sort the log, or set"
                " tolerance_s for differing clocks",
                "time",
            )
        tally.repair("time slightly before the previous one, replaced by it", item.number)
        return job.last_s

    def _run(self, name: str, job_name: str, job: _Job, time_s: float, number: int) -> None:
        """Note when the job ran: outside of interruptions."""
        if name in ("start", "running"):
            job.begun_s, job.begun_at = time_s, (self.file, number)
        elif name in ("interrupt", "end") and job.begun_s is not None:
            self.runs.add((job.begun_s, time_s), ("", job_name, name.upper()), *job.begun_at)
            job.begun_s = None

    def close(self) -> History:
        """Return the history; a job without an end still runs."""
        for job_name, job in self.jobs.items():
            if job.begun_s is not None:
                self.runs.add((job.begun_s, NOT_TOLD), ("", job_name, "RUNNING"), *job.begun_at)
        return self.events.close(self.runs.close())

    def _act(
        self, name: str, job_name: str, job: _Job, item: Item, time_s: float, tally: Tally
    ) -> None:
        if name == "interrupt":
            tally.parsed += 1
            job.interrupts.append(self.events.add(_interruption(item, job_name, time_s)))
        elif name == "checkpoint_start":
            tally.parsed += 1
            event = Event(time_s, "job", "checkpoint", OVERHEAD, item.number, job=job_name)
            job.checkpoint = self.events.add(event)
        elif name == "checkpoint_end":
            tally.merge("end of a checkpoint", item.number)
            self.events.recover(job.checkpoint, time_s)
        elif name == "detected":
            tally.merge("detection of an interruption", item.number)
            self.events.detect(job.interrupts[-1], time_s)
        elif name == "running":
            tally.merge("end of an interruption", item.number)
            for event_index in job.interrupts:
                self.events.recover(event_index, time_s)
            job.interrupts.clear()
        else:
            if name == "end":
                job.interrupts.clear()
            tally.ignore(f"{name}: not a failure", item.number)


def _interruption(item: Item, job_name: str, time_s: float) -> Event:
    kind = item.text("kind") or FAILURE
    if kind not in KINDS:
        known = ", ".join(KINDS)
        raise item.wrong(
            f"{repr_for_error(kind)} is not one of {known}{did_you_mean(kind, KINDS)}", "kind"
        )
    return Event(
        start_s=time_s,
        component=item.text("component") or "job",
        cause=item.text("cause", required=True),
        kind=kind,
        line=item.number,
        node=item.text("node"),
        device=item.text("device"),
        job=job_name,
    )
