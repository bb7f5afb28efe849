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

from perfatlas.fleet.packing import grown, ticks
from perfatlas.fleet.running import FIELDS, run_replicas
from perfatlas.fleet.simulate import Job, packed_job
from perfatlas.fleet.state import IDLE, NEVER, PRODUCTIVE, TICKS_PER_SECOND
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from perfatlas.fleet.model import Strategy
    from perfatlas.fleet.packing import Packed

_State = tuple[Any, ...]
MOST_LEVELS: Final = 100
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
    levels, packed = _levels(packed, ticks(loss_s), replicas, seed * 1000)
    estimates = []
    for turn in range(RUNS):
        estimate, packed = _run(packed, levels, replicas, seed * 1000 + 1 + turn)
        estimates.append(estimate)
    return Tail(
        probability=float(np.mean(estimates)),
        standard_error=float(np.std(estimates, ddof=1) / math.sqrt(RUNS)),
        levels_s=tuple(level / TICKS_PER_SECOND for level in levels),
        runs=RUNS,
        replicas=replicas,
    )


def _levels(packed: Packed, loss: int, replicas: int, seed: int) -> tuple[list[int], Packed]:
    """Return losses [ticks] that one in five replicas reaches from the one before."""
    levels: list[int] = []
    states: list[_State] = []
    random = np.random.default_rng(seed)
    while len(levels) < MOST_LEVELS:
        lost = []
        for number in range(replicas):
            state = states[int(random.integers(len(states)))] if states else None
            _, packed = _advanced(packed, state, (seed, number), NEVER)
            lost.append(_lost(packed))
        beyond = [value for value in lost if value > (levels[-1] if levels else 0)]
        level = int(np.quantile(lost, 0.8))
        if levels and level <= levels[-1]:
            level = min(beyond, default=loss)
        if level >= loss:
            break
        reached, packed = _reached(packed, (states, level), replicas, random)
        if not reached:
            break
        levels.append(level)
        states = reached
    return [*levels, loss], packed


def _run(packed: Packed, levels: list[int], replicas: int, seed: int) -> tuple[float, Packed]:
    """Return one estimate, and the job with heaps as large as they needed to be."""
    random = np.random.default_rng(seed)
    states: list[_State] = []
    probability = 1.0
    for level in levels:
        states, packed = _reached(packed, (states, level), replicas, random)
        probability *= len(states) / replicas
        if not states:
            return 0.0, packed
    return probability, packed


def _reached(
    packed: Packed,
    stage: tuple[list[_State], int],
    replicas: int,
    random: np.random.Generator,
) -> tuple[list[_State], Packed]:
    """Return the states in which replicas, copied from others or new, reach a level [ticks]."""
    states, level = stage
    seed = int(random.integers(2**62))
    reached = []
    for number in range(replicas):
        state = states[int(random.integers(len(states)))] if states else None
        hit, packed = _advanced(packed, state, (seed, number), level)
        if hit:
            reached.append(_copied(packed))
    return reached, packed


def _lost(packed: Packed) -> int:
    job = packed.job_1[0]
    return int(job["now"] - job["bucket"][PRODUCTIVE] - job["bucket"][IDLE])


def _advanced(
    packed: Packed, state: _State | None, drawn: tuple[int, int], loss: int
) -> tuple[bool, Packed]:
    """Return whether a new or copied replica loses a time [ticks], and the job as it then is."""
    row_1F = np.zeros((1, len(FIELDS)), np.int64)
    while True:
        if state is not None:
            _restore(packed, state)
        plan_1, job_1, stores, _ = packed
        if run_replicas(plan_1, job_1, stores, drawn, (loss, state is not None), row_1F):
            return _lost(packed) >= loss, packed
        packed = grown(packed)


def _copied(packed: Packed) -> _State:
    job, stores = packed.job_1, packed.stores
    return (
        job.copy(),
        stores.renewal_H[: job["renewals"][0]].copy(),
        stores.return_G[: job["repairing"][0]].copy(),
        stores.lemon_Q.copy(),
        stores.down_D.copy(),
        stores.order_D.copy(),
        stores.spot_D.copy(),
        stores.bad_DL.copy(),
    )


def _restore(packed: Packed, state: _State) -> None:
    packed.job_1[:] = state[0]
    for store, kept in zip(packed.stores[1:], state[1:], strict=True):
        store[: kept.size] = kept
