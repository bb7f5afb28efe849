"""Failures from the final states of job runs.

Accounting is weak evidence. NODE_FAIL is Slurm's own finding and misses most GPU faults; FAILED
mixes errors of users and infrastructure; TIMEOUT and CANCELLED may be hangs. So only Slurm's own
findings count as failures here; other states are marked unclear.

Source: sacct(1), JOB STATE CODES; JobRequeue in slurm.conf(5).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.reliability.telemetry import history

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.reliability.telemetry.reading import FileCounts

    Int = NDArray[np.int64]

_NO_END: Final = "run without a recorded end"
# Component and kind by state; the cause is the state in lower case. Other states are no events.
_MEANING: Final = {
    "NODE_FAIL": ("host", history.FAILURE),
    "BOOT_FAIL": ("host", history.FAILURE),
    "LAUNCH_FAILED": ("host", history.FAILURE),
    "RECONFIG_FAIL": ("host", history.FAILURE),
    "FAILED": (history.JOB, history.UNCLEAR),
    "REQUEUED": (history.JOB, history.UNCLEAR),
    "TIMEOUT": (history.JOB, history.UNCLEAR),
    "CANCELLED": (history.JOB, history.UNCLEAR),
    "DEADLINE": (history.JOB, history.UNCLEAR),
    "OUT_OF_MEMORY": (history.JOB, history.EFFECT),
    "PREEMPTED": (history.JOB, history.PLANNED),
    "REVOKED": (history.JOB, history.PLANNED),
}


def run_failures(runs: history.JobRuns) -> history.History:
    """Return one event per run that did not complete.

    A failure of the job ends when the job runs again. A node failure has no end: accounting has the
    restart of the job, after queueing and possibly on other nodes, not the return of the node.

    Limits: the node is known where Slurm names it or the job had only one. Recovery of a job is the
        next run with the same job id, including queueing; resubmitted jobs are not matched. Runs
        without a recorded end are no events. Other runs are counted as ignored.
    """
    builder = history.HistoryBuilder()
    next_s_R = np.full(runs.size, history.NOT_TOLD)  # start of the next run of the same job [s]
    by_job_R = np.argsort(runs.job.code_E, kind="stable")
    same = np.flatnonzero(np.diff(runs.job.code_E[by_job_R]) == 0)
    next_s_R[by_job_R[same]] = runs.start_s_R[by_job_R[same + 1]]
    reason_R, reasons = _no_events(runs)
    for file, counts in enumerate(runs.files):
        of_file_R = runs.file_E == file
        for row in np.flatnonzero(of_file_R & (reason_R < 0)).tolist():
            state = runs.state.at(row)
            component, kind = _MEANING[state]
            alone = (
                history.expand_hosts(runs.hosts.at(row)) if runs.host_count_R[row] == 1 else ("",)
            )
            builder.add(
                history.Event(
                    start_s=float(runs.end_s_R[row]),
                    component=component,
                    cause=state.lower(),
                    kind=kind,
                    line=int(runs.line_E[row]),
                    node=runs.failed_node.at(row) or alone[0],
                    job=runs.job.at(row),
                    recovered_s=float(next_s_R[row])
                    if component == history.JOB
                    else history.NOT_TOLD,
                )
            )
        builder.end_file(_counts(counts, runs.line_E[of_file_R], reason_R[of_file_R], reasons))
    return builder.close(runs.occupancy())


def _no_events(runs: history.JobRuns) -> tuple[Int, tuple[str, ...]]:
    """Return an index (R,) of the reason that a run is no event, -1 for events; the reasons."""
    of_state = [_no_event(state) for state in runs.state.names]
    reasons = tuple(dict.fromkeys([*filter(None, of_state), _NO_END]))
    of_state_S = np.array([reasons.index(why) if why else -1 for why in of_state], np.int64)
    reason_R = of_state_S[runs.state.code_E]
    reason_R[(reason_R < 0) & np.isnan(runs.end_s_R)] = reasons.index(_NO_END)
    return reason_R, reasons


def _no_event(state: str) -> str:
    """Return why a run in a state is not an event, "" where it is one."""
    if state == "COMPLETED":
        return "run that completed"
    if state in history.UNFINISHED:
        return "run that had not ended"
    return "" if state in _MEANING else f"run in state {state}"


def _counts(counts: FileCounts, line_R: Int, reason_R: Int, reasons: tuple[str, ...]) -> FileCounts:
    """Return the counts of a file, with runs that are no events as ignored."""
    ignored, first = dict(counts.ignored), dict(counts.first)
    codes, at = np.unique(reason_R, return_index=True)
    for code in codes[np.argsort(at)].tolist():
        if code >= 0:
            line = line_R[reason_R == code]
            ignored[reasons[code]], first[reasons[code]] = line.size, int(line.min())
    parsed = counts.parsed - int(np.count_nonzero(reason_R >= 0))
    return replace(counts, parsed=parsed, ignored=ignored, first=first)
