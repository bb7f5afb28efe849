"""Slurm accounting as job runs, from the text of `sacct -P`.

Source: sacct(1) of Slurm 25.11; tested on outputs of a production cluster (facebookresearch/gcm,
gcm/tests/data, MIT) and on hand-written rows.

Shape legend: R rows, K rows that are runs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.telemetry.formats.local_times import LocalTime, local_seconds, local_time
from perfatlas.reliability.telemetry.formats.options import Imported, ImportOptions
from perfatlas.reliability.telemetry.formats.run_failures import run_failures
from perfatlas.reliability.telemetry.formats.sacct_records import Rows, sacct_rows
from perfatlas.reliability.telemetry.formats.slurm_fields import (
    duration_s,
    exit_code,
    gpus_of,
    job_name,
    state_name,
)
from perfatlas.reliability.telemetry.history import (
    NOT_TOLD,
    UNFINISHED,
    JobRuns,
    Run,
    RunColumns,
    RunsBuilder,
    count_hosts,
    lone_host,
    why_no_run,
)
from perfatlas.reliability.telemetry.reading import LogFile, Tally, refuse, zone_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from perfatlas.reliability.telemetry.formats.sacct_records import Record

_ColumnValue = TypeVar("_ColumnValue")


def run_columns(rows: Rows, zone: str) -> RunColumns | None:
    """Return the runs of rows, None where a row has to be read by itself.

    Args:
        zone: Time zone of the times.
    """
    try:
        return _run_columns(rows, zone)
    except InvalidSpecError:  # reading row by row names its line and column
        return None


def _run_columns(rows: Rows, zone: str) -> RunColumns | None:
    columns = rows.columns
    start_s_R = local_seconds(columns["Start"], zone)
    if start_s_R is None:
        return None
    jobs, ignored, kept_K = _kept(rows, start_s_R)
    lines = [rows.lines[row] for row in kept_K]

    def cells(name: str) -> list[str]:
        column = columns.get(name)
        if column is None:
            return [""] * len(kept_K)
        return column if len(kept_K) == len(column) else [column[row] for row in kept_K]

    state = _each(cells("State"), state_name)
    end_s_K = local_seconds(cells("End"), zone)
    submit_s_K = local_seconds(cells("Submit"), zone)
    if end_s_K is None or submit_s_K is None:
        return None
    start_s_K = start_s_R[kept_K]
    end_s_K[[name in UNFINISHED for name in state]] = np.nan
    if (end_s_K < start_s_K).any():
        return None
    hosts = cells("NodeList")
    counts = _each(hosts, count_hosts)
    codes = _each(cells("ExitCode"), exit_code)
    sluid, restarts = cells("SLUID"), cells("Restarts")
    return RunColumns(
        lines=lines,
        ignored=ignored,
        labels={
            "job": jobs,
            "state": state,
            "hosts": [text if count else "" for text, count in zip(hosts, counts, strict=True)],
            "failed_node": _each(cells("FailedNode"), lone_host),
        },
        times={"submit_s": submit_s_K, "start_s": start_s_K, "end_s": end_s_K},
        counts={
            "host_count": counts,
            "gpus": _each(cells("AllocTRES"), gpus_of),
            "status": [status for status, _ in codes],
            "signal": [signal for _, signal in codes],
        },
        reason=cells("Reason"),
        run=[one or other for one, other in zip(sluid, restarts, strict=True)],
    )


def _kept(
    rows: Rows, start_s_R: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> tuple[list[str], list[tuple[str, int]], list[int]]:
    """Return the jobs of rows that are runs, why and where others are none, and the kept rows."""
    jobs: list[str] = []
    ignored: list[tuple[str, int]] = []
    kept: list[int] = []
    started = (~np.isnan(start_s_R)).tolist()
    known = {written: state_name(written) for written in set(rows.columns["State"])}
    have_run = all(started) and all(state not in ("", "PENDING") for state in known.values())
    if have_run and all(map(str.isdigit, rows.columns["JobID"])):
        return rows.columns["JobID"], ignored, list(range(len(started)))
    cells = zip(rows.columns["JobID"], rows.columns["State"], started, rows.lines, strict=True)
    for row, (text, written, has_start, line) in enumerate(cells):
        state = known[written]
        if text.isdigit():
            job, step, waiting = text, "", False
        else:
            job, step, waiting = job_name(text)
        reason = ""
        if step or waiting or not state or state == "PENDING":
            reason = why_no_run(step, state, written, waiting=waiting)
        if not reason and not has_start:
            reason = "job that never started"
        if reason:
            ignored.append((reason, line))
        else:
            jobs.append(job)
            kept.append(row)
    return jobs, ignored, kept


def _each(texts: Sequence[str], parse: Callable[[str], _ColumnValue]) -> list[_ColumnValue]:
    """Return each text parsed, equal ones once."""
    parsed = {text: parse(text) for text in dict.fromkeys(texts)}
    return list(map(parsed.__getitem__, texts))


FORMAT_NAME: Final = "sacct"
REQUIRED: Final = ("JobID", "State", "Start", "End")
_Value = TypeVar("_Value")
_ZONE_ASKED: Final = (
    "sacct writes local times without time zone; set zone, --zone UTC, or a name such as"
    " 'Europe/Berlin'"
)
_TWICE: Final = "ambiguous local time, resolved by the elapsed time"
_TWICE_ORDER: Final = "ambiguous local time, resolved by the end being after the start"
_TWICE_OPEN: Final = "ambiguous local time, taken as the first"
_MISSING_HOUR: Final = "nonexistent local time, taken as an hour later"


def read(paths: Sequence[str | Path], options: ImportOptions) -> Imported:
    """Return the history in logs of this format.

    Args:
        options: Information that the logs omit.

    Raises:
        InvalidSpecError: A log is invalid.
    """
    runs = read_sacct(paths, zone=options.clock.zone)
    return Imported(run_failures(runs), runs)


def read_sacct(paths: Sequence[str | Path], *, zone: str | None) -> JobRuns:
    """Return the runs in the text of `sacct -a -D -X -P`; each run once over all files.

    Args:
        paths: Files of one cluster; they may overlap.
        zone: Time zone of the times.

    Raises:
        InvalidSpecError: A file cannot be read, lacks a column, ends inside a record, or a field is
            invalid; the message names file, line and column. Or no time zone is set.

    Limits: without -D the output silently lacks requeued runs. A row with an end before its start
        raises an error.
    """
    if zone is None:
        raise InvalidSpecError(_ZONE_ASKED)
    zone_of(zone)
    runs = RunsBuilder()
    for path in paths:
        file = LogFile(path)
        tally = Tally(path=path, unit="lines")
        for found in sacct_rows(file, REQUIRED, tally):
            if isinstance(found, Rows):
                columns = run_columns(found, zone)
                if columns is not None:
                    runs.extend(columns, tally)
                    continue
            for record in found.records() if isinstance(found, Rows) else (found,):
                run = _run_of(path, record, zone, tally)
                if run is not None:
                    runs.add(run, record.line, tally)
        runs.end_file(tally.close(total=file.count, data_hash=file.data_hash))
    return runs.close()


def _run_of(path: str | Path, record: Record, zone: str, tally: Tally) -> Run | None:
    """Return the run of a record, or None and count the reason."""
    field = _Fields(path, record)
    name = field.read("JobID", job_name)
    state = state_name(record.fields["State"])
    reason = why_no_run(name.step, state, record.fields["State"], waiting=name.waiting)
    start = field.read("Start", lambda text: local_time(text, zone))
    if not reason and start is None:
        reason = "job that never started"
    if reason or start is None:
        tally.ignore(reason, record.line)
        return None
    end = field.read("End", lambda text: local_time(text, zone))
    if state in UNFINISHED:
        end = None
    elapsed_s = field.read("ElapsedRaw" if field.has("ElapsedRaw") else "Elapsed", duration_s)
    start_s, end_s = _settled(start, end, elapsed_s, tally, record.line)
    if end_s < start_s:
        raise refuse(path, record.line, "is before the column 'Start'", column="End")
    submit = field.read("Submit", lambda text: local_time(text, zone))
    status, signal = field.read("ExitCode", exit_code)
    host_count = field.read("NodeList", count_hosts)
    return Run(
        job=name.job,
        state=state,
        submit_s=NOT_TOLD if submit is None else submit.readings[0],
        start_s=start_s,
        end_s=end_s,
        hosts=record.fields["NodeList"] if host_count else "",
        host_count=host_count,
        gpus=field.read("AllocTRES", gpus_of),
        status=status,
        signal=signal,
        failed_node=field.read("FailedNode", lone_host),
        reason=record.fields.get("Reason", ""),
        run=record.fields.get("SLUID", "") or record.fields.get("Restarts", ""),
    )


class _Fields:
    """The fields of a record; invalid fields raise an error with their position."""

    def __init__(self, path: str | Path, record: Record) -> None:
        self.path = path
        self.record = record

    def has(self, name: str) -> bool:
        """Return whether the output has a column."""
        return name in self.record.fields

    def read(self, name: str, parse: Callable[[str], _Value]) -> _Value:
        """Return a field, empty where the column is missing."""
        try:
            return parse(self.record.fields.get(name, ""))
        except InvalidSpecError as problem:
            raise refuse(self.path, self.record.line, str(problem), column=name) from problem


def _settled(
    start: LocalTime, end: LocalTime | None, elapsed_s: float, tally: Tally, line: int
) -> tuple[float, float]:
    """Return unambiguous start and end [s since 1970-01-01 UTC], NaN for no end."""
    for moment in (start, end):
        if moment is not None and not moment.exists:
            tally.repair(_MISSING_HOUR, line)
    ends = (NOT_TOLD,) if end is None else end.readings
    if len(start.readings) == len(ends) == 1:
        return start.readings[0], ends[0]
    every = [(first, last) for first in start.readings for last in ends]
    pairs = [pair for pair in every if not pair[1] < pair[0]] or every
    if end is not None and not math.isnan(elapsed_s):
        tally.repair(_TWICE, line)
        return min(pairs, key=lambda pair: abs(pair[1] - pair[0] - elapsed_s))
    tally.repair(_TWICE_ORDER if len(pairs) == 1 else _TWICE_OPEN, line)
    return pairs[0]
