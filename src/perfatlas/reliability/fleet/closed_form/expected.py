"""Selection of the closed form for a job on a fleet, its value and what it omits.

Shape legend: C candidates, L levels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from perfatlas.quantities import significant
from perfatlas.reliability.fleet import model
from perfatlas.reliability.fleet.closed_form import renewal
from perfatlas.reliability.fleet.closed_form.asynchronous import with_durability_lag
from perfatlas.reliability.fleet.closed_form.corruption import VerifiedPattern, verified_time_s
from perfatlas.reliability.fleet.closed_form.maintenance import Plain, maintained_efficiency
from perfatlas.reliability.fleet.closed_form.multilevel import multilevel_efficiency
from perfatlas.reliability.fleet.laws import Constant, mean_s

MAX_SEGMENTS: Final = 400  # segments of an outer period; a matrix with this many rows is solved
RENEWAL: Final = "exact renewal efficiency (Daly 2006)"
LAGGING: Final = "exact renewal efficiency with a lag of durability"
MAINTAINED: Final = "renewal efficiency with planned maintenance"
LEVELS: Final = "Markov chain of checkpoint levels (Moody 2010)"
VERIFIED: Final = "verified checkpoints (Aupy 2013)"


@dataclass(frozen=True, kw_only=True)
class Expected:
    """Result of a closed form for a job."""

    goodput: float | None  # Long-run share of useful time; None where no form describes the job
    form: str  # Name of the form, or why there is none
    # Effects that the form does not model; where empty, a simulation agrees
    leaves_out: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Demand:
    """Inputs of the closed forms, taken from a fleet and a strategy."""

    rate_L: tuple[float, ...]  # Failure rate by the checkpoint level needed [1/s] (L,)
    silent: float  # Rate of silent errors [1/s]
    detection_s: float  # Mean downtime before a failure is noticed [s]
    restart_L: tuple[float, ...]  # Mean restart with the read of each level [s] (L,)

    @property
    def failing(self) -> float:
        """Rate of failures that stop the job [1/s]."""
        return sum(self.rate_L)


def expected_goodput(fleet: model.Fleet, units: int, strategy: model.Strategy) -> Expected:
    """Return the long-run goodput of a job by the closed form that applies to it.

    Example:
        >>> from perfatlas.reliability.fleet.closed_form import expected_goodput
        >>> from perfatlas.reliability.fleet.model import Level, Restart, Strategy, one_cause
        >>> strategy = Strategy(interval_s=1807.6, levels=(Level(write_s=60.0),),
        ...     restarts=(Restart(name="restart", phases={"load": 300.0}),))
        >>> goodput = expected_goodput(one_cause(7.9 * 3600, 8), 8, strategy)
        >>> print(f"{goodput.goodput:.5f} {goodput.form} {goodput.leaves_out}")
        0.92662 exact renewal efficiency (Daly 2006) ()
    """
    beyond = _beyond(fleet, strategy)
    if beyond:
        return Expected(goodput=None, form=f"no closed form: {beyond}")
    demand = _demand(fleet, units, strategy)
    if not demand.failing and not demand.silent:
        return Expected(goodput=None, form="no closed form: nothing stops the job")
    value, form, more = _value(demand, strategy, strategy.interval_s)
    return Expected(goodput=value, form=form, leaves_out=(*_left_out(fleet, strategy), *more))


def known_mtti_s(job: model.Job, strategy: model.Strategy) -> float | None:
    """Return the mean time to interruption of an exposed job [s], where rates determine it.

    Returns:
        None where only a simulation applies: ageing parts, retired lemons, false fixes, silent
        errors, slow units that are replaced, warm spares, partly failed units, elastic operation,
        or no failures.
    """
    stops = [cause for cause in job.fleet.causes if cause.effect == "stops"]
    effects = {cause.effect for cause in job.fleet.causes}
    replaced = "slows" in effects and strategy.slow_patience_s is not None
    steady = (
        not model.not_memoryless(job.fleet, strategy) and "corrupts" not in effects and not replaced
    )
    cold = strategy.spares.kind == "cold" or strategy.spares.count is None
    whole = job.fleet.parts_per_unit == 1 and strategy.shrink is None
    rate = sum(model.cause_rate_per_s(cause, job.units) for cause in stops)
    return 1.0 / rate if steady and cold and whole and rate else None


def restart_remark(strategy: model.Strategy, mtti_s: float, goodput: float) -> str:
    """Return a remark where restarts take longer than the mean time to failure.

    Args:
        mtti_s: Mean time to the next failure while the job is exposed [s].

    Returns:
        "" where restarts are shorter, or failures cannot occur during a restart.
    """
    restart_s = sum(map(_mean, strategy.restarts[0].phases.values()))
    if strategy.step_s is None:  # otherwise peers hold the state
        restart_s += _mean(strategy.levels[0].read_s)
    if restart_s <= mtti_s or not strategy.restart_exposed:
        return ""
    return (
        f"a restart takes {significant(restart_s)} s and the job, while it can fail, is interrupted"
        " every"
        f" {significant(mtti_s)} s, which is less than a restart takes:"
        f" {renewal.what_is_lost(goodput)}"
    )


def best_interval_s(
    fleet: model.Fleet, units: int, strategy: model.Strategy
) -> tuple[float | None, str]:
    """Return the optimal work between checkpoints [s] and its basis, or why there is none.

    Args:
        strategy: Its fault-tolerance strategy, without the interval.

    Returns:
        None where checkpoints are free, no failure needs one or no closed form fits the job.

    Source: Lambert's W for one level without verification; else the largest value of the closed
        form over intervals within a factor of a thousand around the first-order optimum.
    """
    estimate_s, text = likely_interval_s(fleet, units, strategy)
    if estimate_s is not None and (beyond := _beyond(fleet, strategy)):
        return None, f"no closed form gives the optimal interval: {beyond}"
    return estimate_s, text


def likely_interval_s(
    fleet: model.Fleet, units: int, strategy: model.Strategy
) -> tuple[float | None, str]:
    """Return the approximately optimal work between checkpoints [s], also without a closed form.

    Args:
        strategy: Its fault-tolerance strategy, without the interval.

    Returns:
        The optimum for the failures that need a checkpoint, all else ignored; None where there is
        no such optimum.
    """
    demand = _demand(fleet, units, strategy)
    # mean time of checkpoints and verification per segment [s]
    cost_s, often = strategy.verify_s, 1.0
    for index, level in enumerate(strategy.levels):
        later = strategy.levels[index + 1 :]
        often = 1.0 / level.every - (1.0 / later[0].every if later else 0.0)
        cost_s += often * level.write_s
    hurt = demand.failing / 2.0 + (demand.silent if strategy.verify_s else 0.0)
    if cost_s <= 0.0:
        return None, "checkpoint_write_s = 0: free checkpoints have no optimal interval"
    if hurt <= 0.0:
        peers_hold = strategy.step_s is not None and any(c.effect == "stops" for c in fleet.causes)
        why = "peers hold the state after every failure" if peers_hold else "nothing stops the job"
        return None, f"{why}: the longer the interval, the better"
    if strategy.levels[-1].every > MAX_SEGMENTS:
        return None, f"no closed form gives the optimal interval of over {MAX_SEGMENTS} segments"
    if len(strategy.levels) == 1 and not strategy.verify_s:
        best_s = float(renewal.optimal_interval_s(cost_s, 1.0 / demand.failing))
        return best_s, "the optimum for failures without memory"
    from scipy.optimize import minimize_scalar

    middle = math.log(math.sqrt(cost_s / hurt))

    def lost(log_interval: float) -> float:
        return -_value(demand, strategy, math.exp(log_interval))[0]

    ends = (middle - math.log(30.0), middle + math.log(30.0))
    optimum = minimize_scalar(lost, bounds=ends, method="bounded", options={"xatol": 1e-5})
    form = _value(demand, strategy, 1.0)[1]
    return math.exp(float(optimum.x)), f"the optimum of the {form}"


def _value(
    demand: _Demand, strategy: model.Strategy, interval_s: float
) -> tuple[float, str, list[str]]:
    """Return a closed form's value at an interval, its name, and what it leaves out."""
    level = strategy.levels[0]
    maintenance = strategy.maintenance
    more: list[str] = []
    if len(strategy.levels) > 1:
        # each write includes a verification
        write_L = np.array([level.write_s + strategy.verify_s for level in strategy.levels])
        rate_L = np.array(demand.rate_L)
        if strategy.verify_s:
            rate_L[0] += demand.silent
        every_L = tuple(level.every for level in strategy.levels)
        share_C = multilevel_efficiency(
            interval_s, every_L, write_L, np.array(demand.restart_L), rate_L, demand.detection_s
        )
        value, form = float(share_C[0]), LEVELS
    elif strategy.verify_s:
        pattern = VerifiedPattern(
            strategy.verify_s, level.write_s, demand.restart_L[0], demand.detection_s,
            demand.failing, demand.silent,
        )  # fmt: skip
        value, form = interval_s / float(verified_time_s(interval_s, pattern)), VERIFIED
    else:
        job = Plain(
            interval_s, level.write_s, demand.restart_L[0], 1.0 / demand.failing,
            demand.detection_s,
        )  # fmt: skip
        exposed = strategy.restart_exposed
        blocking = renewal.renewal_efficiency(*job, restart_exposed=exposed)
        value, form = float(blocking.value_C), RENEWAL
        if maintenance is not None and exposed and not level.lag_s:
            efficiency = maintained_efficiency(job, maintenance.every_s, maintenance.lasts_s)
            more = [] if bool(efficiency.valid_C) else ["frequent maintenance"]
            return float(efficiency.value_C), MAINTAINED, more
        if level.lag_s:
            efficiency = with_durability_lag(
                blocking, interval_s, level.write_s, level.lag_s, 1.0 / demand.failing
            )
            value, form = float(efficiency.value_C), LAGGING
            more = [] if bool(efficiency.valid_C) else ["several snapshots in flight"]
    if maintenance is None:
        return value, form, more
    up = max(1.0 - maintenance.lasts_s / maintenance.every_s, 0.0)
    return value * up, form, [*more, "restarts after maintenance"]


