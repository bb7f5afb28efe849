"""Steady state of a schedule: its warm-up, and whether the waiting work grows.

Shape legend: J jobs in order of submission.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.reliability.jobs.model import TICKS_PER_SECOND
from perfatlas.sampling import FEWEST, SETTLED, warm_up

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.reliability.jobs.run.outcome import ScheduleOutcome

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

POINTS: Final = 100  # times at which waiting work is averaged


def waiting_growth(outcome: ScheduleOutcome) -> float:
    """Return the growth of the work of jobs that wait, over the time of all GPUs.

    It is the difference of the means over the second and the last third of the submissions.
    """
    submit_J, start_J = outcome.column("submit"), outcome.column("started")
    work_J = outcome.jobs.gpu_work()
    end = float(submit_J[-1])
    if not end:
        return 0.0
    times = np.linspace(end / 3.0, end, 2 * POINTS)
    waiting = _sum_until(submit_J, work_J, times) - _sum_until(start_J, work_J, times)
    rise = float(waiting[POINTS:].mean() - waiting[:POINTS].mean())
    return rise / (outcome.cluster.gpus * end / 3.0)


def measured_jobs(outcome: ScheduleOutcome) -> tuple[int, int, bool]:
    """Return the first and the last job that are measured, and whether the warm-up has ended.

    The warm-up is that of waiting and of the GPUs in use at submissions, whichever is longer.
    """
    submit_J, wait_s_J = outcome.column("submit"), outcome.waited_s_J
    count = int(np.count_nonzero(np.isfinite(wait_s_J)))
    begin = outcome.jobs.running
    if count - begin < 2 * FEWEST:
        return begin, count, False
    first = begin + max(warm_up(wait_s_J[begin:count]), warm_up(_gpus_in_use(outcome)[begin:count]))
    took_s_J = wait_s_J[:count] + outcome.column("run")[:count] / TICKS_PER_SECOND
    rest = float(np.percentile(took_s_J, 99)) * TICKS_PER_SECOND
    last = int(np.searchsorted(submit_J, outcome.now - rest))
    if last - first < FEWEST:
        return first, count, False
    return first, last, first - begin < SETTLED * (count - begin)


def _gpus_in_use(outcome: ScheduleOutcome) -> Floats:
    """Return the GPUs of running jobs at each submission (J,)."""
    gpus_J = np.asarray(outcome.jobs.gpus_J, np.float64)
    submit_J = outcome.column("submit")
    begun_J, ended_J = (
        _sum_until(outcome.column(name), gpus_J, submit_J) for name in ("started", "ended")
    )
    return begun_J - ended_J


def _sum_until(at_J: Ints, value_J: Floats, times: Ints | Floats) -> Floats:
    """Return the sum of the values of events up to each time; those at -1 never happen."""
    order = np.argsort(at_J, kind="stable")
    order = order[at_J[order] >= 0]
    total: Floats = np.concatenate(([0.0], np.cumsum(value_J[order])))
    return total[np.searchsorted(at_J[order], times, side="right")]
