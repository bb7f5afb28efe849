"""Job runs from columns of sacct, for rows without irregularities.

Shape legend: R rows, K rows that are runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.telemetry.formats.local_times import local_seconds
from perfatlas.reliability.telemetry.formats.slurm_fields import (
    exit_code,
    gpus_of,
    job_name,
    state_name,
)
from perfatlas.reliability.telemetry.history import (
    UNFINISHED,
    RunColumns,
    count_hosts,
    lone_host,
    why_no_run,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfatlas.reliability.telemetry.formats.sacct_records import Rows

_Value = TypeVar("_Value")


def run_columns(rows: Rows, zone: str) -> RunColumns | None:
    """Return the runs of rows, None where a row has to be read by itself.

    Args:
        rows: The rows.
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


def _each(texts: Sequence[str], parse: Callable[[str], _Value]) -> list[_Value]:
    """Return each text parsed, equal ones once."""
    parsed = {text: parse(text) for text in dict.fromkeys(texts)}
    return list(map(parsed.__getitem__, texts))