def _demand(fleet: model.Fleet, units: int, strategy: model.Strategy) -> _Demand:
    rate_L = [0.0] * len(strategy.levels)
    silent = noticing = 0.0
    for cause in fleet.causes:
        rate = model.cause_rate_per_s(cause, units)
        if cause.effect == "stops" and (level := model.needed_level(cause, strategy)) >= 0:
            rate_L[level] += rate
            noticing += rate * mean_s(cause.detection)
        elif cause.effect == "corrupts":
            silent += rate
    restart_s = sum(map(_mean, strategy.restarts[0].phases.values()))
    return _Demand(
        rate_L=tuple(rate_L),
        silent=silent,
        detection_s=noticing / sum(rate_L) if sum(rate_L) else 0.0,
        restart_L=tuple(restart_s + _mean(level.read_s) for level in strategy.levels),
    )


def _mean(time: object) -> float:
    return float(time) if isinstance(time, float | int) else mean_s(time)  # type: ignore[arg-type]


def _beyond(fleet: model.Fleet, strategy: model.Strategy) -> str:
    """Return the feature that no closed form covers even approximately, "" where there is none."""
    effects = {cause.effect for cause in fleet.causes}
    silent, several = "corrupts" in effects, len(strategy.levels) > 1
    reasons = {
        "some failures slow the job down": "slows" in effects,
        "silent errors are detected late": silent and not strategy.verify_s,
        "silent errors with several checkpoint levels": silent and several,
        "several kinds of restarts": len(strategy.restarts) > 1,
        "peers hold the state after most failures": strategy.step_s is not None,
        "failures occur before the first is detected": strategy.detection_exposed,
        f"over {MAX_SEGMENTS} segments between checkpoints of a level": (
            strategy.levels[-1].every > MAX_SEGMENTS
        ),
    }
    return next((what for what, is_so in reasons.items() if is_so), "")


