"""Silent errors that are noticed after the last clean checkpoint is gone.

Shape legend: X places in a segment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.fleet.laws import mean_s, survival
from perfatlas.fleet.model import cause_rate_per_s
from perfatlas.quantities import counted

if TYPE_CHECKING:
    from perfatlas.fleet.laws import Law
    from perfatlas.fleet.model import Cause, Job, Strategy

RARE: Final = 0.01  # times in the time watched: one such job in a hundred
MOST: Final = 1_000_000  # checkpoints that are named as a way out
PLACES: Final = 200  # in a segment


def late_share(law: Law, retained: int, period_s: float) -> float:
    """Return which share of silent errors is noticed after the last clean checkpoint is gone.

    Args:
        law: Of the time until one is noticed.
        retained: Checkpoints kept.
        period_s: From one checkpoint to the next [s].

    Source: an error strikes anywhere in a segment, and is late once so many checkpoints came after
        it: the mean of P(T > (k - u) period) over u from 0 to 1.

    Limits: a job that is not stopped by anything else between error and notice.

    Example:
        >>> from perfatlas.fleet.closed_form.late_detection import late_share
        >>> from perfatlas.fleet.laws import Constant
        >>> late_share(Constant(value_s=900.0), 1, 1200.0)  # strikes after 5 of 20 minutes
        0.75
    """
    into_X = (np.arange(PLACES) + 0.5) / PLACES
    ages_X = (retained - into_X) * period_s
    return float(np.mean([survival(law, age) for age in ages_X.tolist()]))


def kept_for(job: Job, strategy: Strategy) -> int:
    """Return the fewest checkpoints with which silent errors hardly ever outlive all clean ones.

    Args:
        job: The job.
        strategy: How it lives with failures.

    Returns:
        0 where those that are kept are enough, or all are verified.
    """
    if not late_causes(job, strategy):
        return 0
    low, high = strategy.retained, strategy.retained + 1
    while high < MOST and _is_late(job, strategy, high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _is_late(job, strategy, middle) else (low, middle)
    return min(high, MOST)


def late_causes(job: Job, strategy: Strategy) -> list[tuple[Cause, float, float]]:
    """Return what is noticed too late, its share of late ones and how often that is expected.

    Args:
        job: The job.
        strategy: How it lives with failures.
    """
    if strategy.verify_s:
        return []
    expected = _expected(job, strategy, strategy.retained)
    return [found for found in expected if found[2] >= RARE]


def late_finds(job: Job, strategy: Strategy) -> list[str]:
    """Return which silent errors throw a job back to its beginning, and what would help.

    Args:
        job: The job.
        strategy: How it lives with failures.
    """
    kept_s = strategy.retained * strategy.interval_s
    found = late_causes(job, strategy)
    kept = kept_for(job, strategy)
    return [
        f"{100.0 * share:.2g} % of the errors of {cause.name} are noticed after the last clean"
        f" checkpoint is gone, some {times:.2g} in the time watched, and the job then begins anew:"
        f" {counted(strategy.retained, 'checkpoint')} kept reach back {kept_s:.4g} s of work;"
        f" retained = {kept} of a strategy makes that rare, verify notices before one is written"
        for cause, share, times in found
    ]


def _is_late(job: Job, strategy: Strategy, retained: int) -> bool:
    return any(times >= RARE for _, _, times in _expected(job, strategy, retained))


def _expected(job: Job, strategy: Strategy, retained: int) -> list[tuple[Cause, float, float]]:
    """Return causes that corrupt, their share of late ones and the late ones in the time watched.

    Source: one error is under way at a time: 1 + the sum of rate x latency between two strikes.
    """
    watched_s = job.horizon_s if job.work_s is None else job.work_s
    period_s = strategy.interval_s + strategy.levels[0].write_s
    silent = [cause for cause in job.fleet.causes if cause.effect == "corrupts"]
    laws = [(cause, cause.lasts) for cause in silent if cause.lasts is not None]
    busy = sum(cause_rate_per_s(cause, job.units) * mean_s(law) for cause, law in laws)
    left_s = max(watched_s - (retained - 1) * period_s, 0.0)
    found = []
    for cause, law in laws:
        share = late_share(law, retained, period_s)
        times = cause_rate_per_s(cause, job.units) / (1.0 + busy) * left_s * share
        found.append((cause, share, times))
    return found
