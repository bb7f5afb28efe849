"""Run replicas of a job: a fixed number, or until the interval is narrow enough.

Shape legend: R replicas, F fields of an outcome.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.fleet.model import PackedJob, fleet_rate_per_s, grown, pack
from perfatlas.reliability.fleet.simulator.outcome import JobOutcome

if TYPE_CHECKING:
    from perfatlas.reliability.fleet.model import Job, Strategy

SLICE_S: Final = 0.2  # replicas per compiled call; Ctrl-C works between calls
MAX_REPLICAS: Final = 20_000_000  # some gigabytes of results
FIRST: Final = 64  # fewest replicas before a half-width is accepted
MIN_REPLICAS: Final = 8  # where each replica has very many failures
FIRST_FAILURES: Final = 10_000_000  # events, about a second


def simulate(job: Job, strategy: Strategy, *, replicas: int, seed: int = 0) -> JobOutcome:
    """Return the results of simulated replicas of a job.

    Replica r sees the same failures under every strategy that exposes it to the same parts: random
    numbers are indexed by seed, replica, cause and draw.

    Raises:
        InfeasibleError: The job is larger than the fleet.

    Limits: surviving parts keep their age, as do parts of an idle unit or of a unit repaired for
        another part; a part in a spare that takes over has the age of the part it replaces. A
        durability lag that spans a change of speed is measured at the new speed. With unlimited
        spares (`Spares.count` is None) repaired units never return, so that there are no relapses.

    Example:
        >>> from perfatlas.reliability.fleet.model import Level, Restart, Strategy, one_cause
        >>> from perfatlas.reliability.fleet.simulator import simulate
        >>> from perfatlas.reliability.fleet.model import Job
        >>> strategy = Strategy(interval_s=1800.0, levels=(Level(write_s=60.0),),
        ...     restarts=(Restart(name="restart", phases={"load": 300.0}),))
        >>> job = Job(fleet=one_cause(7.9 * 3600, 8), units=8, horizon_s=30 * 86400.0)
        >>> print(f"{simulate(job, strategy, replicas=200).goodput:.2f}")
        0.93
    """
    if not 1 <= replicas <= MAX_REPLICAS:
        raise InvalidSpecError(f"replicas = {replicas}: expected 1 to {MAX_REPLICAS:,}")
    packed = packed_job(job, strategy)
    outcome_RF, _ = run(packed, (seed, 0), replicas)
    return JobOutcome(outcome_RF, packed)


def simulate_until(
    job: Job,
    strategy: Strategy,
    *,
    half_width: float,
    relative_to: float | None = None,
    most_replicas: int = 1_000_000,
    seed: int = 0,
) -> JobOutcome:
    """Return enough replicas for a 95% interval of the mean goodput of the requested width.

    Args:
        half_width: Relative half-width of the interval, such as 0.002.
        relative_to: Goodput that it is relative to; None for the mean.
        most_replicas: Maximum number of replicas; `converged` is false where it is reached.

    Raises:
        InfeasibleError: The job is larger than the fleet.

    Source: sequential sampling with a growing sample; checked after 64, 128, 256, ... replicas,
        rarely enough that early stopping hardly biases the interval, and only after some failures,
        as identical replicas carry no information. Where a replica has over 150,000 events, the
        first sample is smaller.
    """
    if not 0.0 < half_width < 1.0:
        raise InvalidSpecError(f"half_width = {half_width:g}: expected a share, such as 0.002")
    packed = packed_job(job, strategy)
    rows: list[np.ndarray[tuple[int, ...], np.dtype[np.int64]]] = []
    expected = fleet_rate_per_s(job.fleet, job.units) * job.horizon_s
    first = max(int(min(FIRST_FAILURES / max(expected, 1.0), FIRST)), MIN_REPLICAS)
    done, wanted = 0, min(first, most_replicas)
    while True:
        more, packed = run(packed, (seed, done), wanted - done)
        rows.append(more)
        done = wanted
        outcome = JobOutcome(np.concatenate(rows), packed)
        scale = outcome.goodput if relative_to is None else relative_to
        sure = outcome.half_width <= half_width * max(scale, 1e-300)
        if (sure and not outcome.met_few) or done >= most_replicas:
            outcome.converged = bool(sure)
            return outcome
        wanted = min(2 * done, most_replicas)


def packed_job(job: Job, strategy: Strategy) -> PackedJob:
    """Return a job for compiled code."""
    if job.work_s is not None and (not math.isfinite(job.work_s) or job.work_s <= 0.0):
        raise InvalidSpecError(f"work_s = {job.work_s:g}: expected a time above zero")
    return pack(job.fleet, job.units, strategy, job.horizon_s, work_s=job.work_s)


def run(
    packed: PackedJob, drawn: tuple[int, int], replicas: int
) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.int64]], PackedJob]:
    """Return rows of an outcome (R, F), and the job with sufficiently large heaps."""
    from perfatlas.reliability.fleet.simulator.replica import FIELDS, run_replicas

    seed, first = drawn
    outcome_RF = np.zeros((replicas, len(FIELDS)), np.int64)
    done, size = 0, 1
    while done < replicas:
        rows = outcome_RF[done : done + size]
        started = time.perf_counter()
        plan_1, job_1, stores, _ = packed
        ran = run_replicas(plan_1, job_1, stores, (seed, first + done), rows)
        done += ran
        size = 2 * size if time.perf_counter() - started < SLICE_S / 2 else max(size // 2, 1)
        if ran < rows.shape[0]:
            packed = grown(packed)
    return outcome_RF, packed