def _left_out(fleet: model.Fleet, strategy: model.Strategy) -> list[str]:
    """Return the effects that the form does not model."""
    stops = [cause for cause in fleet.causes if cause.effect == "stops"]
    several = len(strategy.levels) > 1
    plain = not several and not strategy.verify_s
    repair_s = {repair.name: model.mean_repair_s(repair) for repair in fleet.repairs}
    repaired = [c.repair or fleet.repairs[0].name for c in stops if c.takes != "nothing"]
    limited = strategy.spares.count is not None
    reasons = {
        "waiting for nodes": limited and any(repair_s[name] for name in repaired),
        "fewer nodes": strategy.shrink is not None,
        "the start of spares": limited and strategy.spares.start != Constant(value_s=0.0),
        "the spread of restarts": any(
            not isinstance(level.read_s, float | int | Constant) for level in strategy.levels
        )
        or any(not isinstance(p, float | int) for p in strategy.restarts[0].phases.values()),
        "the lag of durability": not plain and any(level.lag_s for level in strategy.levels),
        "restarts that fail": strategy.restarts[0].success < 1.0,
        "safe restarts": not plain and not strategy.restart_exposed,
        "differing detection": len({cause.detection for cause in stops}) > 1 and not plain,
    }
    return [
        *model.not_memoryless(fleet, strategy),
        *(what for what, is_so in reasons.items() if is_so),
    ]
