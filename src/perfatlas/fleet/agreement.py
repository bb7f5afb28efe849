"""The simulator beside the closed forms it has to agree with.

Each row compares one exact value with a simulated one whose interval is narrow; a difference of
more than three standard errors is a disagreement.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.fleet.asynchronous import asynchronous_efficiency
from perfatlas.fleet.corruption import VerifiedPattern, verified_time_s
from perfatlas.fleet.laws import Constant, Exponential, Law, LogNormal, Weibull, weibull_of_mean
from perfatlas.fleet.model import (
    Cause,
    Fleet,
    Level,
    Maintenance,
    Repair,
    RepairStage,
    Restart,
    Spares,
    Strategy,
    one_cause,
)
from perfatlas.fleet.multilevel import multilevel_efficiency
from perfatlas.fleet.renewal import optimal_interval_s, renewal_efficiency
from perfatlas.fleet.simulate import Job, simulate, simulate_until
from perfatlas.fleet.spares import birth_death_blocked, blocked_probability
from perfatlas.fleet.state import TICKS_PER_SECOND
from perfatlas.fleet.upkeep import Plain, maintained_efficiency
from perfatlas.telemetry.rates import standard_errors

if TYPE_CHECKING:
    from perfatlas.fleet.outcome import Outcome

HOUR_S: Final = 3600.0
DAY_S: Final = 86400.0
MTTIS_S: Final = (0.23 * HOUR_S, 1.8 * HOUR_S, 7.9 * HOUR_S, 100.0 * HOUR_S)
WRITES_S: Final = (5.0, 60.0, 300.0)
RESTARTS_S: Final = (60.0, 300.0, 900.0)
HALF_WIDTH: Final = 0.001  # twice as narrow as is asked: few replicas understate their error
SEGMENTS: Final = 240
SAFE: Final = (
    (0.23 * HOUR_S, 60.0, 900.0),
    (1.8 * HOUR_S, 300.0, 900.0),
    (7.9 * HOUR_S, 5.0, 300.0),
)


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """One value twice.

    Args:
        group: What is compared.
        name: At which point.
        exact: By the closed form.
        simulated: By the simulator.
        standard_error: Of the latter.
        half_width: Of its 95 % interval, relative to it.
        replicas: Behind it.
    """

    group: str
    name: str
    exact: float
    simulated: float
    standard_error: float
    half_width: float
    replicas: int

    @property
    def z(self) -> float:
        """The difference in standard errors."""
        return (self.simulated - self.exact) / self.standard_error


def renewal_study(*, half_width: float = HALF_WIDTH, seed: int = 1) -> list[Agreement]:
    """Return exact and simulated efficiency over 36 combinations of MTTI, write and restart.

    The interval is the exact optimum; detection takes a tenth of the restart and is safe. Failures
    strike in every restart of the 36; three points more have safe ones.

    Args:
        half_width: Of the simulated mean, relative.
        seed: Of the study.
    """
    rows = []
    points = [*product(MTTIS_S, WRITES_S, RESTARTS_S), *SAFE]
    unsafe = len(points) - len(SAFE)
    for number, (mtti_s, write_s, restart_s) in enumerate(points):
        exposed, detection_s = number < unsafe, restart_s / 10.0
        interval_s = round(float(optimal_interval_s(write_s, mtti_s)), 3)
        exact = renewal_efficiency(
            interval_s, write_s, restart_s, mtti_s, detection_s, restart_exposed=exposed
        )
        strategy = Strategy(
            interval_s=interval_s,
            levels=(Level(write_s=write_s),),
            restarts=(Restart(name="restart", phases={"all": restart_s}),),
            restart_exposed=exposed,
        )
        fleet = one_cause(mtti_s, 8, detection=Constant(value_s=detection_s))
        outcome = _worked(fleet, strategy, (float(exact.value_C), half_width), seed + number)
        safe = "" if exposed else ", safe"
        name = f"MTTI {mtti_s:g} s, write {write_s:g} s, restart {restart_s:g} s{safe}"
        rows.append(_row("renewal efficiency", name, float(exact.value_C), outcome))
    return rows


def pattern_study(*, half_width: float = HALF_WIDTH, seed: int = 2) -> list[Agreement]:
    """Return exact and simulated efficiency of the patterns beyond the plain one.

    Args:
        half_width: Of the simulated mean, relative.
        seed: Of the study.
    """
    h, rows = HOUR_S, []
    exact = float(asynchronous_efficiency(0.5 * h, 10.0, 0.1 * h, 0.2 * h, 1.8 * h).value_C)
    strategy = Strategy(
        interval_s=0.5 * h,
        levels=(Level(write_s=10.0, lag_s=0.1 * h, read_s=0.2 * h),),
    )
    # snapshots in flight at the very end are lost to nobody: a long job makes the end small
    job = Job(fleet=one_cause(1.8 * h, 8), units=8, horizon_s=4000 * h)
    outcome = simulate_until(job, strategy, half_width=half_width / 4, seed=seed)
    rows.append(_row("asynchronous checkpoints", "check value", exact, outcome))
    exact = float(
        multilevel_efficiency(
            0.2 * h, (1, 6), np.array([0.005, 0.05]) * h, np.array([0.02, 0.2]) * h,
            np.array([0.5, 0.1]) / h,
        )[0]
    )  # fmt: skip
    strategy = Strategy(
        interval_s=0.2 * h,
        levels=(
            Level(write_s=0.005 * h, read_s=0.02 * h, survives="process"),
            Level(write_s=0.05 * h, read_s=0.2 * h, every=6),
        ),
    )
    light = Cause(name="process", lifetime=Exponential(mean_s=2 * h), shared=1.0, loses="process")
    grave = Cause(name="node", lifetime=Exponential(mean_s=10 * h), shared=1.0)
    fleet = Fleet(units=8, causes=(light, grave))
    outcome = _worked(fleet, strategy, (exact, half_width), seed)
    rows.append(_row("multilevel checkpoints", "check value", exact, outcome))
    rows.append(_verified(half_width, seed))
    rows.append(_maintained(half_width, seed))
    return rows


def _maintained(half_width: float, seed: int) -> Agreement:
    h, often = HOUR_S, 2000
    job = Plain(1.0 * h, 60.0, 0.25 * h, 2.0 * h, 300.0)
    exact = float(maintained_efficiency(job, 48.0 * h, 3.0 * h).value_C)
    strategy = Strategy(
        interval_s=1.0 * h,
        levels=(Level(write_s=60.0, read_s=0.15 * h),),
        restarts=(Restart(name="restart", phases={"start": 0.1 * h}),),
        maintenance=Maintenance(every_s=48.0 * h, lasts_s=3.0 * h),
    )
    fleet = one_cause(2.0 * h, 8, detection=Constant(value_s=300.0))
    # the end cuts the period of one maintenance short: one of many
    horizon_s = (often + 0.5) * 48.0 * h
    watched = Job(fleet=fleet, units=8, horizon_s=horizon_s)
    outcome = simulate_until(watched, strategy, half_width=half_width / 4, seed=seed)
    return _row("planned maintenance", "48 h, 3 h", exact, outcome)


def _verified(half_width: float, seed: int) -> Agreement:
    h = HOUR_S
    pattern = VerifiedPattern(0.02 * h, 0.03 * h, 0.2 * h, 0.05 * h, 1 / (1.8 * h), 1 / (24 * h))
    exact = 0.5 * h / float(verified_time_s(0.5 * h, pattern))
    strategy = Strategy(
        interval_s=0.5 * h,
        levels=(Level(write_s=0.03 * h, read_s=0.2 * h),),
        verify_s=0.02 * h,
    )
    crash = Cause(
        name="crash",
        lifetime=Exponential(mean_s=1.8 * h),
        shared=1.0,
        detection=Constant(value_s=0.05 * h),
    )
    silent = Cause(
        name="silent", lifetime=Exponential(mean_s=24 * h), shared=1.0, effect="corrupts"
    )
    fleet = Fleet(units=8, causes=(crash, silent))
    outcome = _worked(fleet, strategy, (exact, half_width), seed)
    return _row("silent errors, verified", "check value", exact, outcome)


REPAIR_LAWS: Final[dict[str, Law]] = {
    "exponential": Exponential(mean_s=DAY_S),
    "deterministic": Constant(value_s=DAY_S),
    "lognormal": LogNormal(median_s=DAY_S / float(np.exp(0.5)), sigma=1.0),
    "Weibull 0.7": weibull_of_mean(DAY_S, 0.7),
}


def spares_study(*, replicas: int = 200, seed: int = 3) -> list[Agreement]:
    """Return exact and simulated shares of time a job waits for a spare.

    100 nodes that fail every 50 days each, repairs of a day on average, 2 spares: Erlang-B for any
    law of repairs; few crews and warm spares by their birth-death chains.

    Args:
        replicas: Of 20,000 days each.
        seed: Of the study.
    """
    rate, rows = 1 / (50 * DAY_S), []
    erlang = float(blocked_probability(100, 2, rate, DAY_S))
    for name, law in REPAIR_LAWS.items():
        rows.append(_blocked(f"Erlang-B, {name} repair", erlang, law, (replicas, seed)))
    one = birth_death_blocked(100, 2, rate, DAY_S / 4, crews=1)
    quarter = Exponential(mean_s=DAY_S / 4)
    rows.append(_blocked("one crew", one, quarter, (replicas, seed), crews=1))
    warm = birth_death_blocked(100, 10, rate, 3 * DAY_S, warm=True)
    three = Exponential(mean_s=3 * DAY_S)
    rows.append(_blocked("10 warm spares", warm, three, (replicas, seed), warm=10))
    return rows


def _blocked(
    name: str,
    exact: float,
    law: Law,
    drawn: tuple[int, int],
    *,
    crews: int | None = None,
    warm: int = 0,
) -> Agreement:
    cause = Cause(name="node", lifetime=Exponential(mean_s=50 * DAY_S), per_unit=1.0)
    repair = Repair(name="swap", stages=(RepairStage(name="swap", lasts=law),))
    spares = Spares(count=warm, kind="warm") if warm else Spares(count=2)
    fleet = Fleet(units=120, causes=(cause,), repairs=(repair,), crews=crews)
    strategy = Strategy(interval_s=HOUR_S, levels=(Level(write_s=0.0),), spares=spares)
    job = Job(fleet=fleet, units=100, horizon_s=20_000 * DAY_S)
    outcome = simulate(job, strategy, replicas=drawn[0], seed=drawn[1])
    share_R = outcome.column("waiting_for_spares") / outcome.horizon
    return _sampled("waiting for spares", name, exact, share_R)


def ageing_study(*, replicas: int = 400, seed: int = 4) -> list[Agreement]:
    """Return failure counts of fleets whose parts age, with repairs on.

    512 parts with a mean life of 100 days, watched for 60 days: with mixed ages N t / mean for any
    shape; fresh ones first fail at a Gamma(1 + 1/k) N^(-1/k) on average.

    Args:
        replicas: Of each fleet.
        seed: Of the study.
    """
    rows = []
    for shape in (0.7, 1.0, 2.0):
        law = weibull_of_mean(100 * DAY_S, shape)
        count_R = _ageing(law, "mixed", replicas, seed).column("failures").astype(np.float64)
        rows.append(_sampled("long-run failures", f"Weibull {shape}", 512 * 60 / 100, count_R))
        rows.append(_first_failure(law, replicas, seed))
    return rows


def _ageing(law: Law, ages: str, replicas: int, seed: int) -> Outcome:
    cause = Cause(name="part", lifetime=law, per_unit=1.0, ages=ages)  # type: ignore[arg-type]
    job = Job(fleet=Fleet(units=512, causes=(cause,)), units=512, horizon_s=60 * DAY_S)
    strategy = Strategy(interval_s=HOUR_S, levels=(Level(write_s=0.0),))
    return simulate(job, strategy, replicas=replicas, seed=seed)


def _first_failure(law: Weibull, replicas: int, seed: int) -> Agreement:
    """Return the mean time to the first failure of fresh parts, by a job that stops for good."""
    from math import gamma

    cause = Cause(name="part", lifetime=law, per_unit=1.0)
    repair = Repair(name="never", stages=(RepairStage(name="-", lasts=Constant(value_s=1e10)),))
    fleet = Fleet(units=512, causes=(cause,), repairs=(repair,))
    exact = law.scale_s * gamma(1 + 1 / law.shape) * 512 ** (-1 / law.shape)
    strategy = Strategy(interval_s=HOUR_S, levels=(Level(write_s=0.0),), spares=Spares(count=0))
    job = Job(fleet=fleet, units=512, horizon_s=400 * exact)
    outcome = simulate(job, strategy, replicas=10 * replicas, seed=seed)
    until_R = outcome.column("exposed") / TICKS_PER_SECOND
    return _sampled("first of fresh parts", f"Weibull {law.shape}", exact, until_R)


def _worked(fleet: Fleet, strategy: Strategy, wanted: tuple[float, float], seed: int) -> Outcome:
    """Run a fixed amount of work to its end: its mean time is exact in the closed forms."""
    exact, half_width = wanted
    work_s = SEGMENTS * strategy.interval_s
    job = Job(fleet=fleet, units=fleet.units, horizon_s=30 * work_s / exact, work_s=work_s)
    outcome = simulate_until(job, strategy, half_width=half_width, seed=seed)
    if outcome.unfinished:
        raise RuntimeError(f"{outcome.unfinished} replicas did not end; lengthen the horizon")
    return outcome


def _row(group: str, name: str, exact: float, outcome: Outcome) -> Agreement:
    return Agreement(
        group=group,
        name=name,
        exact=exact,
        simulated=outcome.goodput,
        standard_error=outcome.standard_error,
        half_width=outcome.half_width / outcome.goodput,
        replicas=outcome.ticks_RF.shape[0],
    )


def _sampled(
    group: str, name: str, exact: float, value_R: np.ndarray[tuple[int, ...], np.dtype[np.float64]]
) -> Agreement:
    error = float(value_R.std(ddof=1) / np.sqrt(value_R.size))
    return Agreement(
        group=group,
        name=name,
        exact=exact,
        simulated=float(value_R.mean()),
        standard_error=error,
        half_width=standard_errors(0.95) * error / float(value_R.mean()),
        replicas=value_R.size,
    )
