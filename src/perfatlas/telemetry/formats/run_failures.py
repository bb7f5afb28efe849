"""Failures from the final states of job runs.

Accounting is weak evidence. NODE_FAIL is Slurm's own finding and misses most GPU faults; FAILED
mixes errors of users and infrastructure; TIMEOUT and CANCELLED may be hangs. So only Slurm's own
findings count as failures here; other states are marked unclear.

Source: sacct(1), JOB STATE CODES; JobRequeue in slurm.conf(5).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from perfatlas.telemetry.history import (
    EFFECT,
    FAILURE,
    JOB,
    NOT_TOLD,
    PLANNED,
    UNCLEAR,
    UNFINISHED,
    Event,
    History,
    HistoryBuilder,
    expand_hosts,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.telemetry.history import JobRuns
    from perfatlas.telemetry.reading import FileCounts

# Component and kind by state; the cause is the state in lower case. Other states are no events.
_MEANING: Final = {
    "NODE_FAIL": ("host", FAILURE),
    "BOOT_FAIL": ("host", FAILURE),
    "LAUNCH_FAILED": ("host", FAILURE),
    "RECONFIG_FAIL": ("host", FAILURE),
    "FAILED": (JOB, UNCLEAR),
    "REQUEUED": (JOB, UNCLEAR),
    "TIMEOUT": (JOB, UNCLEAR),
    "CANCELLED": (JOB, UNCLEAR),
    "DEADLINE": (JOB, UNCLEAR),
    "OUT_OF_MEMORY": (JOB, EFFECT),
    "PREEMPTED": (JOB, PLANNED),
    "REVOKED": (JOB, PLANNED),
}


def run_failures(runs: JobRuns) -> History:
    """Return one event per run that did not complete.

    A failure of the job ends when the job runs again. A node failure has no end: accounting has the
    restart of the job, after queueing and possibly on other nodes, not the return of the node.

    Args:
        runs: The runs.

    Limits: the node is known where Slurm names it or the job had only one. Recovery of a job is the
        next run with the same job id, including queueing; resubmitted jobs are not matched. Runs
        without a recorded end are no events. Other runs are counted as ignored.
    """
    builder = HistoryBuilder()
    state, job = runs.state.text(), runs.job.text()
    failed, hosts = runs.failed_node.text(), runs.hosts.text()
    next_s = _next_starts(runs)
    by_file: dict[int, list[int]] = {}
    for row, file in enumerate(runs.file_E.tolist()):
        by_file.setdefault(file, []).append(row)
    for file, counts in enumerate(runs.files):
        without: dict[str, list[int]] = {}
        for row in by_file.get(file, ()):
            end_s = float(runs.end_s_R[row])
            reason = _no_event(state[row], end_s)
            if reason:
                without.setdefault(reason, []).append(int(runs.line_E[row]))
                continue
            component, kind = _MEANING[state[row]]
            alone = expand_hosts(hosts[row]) if runs.host_count_R[row] == 1 else ("",)
            builder.add(
                Event(
                    start_s=end_s,
                    component=component,
                    cause=state[row].lower(),
                    kind=kind,
                    line=int(runs.line_E[row]),
                    node=failed[row] or alone[0],
                    job=job[row],
                    recovered_s=next_s[row] if component == JOB else NOT_TOLD,
                )
            )
        builder.end_file(_counts(counts, without))
    return builder.close(runs.occupancy())


def _no_event(state: str, end_s: float) -> str:
    """Return why a run is not an event, "" where it is one."""
    if state == "COMPLETED":
        return "run that completed"
    if state in UNFINISHED:
        return "run that had not ended"
    if state not in _MEANING:
        return f"run in state {state}"
    return "run without a recorded end" if math.isnan(end_s) else ""


def _counts(counts: FileCounts, without: Mapping[str, list[int]]) -> FileCounts:
    """Return the counts of a file, with runs that are no events as ignored."""
    ignored, first = dict(counts.ignored), dict(counts.first)
    for reason, lines in without.items():
        ignored[reason], first[reason] = len(lines), min(lines)
    parsed = counts.parsed - sum(map(len, without.values()))
    return replace(counts, parsed=parsed, ignored=ignored, first=first)


def _next_starts(runs: JobRuns) -> list[float]:
    """Return the start of the next run of the same job [s], NaN for none."""
    following = [NOT_TOLD] * runs.size
    latest: dict[int, int] = {}
    for row, code in enumerate(runs.job.code_E.tolist()):
        before = latest.get(code)
        if before is not None:
            following[before] = float(runs.start_s_R[row])
        latest[code] = row
    return following
