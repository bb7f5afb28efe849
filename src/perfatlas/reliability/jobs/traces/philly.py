"""The Philly trace: jobs with all their attempts, in one JSON file."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import repr_for_error
from perfatlas.reliability.jobs.traces.reading import NEVER_RAN, NO_END, NO_GPU, Reading, Row
from perfatlas.reliability.telemetry.reading import LogFile, stream_items

if TYPE_CHECKING:
    from pathlib import Path

KEYS: Final = ("status", "vc", "jobid", "attempts", "submitted_time", "user")


def read_philly(path: Path) -> Reading:
    """Return the jobs of `cluster_job_log`; run time is the sum of all attempts.

    A job with retried attempts is one job here: failures are modelled separately.

    Raises:
        InvalidSpecError: Not JSON, a missing key, or an invalid field.

    Source: README of msr-fiddle/philly-traces: attempts may lack a start or an end (a logging
        error), a last attempt without an end was still running; status Pass, Killed, Failed.

    Limits: local times without time zone. Nodes and GPUs are those of the last attempt.
    """
    reading = Reading(path)
    for line, item in stream_items(LogFile(path), "jobs"):
        if not isinstance(item, Mapping):
            raise reading.wrong(line, f"{repr_for_error(item)} is not a job")
        missing = [key for key in KEYS if key not in item]
        if missing:
            raise reading.wrong(line, f"missing keys: {', '.join(missing)}")
        _read(reading, line, item)
    return reading


def _read(reading: Reading, line: int, item: Mapping[str, Any]) -> None:
    attempts = item["attempts"]
    if not isinstance(attempts, list) or not all(isinstance(a, Mapping) for a in attempts):
        raise reading.wrong(
            line, f"attempts = {repr_for_error(attempts)}: expected an array of attempts"
        )
    if not attempts:
        reading.ignore(NEVER_RAN, line)
        return
    run_s = 0.0
    for attempt in attempts:
        start_s = _moment(reading, line, attempt.get("start_time"))
        end_s = _moment(reading, line, attempt.get("end_time"))
        if math.isnan(start_s) or math.isnan(end_s):
            reading.ignore(NO_END, line)
            return
        if end_s < start_s:
            raise reading.wrong(line, "an attempt ends before it starts")
        run_s += end_s - start_s
    detail = attempts[-1].get("detail")
    hosts = (
        [host for host in detail if isinstance(host, Mapping)] if isinstance(detail, list) else []
    )
    gpus = sum(len(host.get("gpus") or ()) for host in hosts)
    submit_s = _moment(reading, line, item["submitted_time"])
    if gpus < 1:
        reading.ignore(NO_GPU, line)
    elif math.isnan(submit_s):
        reading.ignore("no submission time", line)
    else:
        user, status = str(item["user"]), str(item["status"])
        reading.add(Row(line, submit_s, run_s, gpus, len(hosts), user, status, status))


def _moment(reading: Reading, line: int, text: object) -> float:
    """Return a time [s since 1970], NaN where there is none; local times count as UTC."""
    if text is None or text in ("", "None"):
        return math.nan
    try:
        moment = dt.datetime.strptime(str(text), "%Y-%m-%d %H:%M:%S").replace(tzinfo=dt.UTC)
    except ValueError:
        raise reading.wrong(line, f"{repr_for_error(text)} is not a time") from None
    return moment.timestamp()
