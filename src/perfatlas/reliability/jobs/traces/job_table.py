"""A user's table of jobs in CSV, Parquet or JSON Lines, one row per job.

Shape legend: J jobs, L rows of the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.files import Number
from perfatlas.quantities import InvalidSpecError, counted
from perfatlas.reliability.jobs.model import MAX_INPUT_TICKS, NEVER, TICKS_PER_SECOND, Jobs, ticks
from perfatlas.reliability.jobs.traces.cells import Cells
from perfatlas.reliability.jobs.traces.trace import NEVER_RAN, NO_GPU, JobTrace

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Float = NDArray[np.float64]
    Ints = NDArray[np.int64]

REQUIRED: Final = ("submit_s", "run_s", "gpus")
OPTIONAL: Final = (
    "nodes", "fewest_nodes", "limit_s", "checkpoint_interval_s", "restart_s", "priority",
    "requeue", "user", "kind",
)  # fmt: skip
MAX_S: Final = MAX_INPUT_TICKS / TICKS_PER_SECOND
LATEST_S: Final = 1e12  # limit of submission times, as seconds from any origin
MAX_NUMBER: Final = 10**9
_RUN: Final = Number(unit="s", least=0.0, most=MAX_S)


def read_job_table(path: str | Path) -> JobTrace:
    """Return the jobs of a user's table.

    Columns: submit_s and run_s [s], gpus; and optionally nodes, fewest_nodes, limit_s,
    checkpoint_interval_s, restart_s [s], priority (higher starts first), requeue (whether it is
    requeued after a failure), user, kind. Rows without run time or GPUs are ignored and counted.

    Args:
        path: The file; its extension determines the format.

    Raises:
        InvalidSpecError: The file cannot be read, a column is missing or has no unit in its name,
            or a cell is invalid; names its row in the file.
    """
    cells = Cells(path, "job table", REQUIRED, OPTIONAL)
    gpus_L = cells.numbers("gpus", Number(least=0, most=MAX_NUMBER, whole=True))
    run_L = cells.numbers("run_s", _RUN)
    submit_L = cells.numbers("submit_s", Number(unit="s", least=0.0, most=LATEST_S))
    no_gpu_L = ~(gpus_L > 0)
    never_L = ~no_gpu_L & np.isnan(run_L)
    at_J = np.flatnonzero(~no_gpu_L & ~never_L)
    ignored, first = {}, {}
    for reason, out_L in ((NO_GPU, no_gpu_L), (NEVER_RAN, never_L)):
        if out_L.any():
            ignored[reason] = int(out_L.sum())
            first[reason] = cells.row(int(np.argmax(out_L)))
    if not at_J.size:
        reasons = ", ".join(f"{n} {why}" for why, n in ignored.items()) or "it has no rows"
        raise InvalidSpecError(f"job table '{path}' has no jobs to schedule: {reasons}")
    _refuse_empty(cells, "submit_s", submit_L, at_J)
    moved = int((np.diff(submit_L[at_J]) < 0).sum())
    at_J = at_J[np.argsort(submit_L[at_J], kind="stable")]
    submit_J = submit_L[at_J] - submit_L[at_J[0]]
    if submit_J[-1] > MAX_S:
        late = f"submitted {submit_J[-1]:g} s after the first job: expected at most {MAX_S:g} s"
        raise cells.wrong(int(at_J[-1]), late)
    gpus_J = gpus_L[at_J].astype(np.int64)
    nodes_J = _counts(cells, "nodes", at_J)
    if nodes_J is not None and (nodes_J > gpus_J).any():
        row = int(np.argmax(nodes_J > gpus_J))
        request = f"{counted(nodes_J[row], 'node')} for {counted(gpus_J[row], 'GPU')}"
        raise cells.wrong(int(at_J[row]), f"{request}: expected at most one node per GPU")
    requeue_J = None
    if "requeue" in cells.columns:
        requeue_J = cells.switches("requeue", empty=True)[at_J]
    user_J, users = _names(cells, "user", at_J)
    kind_J, kinds = _names(cells, "kind", at_J)
    return JobTrace(
        jobs=Jobs(
            submit_J=ticks(submit_J),
            run_J=ticks(run_L[at_J]),
            gpus_J=gpus_J,
            nodes_J=nodes_J,
            fewest_J=_counts(cells, "fewest_nodes", at_J),
            limit_J=_limits(cells, at_J),
            checkpoint_J=_times(cells, "checkpoint_interval_s", at_J),
            restart_J=_times(cells, "restart_s", at_J),
            priority_J=_priorities(cells, at_J),
            requeue_J=requeue_J,
            user_J=user_J,
            users=users,
            kind_J=kind_J,
            kinds=kinds,
            row_J=at_J + cells.row(0),
        ),
        total=cells.size,
        ignored=ignored,
        first=first,
        moved=moved,
        start_s=float(submit_L[at_J[0]]),
    )


def _refuse_empty(cells: Cells, name: str, value_L: Float, at_J: Ints) -> None:
    empty_J = np.isnan(value_L[at_J])
    if empty_J.any():
        raise cells.wrong(int(at_J[np.argmax(empty_J)]), f"{name} is empty")


def _counts(cells: Cells, name: str, at_J: Ints) -> Ints | None:
    """Return counts of nodes, None where the table has none."""
    if name not in cells.columns:
        return None
    value_L = cells.numbers(name, Number(least=1, most=MAX_NUMBER, whole=True))
    _refuse_empty(cells, name, value_L, at_J)
    return value_L[at_J].astype(np.int64)


def _times(cells: Cells, name: str, at_J: Ints) -> Ints | None:
    """Return times in ticks, 0 where empty; None where the table has none."""
    if name not in cells.columns:
        return None
    return ticks(np.nan_to_num(cells.numbers(name, _RUN)[at_J]))


def _limits(cells: Cells, at_J: Ints) -> Ints | None:
    """Return limits in ticks, NEVER where empty; None where the table has none."""
    if "limit_s" not in cells.columns:
        return None
    least_s = 1.0 / TICKS_PER_SECOND
    value_J = cells.numbers("limit_s", Number(unit="s", least=least_s, most=MAX_S))[at_J]
    return np.where(np.isnan(value_J), NEVER, ticks(np.nan_to_num(value_J)))


def _priorities(cells: Cells, at_J: Ints) -> Ints | None:
    if "priority" not in cells.columns:
        return None
    value_J = cells.numbers("priority", Number(least=-MAX_NUMBER, most=MAX_NUMBER, whole=True))[
        at_J
    ]
    return np.nan_to_num(value_J).astype(np.int64)


def _names(cells: Cells, name: str, at_J: Ints) -> tuple[Ints | None, tuple[str, ...]]:
    """Return codes and names; a single name where the table has none."""
    if name not in cells.columns:
        return None, ("all",)
    notes = cells.texts(name)
    texts = [notes[at] for at in at_J.tolist()]
    names = tuple(dict.fromkeys(texts))
    code_of = {text: code for code, text in enumerate(names)}
    return np.array([code_of[text] for text in texts], np.int64), names
