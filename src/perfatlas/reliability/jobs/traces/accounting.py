"""Runs of Slurm accounting as jobs.

Shape legend: R runs, J jobs.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.jobs.model import Jobs, ticks
from perfatlas.reliability.jobs.traces.trace import DONE, NEVER_RAN, NO_GPU, JobTrace

if TYPE_CHECKING:
    from perfatlas.reliability.telemetry.history import JobRuns

_IGNORED: Final = (
    NEVER_RAN,
    "still running, or without a recorded end",
    NO_GPU,
    "no submission time",
)


def runs_as_jobs(runs: JobRuns) -> JobTrace:
    """Return the runs of Slurm accounting as jobs; each run of a requeued job is one job.

    Args:
        runs: Runs with their submission; other lines of their files count as ignored.

    Raises:
        InvalidSpecError: No run is a job.

    Limits: accounting has no time limits: see `Jobs.with_limits`.
    """
    missing_R = np.select(
        [
            np.isnan(runs.start_s_R),
            np.isnan(runs.end_s_R),
            runs.gpus_R < 1,
            np.isnan(runs.submit_s_R),
        ],
        [0, 1, 2, 3],
        default=-1,
    )
    codes, first_at, count = np.unique(missing_R, return_index=True, return_counts=True)
    ignored, first = dict[str, int](), dict[str, int]()
    for group in np.argsort(first_at).tolist():
        if codes[group] >= 0:
            reason = _IGNORED[codes[group]]
            ignored[reason], first[reason] = int(count[group]), int(runs.line_E[first_at[group]])
    for file in runs.files:
        for reason, rows in {**file.merged, **file.ignored}.items():
            ignored[reason] = ignored.get(reason, 0) + rows
            first.setdefault(reason, file.first[reason])
    at_J = np.flatnonzero(missing_R < 0)
    if not at_J.size:
        reasons = ", ".join(f"{n} {why}" for why, n in ignored.items()) or "it has no rows"
        paths = ", ".join(f"'{file.path}'" for file in runs.files)
        raise InvalidSpecError(f"trace {paths} has no jobs to schedule: {reasons}")
    moved = int((np.diff(runs.submit_s_R[at_J]) < 0.0).sum())
    at_J = at_J[np.argsort(runs.submit_s_R[at_J], kind="stable")]
    submit_s_J, run_s_J = runs.submit_s_R[at_J], (runs.end_s_R - runs.start_s_R)[at_J]
    gpus_J, nodes_J = runs.gpus_R[at_J], runs.host_count_R[at_J]
    state_of_R = runs.state.text()
    state_J = [state_of_R[at] for at in at_J.tolist()]
    kinds = tuple(dict.fromkeys(state_J))
    kind_J = np.array([kinds.index(state) for state in state_J])
    done_J = np.isin(kind_J, [at for at, kind in enumerate(kinds) if kind.lower() in DONE])
    gpu_s = float(run_s_J @ gpus_J)
    files = sum(sum(file.merged.values()) + sum(file.ignored.values()) for file in runs.files)
    return JobTrace(
        jobs=Jobs(
            submit_J=ticks(submit_s_J - submit_s_J[0]),
            run_J=ticks(run_s_J),
            gpus_J=gpus_J,
            nodes_J=np.minimum(nodes_J, gpus_J) if (nodes_J > 0).all() else None,
            kind_J=kind_J,
            kinds=kinds,
            row_J=runs.line_E[at_J],
        ),
        total=runs.size + files,
        ignored=ignored,
        first=first,
        moved=moved,
        start_s=float(submit_s_J[0]),
        ends=Counter(state_J),
        cut_short=1.0 - float((run_s_J * gpus_J) @ done_J) / gpu_s if gpu_s else 0.0,
    )
