"""The optimal work between checkpoints by simulation, for failures that are not memoryless.

All intervals are tried with common random numbers, so that few replicas suffice.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from perfatlas.reliability.fleet.closed_form import best_interval_s, likely_interval_s
from perfatlas.reliability.fleet.model import Job, fleet_rate_per_s, not_memoryless
from perfatlas.reliability.fleet.simulator.run import simulate

if TYPE_CHECKING:
    from perfatlas.reliability.fleet.model import Strategy

STEP: Final = 2.0  # factor between intervals of the first scan
MAX_STEPS: Final = 9  # steps up or down
NARROWINGS: Final = 6  # golden-section steps; the last bracket is 4 x 0.618^6, +- 12%
FAILURES: Final = 100_000  # total of all replicas of an interval
MIN_REPLICAS: Final = 4
MAX_REPLICAS: Final = 128
MIN_ROUNDS: Final = 10.0  # fewest segments in the horizon, or the end effect would dominate
GOLDEN: Final = (math.sqrt(5.0) - 1.0) / 2.0


def chosen_interval_s(job: Job, strategy: Strategy, seed: int) -> tuple[float | None, str]:
    """Return the optimal work between checkpoints [s] and its basis, or why there is none.

    Args:
        strategy: Its fault-tolerance strategy, without the interval.

    Returns:
        The closed-form optimum for memoryless failures; otherwise the best found by simulation,
        None where it exceeds a tenth of the horizon or a factor of a thousand from the first guess.

    Source: steps of 2 from the optimum of memoryless failures to a peak, then a golden section in
        its logarithm; all with common random numbers.

    Limits: the optimum for the starting ages and duration of this job, within about 12%, where
        goodput is flat.
    """
    best_s, text = best_interval_s(job.fleet, job.units, strategy)
    around_s, _ = likely_interval_s(job.fleet, job.units, strategy)
    why = not_memoryless(job.fleet, strategy)
    if around_s is None or not why:
        return best_s, text
    optimum_s = _searched_s(job, strategy, around_s, seed)
    if optimum_s is None:
        return None, (
            f"failures are not memoryless ({', '.join(why)}), and no optimal interval was found"
            " within the simulated time"
        )
    return optimum_s, (
        "the best of several simulated with the same failures, for these initial ages and this"
        f" duration: no closed form covers {' and '.join(why)}"
    )


def _searched_s(job: Job, strategy: Strategy, around_s: float, seed: int) -> float | None:
    watched_s = job.horizon_s if job.work_s is None else job.work_s
    failures = fleet_rate_per_s(job.fleet, job.units) * watched_s
    count = int(min(max(FAILURES / max(failures, 1.0), MIN_REPLICAS), MAX_REPLICAS))
    seen: dict[float, float] = {}

    def goodput(interval_s: float) -> float:
        if interval_s not in seen:
            tried = replace(strategy, interval_s=interval_s)
            seen[interval_s] = simulate(job, tried, replicas=count, seed=seed).goodput
        return seen[interval_s]

    peak_s = min(around_s, watched_s / MIN_ROUNDS)
    for _ in range(MAX_STEPS):
        best_s = max((peak_s / STEP, peak_s, peak_s * STEP), key=goodput)
        if best_s == peak_s:
            break
        peak_s = best_s
    else:
        return None
    if peak_s * STEP > watched_s / MIN_ROUNDS:
        return None
    low, high = peak_s / STEP, peak_s * STEP
    for _ in range(NARROWINGS):
        left = high * (low / high) ** GOLDEN
        right = low * (high / low) ** GOLDEN
        low, high = (low, right) if goodput(left) >= goodput(right) else (left, high)
    return max(seen, key=lambda interval_s: seen[interval_s])
