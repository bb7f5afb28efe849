"""Silent errors that are detected after the last clean checkpoint was deleted.

Shape legend: X places in a segment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.quantities import counted, two_digits
from perfatlas.reliability.fleet.laws import mean_s, survival
from perfatlas.reliability.fleet.model import cause_rate_per_s

if TYPE_CHECKING:
    from perfatlas.reliability.fleet.laws import Law
    from perfatlas.reliability.fleet.model import Cause, Job, Strategy

NEGLIGIBLE_EVENTS: Final = 0.01  # expected events in the simulated time: one job in a hundred
MAX_CHECKPOINTS: Final = 1_000_000  # checkpoints, the largest number that a remark suggests
PLACES: Final = 200  # positions in a segment


def late_share(law: Law, retained: int, period_s: float) -> float:
    """Return the share of silent errors detected after the last clean checkpoint was deleted.

    Source: an error occurs uniformly in a segment, and its detection is late after k further
        checkpoints: the mean of P(T > (k - u) period) over u from 0 to 1.

    Limits: no other interruption between error and detection.

    Example:
        >>> from perfatlas.reliability.fleet.closed_form.late_detection import late_share
        >>> from perfatlas.reliability.fleet.laws import Constant
        >>> late_share(Constant(value_s=900.0), 1, 1200.0)  # late in the last 15 of 20 min
        0.75
    """
    into_X = (np.arange(PLACES) + 0.5) / PLACES
    ages_X = (retained - into_X) * period_s
    return float(np.mean([survival(law, age) for age in ages_X.tolist()]))


def kept_for(job: Job, strategy: Strategy) -> int:
    """Return the fewest retained checkpoints with which late detection is rare.

    Returns:
        0 where the retained ones suffice, or all are verified.
    """
    if not late_causes(job, strategy):
        return 0
    low, high = strategy.retained, strategy.retained + 1
    while high < MAX_CHECKPOINTS and _is_late(job, strategy, high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _is_late(job, strategy, middle) else (low, middle)
    return min(high, MAX_CHECKPOINTS)


def late_causes(job: Job, strategy: Strategy) -> list[tuple[Cause, float, float]]:
    """Return the causes detected late, their share of late errors and their expected number."""
    if strategy.verify_s:
        return []
    expected = _expected(job, strategy, strategy.retained)
    return [late for late in expected if late[2] >= NEGLIGIBLE_EVENTS]


def late_detection_remarks(job: Job, strategy: Strategy) -> list[str]:
    """Return remarks on silent errors that restart the job from scratch, with a remedy."""
    kept_s = strategy.retained * strategy.interval_s
    causes = late_causes(job, strategy)
    count = kept_for(job, strategy)
    return [
        f"{two_digits(100.0 * share)}% of the errors of {cause.name} are detected after the last"
        f" clean checkpoint was deleted, about {two_digits(times)} in the simulated time; the job"
        f" then starts over. Retaining {counted(strategy.retained, 'checkpoint')} covers"
        f" {kept_s:,.0f} s of work; retained = {count} in the strategy makes this rare, and verify"
        " detects errors before each checkpoint"
        for cause, share, times in causes
    ]


def _is_late(job: Job, strategy: Strategy, retained: int) -> bool:
    return any(times >= NEGLIGIBLE_EVENTS for _, _, times in _expected(job, strategy, retained))


def _expected(job: Job, strategy: Strategy, retained: int) -> list[tuple[Cause, float, float]]:
    """Return corrupting causes, their share of late errors and the late errors expected.

    Source: one error is undetected at a time: 1 + the sum of rate x latency between two errors.
    """
    watched_s = job.horizon_s if job.work_s is None else job.work_s
    period_s = strategy.interval_s + strategy.levels[0].write_s
    silent = [cause for cause in job.fleet.causes if cause.effect == "corrupts"]
    laws = [(cause, cause.lasts) for cause in silent if cause.lasts is not None]
    busy = sum(cause_rate_per_s(cause, job.units) * mean_s(law) for cause, law in laws)
    left_s = max(watched_s - (retained - 1) * period_s, 0.0)
    rows = []
    for cause, law in laws:
        share = late_share(law, retained, period_s)
        times = cause_rate_per_s(cause, job.units) / (1.0 + busy) * left_s * share
        rows.append((cause, share, times))
    return rows
