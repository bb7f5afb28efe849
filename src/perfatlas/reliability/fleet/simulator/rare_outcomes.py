"""Probability of rare outcomes by splitting: a job that loses far more time than usual.

Lost time only grows, so a large loss is reached through smaller ones. Replicas that reach a level
are copied, the promising ones more often, each copy continues with its own random numbers, and the
probability is the product of the weighted shares that reach each next level.

Shape legend: R replicas, S states kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from perfatlas.compiled import hold
from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.fleet.laws import IDLE, NEVER, PRODUCTIVE, TICKS_PER_SECOND
from perfatlas.reliability.fleet.model import Job, grown, ticks
from perfatlas.reliability.fleet.simulator.replica import FIELDS, run_replicas
from perfatlas.reliability.fleet.simulator.run import packed_job

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.reliability.fleet.model import Packed, Strategy

_State: TypeAlias = "tuple[NDArray[np.uint8], ...]"  # the job and its stores
MOST_LEVELS: Final = 100
RUNS: Final = 8  # independent estimates for the standard error
STEPS: Final = 10  # equidistant levels up to the requested loss, in addition to the sampled ones
FAIR: Final = 0.2  # share of copies drawn from any state, promising or not


class _Aim(NamedTuple):
    """The requested loss and the distribution of the loss of a whole job.

    Args:
        loss: Requested loss [ticks].
        mean: Mean loss of replicas [ticks].
    """

    loss: int
    mean: float
    variance: float


class _Kept(NamedTuple):
    """A replica that reached a level.

    Args:
        weight: Statistical weight; 1 on average.
        promise: Approximate probability that it reaches the requested loss.
    """

    state: _State
    weight: float
    promise: float


class _PackedColumns:
    """Buffers in which replicas run, one at a time.

    Args:
        packed: The job, as the last replica left it.
    """

    def __init__(self, packed: Packed) -> None:
        """Allocate the buffers."""
        self._row = hold(np.zeros((1, len(FIELDS)), np.int64))
        self._use(packed)

    def _use(self, packed: Packed) -> None:
        self.packed = packed
        self._held = (hold(packed.plan_1), hold(packed.job_1), hold(packed.stores))
        # bytes are copied at once, records field by field
        self._bytes = [one.view(np.uint8).reshape(-1) for one in (packed.job_1, *packed.stores[1:])]

    def lost(self) -> int:
        """Return the lost time [ticks]."""
        job = self.packed.job_1[0]
        return int(job["now"] - job["bucket"][PRODUCTIVE] - job["bucket"][IDLE])

    def advance(self, state: _State | None, drawn: tuple[int, int], loss: int) -> bool:
        """Return whether a new or copied replica loses the given time [ticks]; it stops there.

        Args:
            state: State to copy; None starts a new replica.
            drawn: Seed and number of the replica.
            loss: Lost time [ticks].
        """
        until = (loss, state is not None)
        while True:
            if state is not None:
                self._restore(state)
            if run_replicas(*self._held, drawn, until, self._row):
                return self.lost() >= loss
            self._use(grown(self.packed))

    def copied(self) -> _State:
        """Return a copy of the state of the replica."""
        job, stores = self.packed.job_1[0], self.packed.stores
        used = {
            1: int(job["renewals"]) * stores.renewal_H.itemsize,
            2: int(job["repairing"]) * stores.return_G.itemsize,
        }
        return tuple(one[: used.get(i)].copy() for i, one in enumerate(self._bytes))

    def _restore(self, state: _State) -> None:
        for store, kept in zip(self._bytes, state, strict=True):
            if kept.size:
                store[: kept.size] = kept


@dataclass(frozen=True, kw_only=True)
class Tail:
    """The probability of a rare outcome.

    Args:
        probability: Probability of losing at least the given time.
        standard_error: Its standard error, from independent runs.
        levels_s: Losses at which replicas were copied [s]; the last is the requested one.
        runs: Number of independent runs.
        replicas: Replicas per level and run.
    """

    probability: float
    standard_error: float
    levels_s: tuple[float, ...]
    runs: int
    replicas: int

    def interval(self, level: float) -> tuple[float, float]:
        """Return both ends of the probability's interval.

        Args:
            level: Confidence level, such as 0.9.

        Source: Student's t for the logarithm, as a product of shares is skewed.
        """
        from scipy.special import stdtrit

        if not self.probability:
            return 0.0, 0.0
        errors = float(stdtrit(self.runs - 1, (1.0 + level) / 2.0))
        factor = math.exp(errors * self.standard_error / self.probability)
        return self.probability / factor, min(self.probability * factor, 1.0)


def loss_probability(
    job: Job, strategy: Strategy, loss_s: float, *, replicas: int = 1000, seed: int = 0
) -> Tail:
    """Return the probability that a job loses at least a given time.

    For a job with `work_s` it is the probability of finishing later than `work_s + loss_s`, for one
    that runs to its horizon that of a goodput of at most 1 - loss_s / horizon_s.

    Args:
        strategy: Its fault-tolerance strategy.
        loss_s: Lost time [s].
        replicas: Replicas per level.

    Raises:
        InfeasibleError: The job is larger than the fleet.
        InvalidSpecError: A number outside its range.

    Source: fixed-effort multilevel splitting, Garvels 2000: unbiased for fixed levels. Levels are
        set beforehand from other replicas. A replica is copied in proportion to its estimated
        probability of losing the time, by a gamma distribution with the mean and variance of those
        other replicas, with reciprocal weights: unbiased for any such estimate.

    Limits: copies share the failures of ageing parts drawn before copying, so that they diverge
        late where parts age slowly.
    """
    if not 0.0 < loss_s < job.horizon_s:
        raise InvalidSpecError(
            f"loss_s = {loss_s:g}: expected a time above 0 and within the horizon"
        )
    room = _PackedColumns(packed_job(job, strategy))
    way = _levels(room, ticks(loss_s), replicas, seed * 1000)
    estimates = [_run(room, way, replicas, seed * 1000 + 1 + turn) for turn in range(RUNS)]
    return Tail(
        probability=float(np.mean(estimates)),
        standard_error=float(np.std(estimates, ddof=1) / math.sqrt(RUNS)),
        levels_s=tuple(level / TICKS_PER_SECOND for level in way[0]),
        runs=RUNS,
        replicas=replicas,
    )


def _levels(room: _PackedColumns, loss: int, replicas: int, seed: int) -> tuple[list[int], _Aim]:
    """Return losses at which replicas are copied [ticks], and the aim.

    One in five replicas reaches each level from the one before; additional equidistant levels
    capture replicas with large early losses, rare at the first level but most of the last.
    """
    levels: list[int] = []
    kept: list[_Kept] = []
    aim = _Aim(loss, 0.0, 0.0)
    random = np.random.default_rng(seed)
    while len(levels) < MOST_LEVELS:
        lost = []
        for number, (start, _) in enumerate(_drawn(kept, replicas, random)):
            room.advance(start, (seed, number), NEVER)
            lost.append(room.lost())
        if not levels:
            aim = _Aim(loss, float(np.mean(lost)), float(np.var(lost)))
        beyond = [value for value in lost if value > (levels[-1] if levels else 0)]
        level = int(np.quantile(lost, 0.8))
        if levels and level <= levels[-1]:
            level = min(beyond, default=loss)
        if level >= loss:
            break
        reached = _reached(room, (kept, level, aim), replicas, random)
        if not reached:
            break
        levels.append(level)
        kept = reached
    steps = {loss * step // STEPS for step in range(1, STEPS)}
    return sorted({*levels, *steps, loss} - {0}), aim


def _run(room: _PackedColumns, way: tuple[list[int], _Aim], replicas: int, seed: int) -> float:
    """Return one estimate."""
    levels, aim = way
    random = np.random.default_rng(seed)
    kept: list[_Kept] = []
    probability = 1.0
    for level in levels:
        kept = _reached(room, (kept, level, aim), replicas, random)
        probability *= sum(one.weight for one in kept) / replicas
        if not kept:
            return 0.0
    return probability


def _reached(
    room: _PackedColumns,
    stage: tuple[list[_Kept], int, _Aim],
    replicas: int,
    random: np.random.Generator,
) -> list[_Kept]:
    """Return the states at which new or copied replicas reach a level [ticks]."""
    kept, level, aim = stage
    seed = int(random.integers(2**62))
    reached = []
    for number, (start, weight) in enumerate(_drawn(kept, replicas, random)):
        if room.advance(start, (seed, number), level):
            reached.append(_Kept(room.copied(), weight, _promise(room, aim)))
    return reached


def _drawn(
    kept: list[_Kept], replicas: int, random: np.random.Generator
) -> list[tuple[_State | None, float]]:
    """Return states to continue from, promising ones more often, with reciprocal weights."""
    if not kept:
        return [(None, 1.0)] * replicas
    weight_S = np.array([one.weight for one in kept])
    fair_S = weight_S / weight_S.sum()
    wanted_S = weight_S * np.array([one.promise for one in kept])
    total = wanted_S.sum()
    chance_S = fair_S if total <= 0.0 else FAIR * fair_S + (1.0 - FAIR) * wanted_S / total
    steps = (np.arange(replicas) + random.random()) / replicas
    chosen = np.searchsorted(np.cumsum(chance_S)[:-1], steps)
    return [(kept[i].state, float(fair_S[i] / chance_S[i])) for i in chosen.tolist()]


def _promise(room: _PackedColumns, aim: _Aim) -> float:
    """Return the approximate probability that a job goes on to reach the requested loss."""
    from scipy.special import gammaincc

    plan, job, lost = room.packed.plan_1[0], room.packed.job_1[0], room.lost()
    if aim.variance <= 0.0 or lost >= aim.loss:
        return 1.0
    left = 1.0 - float(job["now"]) / float(plan["horizon"])
    if plan["segments"] > 0:
        work = float(plan["segments"] - 1) * float(plan["work"]) + float(plan["last_work"])
        left = 1.0 - float(job["bucket"][PRODUCTIVE]) / work
    shape = max(left, 1e-9) * aim.mean**2 / aim.variance
    return float(gammaincc(shape, (aim.loss - lost) * aim.mean / aim.variance))
