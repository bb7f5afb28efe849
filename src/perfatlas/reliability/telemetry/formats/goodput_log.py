"""Entries of ml-goodput-measurement as a history: restarts, lost steps and overhead.

Source: AI-Hypercomputer/ml-goodput-measurement, src/goodput.py (the fields of entries) and
goodput_utils.py (BadputType). Entries are the payloads of Cloud Logging, bare or as jsonPayload.
Types of badput are mapped by name: their numbers differ between versions.
Limits: only starts of steps are logged, so the duration of the last step before a restart is
    unknown, and a restart has the start time of that step. Tested on hand-written entries based on
    the source.

Shape legend: S steps of a run.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from perfatlas.reliability.telemetry.formats.json_log import JsonLog
from perfatlas.reliability.telemetry.formats.options import Imported, ImportOptions
from perfatlas.reliability.telemetry.history import OVERHEAD, UNCLEAR, Event, HistoryBuilder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from perfatlas.reliability.telemetry.formats.json_log import Item
    from perfatlas.reliability.telemetry.history import History
    from perfatlas.reliability.telemetry.reading import Tally

FORMAT_NAME: Final = "ml_goodput"


# First part of the names of two fields, _start_time and _end_time, to the type of badput.
_SPANS: Final = {
    "tpu_init": "tpu_initialization",
    "training_prep": "training_prep",
    "data_loading": "data_loading",
    "custom_badput_event": "",
}
WASTED: Final = "wasted_progress_from_disruption"
_WORDS: Final = re.compile(r"[^a-z0-9]+")


def read(paths: Sequence[str | Path], options: ImportOptions) -> Imported:
    """Return the history in logs of this format.

    Args:
        options: Information that the logs omit.

    Raises:
        InvalidSpecError: A log is invalid.
    """
    del options
    return Imported(read_goodput_log(paths))


def read_goodput_log(paths: Sequence[str | Path]) -> History:
    """Return restarts (kind unclear) and time outside of steps (kind overhead).

    Args:
        paths: Files in time order: one entry per line (.jsonl), or a list of entries.

    Raises:
        InvalidSpecError: A file is not JSON or is truncated, an entry has no job or an invalid
            time, or a type of badput is a number; the message names file, record and field.

    Limits: A restart is the start of a job that had not ended, or a repeated step. The log contains
        no causes.
    """
    jobs = _Jobs()
    for path in paths:
        log = JsonLog(path, "entries")
        for item in log.items():
            jobs.add(item.inner("jsonPayload") or item, log.tally)
        jobs.events.end_file(log.close())
    return jobs.events.close()


@dataclass
class _Job:
    """Current state of a job."""

    is_running: bool = False
    last_s: float = -math.inf
    steps_S: list[int] = field(default_factory=list)
    step_s_S: list[float] = field(default_factory=list)
    restart: int = -1
    open_spans: dict[str, int] = field(default_factory=dict)


@dataclass(kw_only=True)
class _Jobs:
    """Events so far, and the state of each job."""

    events: HistoryBuilder = field(default_factory=HistoryBuilder)
    jobs: dict[str, _Job] = field(default_factory=dict)

    def add(self, item: Item, tally: Tally) -> None:
        name = item.text("job_name", required=True)
        job = self.jobs.setdefault(name, _Job())
        if item.get("step_count") is not None:
            self._step(item, name, job, tally)
        elif item.get("job_start_time") is not None:
            self._start(item, name, job, tally)
            if item.get("job_end_time") is not None:
                job.is_running, job.last_s = False, item.time_s("job_end_time", "UTC")
        elif item.get("job_end_time") is not None:
            job.is_running = False
            job.last_s = item.time_s("job_end_time", "UTC")
            tally.merge("end of a run", item.number)
        else:
            self._span(item, name, job, tally)

    def _start(self, item: Item, name: str, job: _Job, tally: Tally) -> None:
        time_s = item.time_s("job_start_time", "UTC")
        if job.is_running:
            self._restart(item, name, job, time_s, tally)
        else:
            tally.merge("start of a run", item.number)
        job.is_running, job.last_s = True, max(job.last_s, time_s)

    def _restart(self, item: Item, name: str, job: _Job, time_s: float, tally: Tally) -> None:
        tally.parsed += 1
        start_s = job.last_s if math.isfinite(job.last_s) else time_s
        job.restart = self.events.add(
            Event(start_s, "job", "restart", UNCLEAR, item.number, job=name, detected_s=time_s)
        )

    def _step(self, item: Item, name: str, job: _Job, tally: Tally) -> None:
        step = item.get("step_count")
        if not isinstance(step, int) or isinstance(step, bool) or step < 0:
            raise item.wrong(": expected a step of at least 0", "step_count")
        time_s = item.time_s("step_start_time", "UTC")
        back = bool(job.steps_S) and step <= job.steps_S[-1]
        if back and job.restart < 0:
            self._restart(item, name, job, time_s, tally)
        else:
            tally.merge("start of a step", item.number)
        if back:
            place = bisect_left(job.steps_S, step)
            lost_s = job.step_s_S[place]
            event = Event(lost_s, "job", WASTED, OVERHEAD, item.number, job=name)
            self.events.recover(self.events.add(event), job.step_s_S[-1])
            del job.steps_S[place:], job.step_s_S[place:]
        if job.restart >= 0:
            self.events.recover(job.restart, time_s)
            job.restart = -1
        job.steps_S.append(step)
        job.step_s_S.append(time_s)
        job.is_running, job.last_s = True, time_s

    def _span(self, item: Item, name: str, job: _Job, tally: Tally) -> None:
        for prefix, cause in _SPANS.items():
            if item.get(f"{prefix}_start_time") is not None:
                time_s = item.time_s(f"{prefix}_start_time", "UTC")
                cause = cause or _custom(item)  # noqa: PLW2901
                tally.parsed += 1
                event = Event(time_s, "job", cause, OVERHEAD, item.number, job=name)
                job.open_spans[cause] = self.events.add(event)
                if item.get(f"{prefix}_end_time") is not None:
                    end_s = item.time_s(f"{prefix}_end_time", "UTC")
                    self.events.recover(job.open_spans.pop(cause), end_s)
                return
            if item.get(f"{prefix}_end_time") is not None:
                time_s = item.time_s(f"{prefix}_end_time", "UTC")
                begun = job.open_spans.pop(cause or _custom(item), None)
                if begun is None:
                    tally.ignore("end without a start", item.number)
                else:
                    tally.merge("end of overhead", item.number)
                    self.events.recover(begun, time_s)
                return
        tally.ignore("entry without a known field", item.number)


def _custom(item: Item) -> str:
    kind = item.get("custom_badput_event_type")
    if not isinstance(kind, str) or not kind or kind.isdigit():
        raise item.wrong(
            "is not a name; badput type numbers differ between versions of ml-goodput, so write"
            " the name",
            "custom_badput_event_type",
        )
    return _WORDS.sub("_", kind.lower()).strip("_")
