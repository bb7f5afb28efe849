"""Job traces as columns, with the number of rows ignored by reason.

Shape legend: J jobs.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from perfatlas.quantities import InvalidSpecError, did_you_mean
from perfatlas.reliability.jobs.model import Jobs, ticks
from perfatlas.reliability.jobs.traces.csv_traces import read_acme, read_alibaba, read_helios
from perfatlas.reliability.jobs.traces.job_table import read_job_table
from perfatlas.reliability.jobs.traces.philly import read_philly
from perfatlas.reliability.jobs.traces.reading import (
    DONE,
    NEVER_RAN,
    NO_END,
    NO_GPU,
    Reading,
    Row,
    Trace,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray


class RunColumns(Protocol):
    """Columns of an accounting reader that `runs_as_jobs` uses (R,)."""

    @property
    def submit_s_R(self) -> NDArray[np.float64]:  # noqa: N802
        """Time of submission or requeue [s]."""

    @property
    def start_s_R(self) -> NDArray[np.float64]:  # noqa: N802
        """Start time [s], NaN for never."""

    @property
    def end_s_R(self) -> NDArray[np.float64]:  # noqa: N802
        """End time [s], NaN where it had not ended."""

    @property
    def gpus_R(self) -> NDArray[np.int64]:  # noqa: N802
        """Allocated GPUs, 0 where not recorded."""

    @property
    def host_count_R(self) -> NDArray[np.int64]:  # noqa: N802
        """Nodes, 0 where not recorded."""


def read_jobs(path: str | Path, format: str) -> Trace:  # noqa: A002 - name of the CLI flag
    """Return the jobs of a file.

    Args:
        path: The file, as published, or gzip-compressed.
        format: perfatlas (a user's table, see `job_table`), philly, helios, acme or
            alibaba_gpu_v2020 (the task table).

    Raises:
        InvalidSpecError: An unknown format, an unreadable or truncated file, a missing column, or
            an invalid field, with its row.

    Source: the READMEs of msr-fiddle/philly-traces, S-Lab-System-Group/HeliosData,
        InternLM/AcmeTrace and alibaba/clusterdata (cluster-trace-gpu-v2020). Implemented from them
        and tested on hand-written rows: the files themselves were not available.

    Limits: these traces have no time limits: see `Jobs.with_limits`. Slurm accounting is read by
        `telemetry` and converted by `runs_as_jobs`.
    """
    readers: dict[str, Callable[[Path], Reading]] = {
        "philly": read_philly,
        "helios": read_helios,
        "acme": read_acme,
        "alibaba_gpu_v2020": read_alibaba,
    }
    names = ("perfatlas", *readers)
    if format not in names:
        raise InvalidSpecError(
            f"format = {format!r} is not one of {', '.join(names)}{did_you_mean(format, names)}"
        )
    if format == "perfatlas":
        return read_job_table(path)
    try:
        reading = readers[format](Path(path))
    except OSError as error:
        raise InvalidSpecError(f"cannot read trace '{path}': {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidSpecError(f"trace '{path}' is not UTF-8: {error.reason}") from error
    return close(reading)


def runs_as_jobs(
    runs: RunColumns,
    users: Sequence[str],
    states: Sequence[str],
    *,
    path: str | Path = "runs",
    lines: Sequence[int] | None = None,
) -> Trace:
    """Return the runs of Slurm accounting as jobs; each run of a requeued job is one job.

    Args:
        runs: Columns as `telemetry.job_runs.JobRuns` has them; with the submission of each run.
        users: User of each run, or one text for all.
        path: The file, for messages.
        lines: Line of each run; by default counted from 1.
    """
    reading = Reading(Path(path))
    line_R = range(1, len(states) + 1) if lines is None else lines
    columns = zip(
        line_R,
        runs.submit_s_R.tolist(), runs.start_s_R.tolist(), runs.end_s_R.tolist(),
        runs.gpus_R.tolist(), runs.host_count_R.tolist(), users, states, strict=True,
    )  # fmt: skip
    for line, submit_s, start_s, end_s, gpus, nodes, user, state in columns:
        if math.isnan(start_s):
            reading.ignore(NEVER_RAN, line)
        elif math.isnan(end_s):
            reading.ignore(NO_END, line)
        elif gpus < 1:
            reading.ignore(NO_GPU, line)
        elif math.isnan(submit_s):
            reading.ignore("no submission time", line)
        else:
            reading.add(Row(line, submit_s, end_s - start_s, gpus, nodes, user, state, state))
    return close(reading)


def close(reading: Reading) -> Trace:
    """Return the trace of all rows read, sorted by submission.

    Raises:
        InvalidSpecError: A negative time, or no jobs.
    """
    rows = reading.rows
    for row in rows:
        if not (row.run_s >= 0.0 and math.isfinite(row.run_s) and math.isfinite(row.submit_s)):
            raise reading.wrong(row.line, f"runs for {row.run_s:g} s: it ends before it starts")
    if not rows:
        reasons = ", ".join(f"{n} {why}" for why, n in reading.ignored.items()) or "it has no rows"
        raise InvalidSpecError(f"trace '{reading.path}' has no jobs to schedule: {reasons}")
    gpu_s = sum(row.run_s * row.gpus for row in rows)
    done_s = sum(row.run_s * row.gpus for row in rows if row.state.lower() in DONE)
    ordered = sorted(rows, key=lambda row: row.submit_s)
    moved = sum(b.submit_s < a.submit_s for a, b in pairwise(rows))
    users = tuple(dict.fromkeys(row.user for row in ordered))
    kinds = tuple(dict.fromkeys(row.kind for row in ordered))
    user_at = {name: code for code, name in enumerate(users)}
    kind_at = {name: code for code, name in enumerate(kinds)}
    start_s = ordered[0].submit_s
    nodes_J = np.array([row.nodes for row in ordered])
    gpus_J = np.array([row.gpus for row in ordered])
    jobs = Jobs(
        submit_J=ticks([row.submit_s - start_s for row in ordered]),
        run_J=ticks([row.run_s for row in ordered]),
        gpus_J=gpus_J,
        nodes_J=np.minimum(nodes_J, gpus_J) if (nodes_J > 0).all() else None,
        user_J=np.array([user_at[row.user] for row in ordered]),
        users=users,
        kind_J=np.array([kind_at[row.kind] for row in ordered]),
        kinds=kinds,
        row_J=np.array([row.line for row in ordered]),
    )
    return Trace(
        jobs=jobs,
        total=len(rows) + sum(reading.ignored.values()),
        ignored=dict(reading.ignored),
        first=dict(reading.first),
        moved=moved,
        start_s=start_s,
        ends=Counter(row.state for row in rows),
        cut_short=1.0 - done_s / gpu_s if gpu_s else 0.0,
    )
