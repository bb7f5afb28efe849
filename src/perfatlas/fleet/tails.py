"""Rare outcomes by splitting: how likely a job loses far more time than usual.

Time that was not productive only grows, so a job that loses much first loses less. Replicas that
reach a level are copied, every copy goes on with its own random numbers, and the probability is the
product of the shares that reach each next level.

Shape legend: R replicas, S states kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.fleet.draws import exponential, replica_key
from perfatlas.fleet.machine import entry
from perfatlas.fleet.packing import grown, ticks
from perfatlas.fleet.running import advance, start
from perfatlas.fleet.simulate import Job, packed_job, simulate
from perfatlas.fleet.state import IDLE, PRODUCTIVE, TICKS_PER_SECOND
from perfatlas.fleet.streams import MERGED_GAP, find_next
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.fleet.model import Strategy
    from perfatlas.fleet.packing import Packed
    from perfatlas.fleet.state import Stores

RUNS: Final = 8  # independent estimates behind the standard error


@dataclass(frozen=True, kw_only=True)
class Tail:
    """The probability of a rare outcome.

    Args:
        probability: That at least the time is lost.
        standard_error: Of it, from independent runs.
        levels_s: Losses at which replicas were copied [s], the last the one asked for.
        runs: Independent runs.
        replicas: Of each level and run.
    """

    probability: float
    standard_error: float
    levels_s: tuple[float, ...]
    runs: int
    replicas: int


@entry
def _start(
    plan_1: NDArray[Any],
    job_1: NDArray[Any],
    stores: Stores,
    drawn: tuple[int, int],
    loss: int,
) -> bool:
    """Return whether a new replica loses a time before its end."""
    start(plan_1[0], job_1[0], stores, drawn[0], drawn[1])
    return bool(advance(plan_1[0], job_1[0], stores, loss))


@entry
def _resume(
    plan_1: NDArray[Any],
    job_1: NDArray[Any],
    stores: Stores,
    drawn: tuple[int, int],
    loss: int,
) -> bool:
    """Return whether a copied replica, with new random numbers, loses a time before its end."""
    job = job_1[0]
    job.key = replica_key(drawn[0], drawn[1])
    if job.now - job.bucket[PRODUCTIVE] - job.bucket[IDLE] >= loss:
        return True  # it passed several levels at once
    if plan_1[0].memoryless > 0:  # the wait for the next failure may begin anew at any time
        wait = plan_1[0].mean_gap * exponential(job.key, MERGED_GAP, job.merged)
        job.merged_time = job.exposed + wait
        find_next(plan_1[0], job, stores)
    return bool(advance(plan_1[0], job_1[0], stores, loss))


def loss_probability(
    job: Job, strategy: Strategy, loss_s: float, *, replicas: int = 1000, seed: int = 0
) -> Tail:
    """Return how likely a job spends at least a time without productive work.

    For a job with `work_s` it is the probability to be done later than `work_s + loss_s`, for one
    that runs to its horizon that of a goodput of at most 1 - loss_s / horizon_s.

    Args:
        job: The job.
        strategy: How it lives with failures.
        loss_s: Time lost [s].
        replicas: Of each level.
        seed: Of the study.

    Raises:
        InfeasibleError: The job is larger than the fleet.
        InvalidSpecError: A number outside its range.

    Source: fixed-effort multilevel splitting, Garvels 2000: unbiased for fixed levels. Levels are
        set beforehand from other replicas, about one in five reaching the next.

    Limits: failures of ageing parts that were already due when a replica is copied are the same in
        its copies, so that they differ late where parts age slowly.
    """
    if not 0.0 < loss_s < job.horizon_s:
        raise InvalidSpecError(f"loss_s = {loss_s:g}: expected a time above 0 and in the horizon")
    packed = packed_job(job, strategy)
    levels = _levels(job, strategy, loss_s, replicas, seed)
    estimates = []
    for turn in range(RUNS):
        estimate, packed = _run(packed, levels, replicas, seed * 1000 + 1 + turn)
        estimates.append(estimate)
    return Tail(
        probability=float(np.mean(estimates)),
        standard_error=float(np.std(estimates, ddof=1) / math.sqrt(RUNS)),
        levels_s=levels,
        runs=RUNS,
        replicas=replicas,
    )


def _levels(
    job: Job, strategy: Strategy, loss_s: float, replicas: int, seed: int
) -> tuple[float, ...]:
    """Return losses [s] that about one in five replicas reaches from the one before."""
    outcome = simulate(job, strategy, replicas=max(replicas, 200), seed=seed * 1000)
    lost_R = (outcome.ended_R - outcome.column("productive")) / TICKS_PER_SECOND
    middle, spread = float(np.median(lost_R)), float(np.std(lost_R))
    first = float(np.quantile(lost_R, 0.8))
    if first >= loss_s or spread == 0.0:
        return (loss_s,)
    levels: list[float] = []
    level = first
    # the tail falls at least about as a normal one: steps shrink as levels rise
    while level < loss_s and len(levels) < 60:
        levels.append(level)
        level += 1.6 * spread / max((level - middle) / spread, 0.85)
    return (*levels, loss_s)


def _run(
    packed: Packed, levels: tuple[float, ...], replicas: int, seed: int
) -> tuple[float, Packed]:
    """Return one estimate, and the job with heaps as large as they needed to be."""
    random = np.random.default_rng(seed)
    states: list[tuple[Any, ...]] = []
    probability, number = 1.0, 0
    for place, level in enumerate(levels):
        reached: list[tuple[Any, ...]] = []
        for _ in range(replicas):
            number += 1
            if place == 0:
                hit, packed = _advanced(packed, None, (seed, number), ticks(level))
            else:
                state = states[int(random.integers(len(states)))]
                hit, packed = _advanced(packed, state, (seed, number), ticks(level))
            if hit:
                reached.append(_copied(packed))
        probability *= len(reached) / replicas
        states = reached
        if not states:
            return 0.0, packed
    return probability, packed


def _advanced(
    packed: Packed, state: tuple[Any, ...] | None, drawn: tuple[int, int], loss: int
) -> tuple[bool, Packed]:
    while True:
        if state is None:
            hit = _start(packed.plan_1, packed.job_1, packed.stores, drawn, loss)
        else:
            _restore(packed, state)
            hit = _resume(packed.plan_1, packed.job_1, packed.stores, drawn, loss)
        if packed.job_1["full"][0] == 0:
            return bool(hit), packed
        packed = grown(packed)


def _copied(packed: Packed) -> tuple[Any, ...]:
    job, stores = packed.job_1, packed.stores
    return (
        job.copy(),
        stores.renewal_H[: job["renewals"][0]].copy(),
        stores.return_G[: job["repairing"][0]].copy(),
        stores.lemon_Q.copy(),
        stores.down_D.copy(),
        stores.order_D.copy(),
        stores.spot_D.copy(),
    )


def _restore(packed: Packed, state: tuple[Any, ...]) -> None:
    packed.job_1[:] = state[0]
    for store, kept in zip(packed.stores[1:], state[1:], strict=True):
        store[: kept.size] = kept
