"""Points with closed forms for checkpoint schedules, from plain to planned maintenance."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.reliability.fleet import closed_form, model
from perfatlas.reliability.fleet.laws import Constant, Exponential
from perfatlas.reliability.fleet.simulator import simulate_until
from validation.fleet.agreement import Point, measured_goodput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from validation.fleet.agreement import Measured

HOUR_S: Final = 3600.0
MTTIS_S: Final = (0.23 * HOUR_S, 1.8 * HOUR_S, 7.9 * HOUR_S, 100.0 * HOUR_S)
WRITES_S: Final = (5.0, 60.0, 300.0)
RESTARTS_S: Final = (60.0, 300.0, 900.0)
HALF_WIDTH: Final = 0.001
SEGMENTS: Final = 240  # a multiple of every level period below
FURTHER_POINTS: Final = (
    (0.23 * HOUR_S, 60.0, 900.0),
    (1.8 * HOUR_S, 300.0, 900.0),
    (7.9 * HOUR_S, 5.0, 300.0),
)
LAGS: Final = (0.001, 0.01, 0.05, 0.1, 0.2, 0.5)  # of the MTTI
STALLS: Final = (0.001, 0.03)  # of the MTTI
ENDLESS: Final = 10_000  # MTTIs: the work in flight at the end is then a small part
# segments between deep checkpoints, ratio of light to deep failures, and failures per hour: every
# pair of two of them once
PERIODS: Final = (
    (2, 2, 0.1), (2, 10, 0.6), (2, 50, 2.0), (6, 2, 0.6), (6, 10, 2.0), (6, 50, 0.1), (20, 2, 2.0),
    (20, 10, 0.1), (20, 50, 0.6),
)  # fmt: skip
REACHES: Final[tuple[model.Reach, ...]] = ("process", "unit", "everything")
SILENT: Final = (0.01, 0.1, 1.0)  # silent errors per failure
VERIFIED: Final = (6e-4, 6e-3, 6e-2)  # verification and write, of the MTTI
MAINTAINED_H: Final = (*product((12.0, 24.0, 48.0, 168.0), (0.5, 3.0)),)  # every, lasts


def renewal_points(*, half_width: float = HALF_WIDTH) -> list[Point]:
    """Return 36 combinations of MTTI, write and restart, and three with safe restarts.

    The interval is the exact optimum; detection takes a tenth of the restart, without failures.

    Args:
        half_width: Relative half-width of the interval of the simulated mean.
    """
    rows = []
    points = [*product(MTTIS_S, WRITES_S, RESTARTS_S), *FURTHER_POINTS]
    for number, (mtti_s, write_s, restart_s) in enumerate(points):
        exposed, detection_s = number < len(points) - len(FURTHER_POINTS), restart_s / 10.0
        interval_s = round(float(closed_form.optimal_interval_s(write_s, mtti_s)), 3)
        exact = closed_form.renewal_efficiency(
            interval_s, write_s, restart_s, mtti_s, detection_s, restart_exposed=exposed
        )
        strategy = model.Strategy(
            interval_s=interval_s,
            levels=(model.Level(write_s=write_s),),
            restarts=(model.Restart(name="restart", phases={"all": restart_s}),),
            restart_exposed=exposed,
        )
        fleet = model.one_cause(mtti_s, 8, detection=Constant(value_s=detection_s))
        safe = "" if exposed else ", safe"
        name = f"MTTI {mtti_s:g} s, write {write_s:g} s, restart {restart_s:g} s{safe}"
        found = float(exact.value_C)
        rows.append(_worked("renewal efficiency", name, found, (fleet, strategy, half_width)))
    return rows


def asynchronous_points(*, half_width: float = HALF_WIDTH) -> list[Point]:
    """Return lags of 0.001 to 0.5 MTTI with short and long stalls, and the check value.

    The interval is the larger of the stall's optimum and the lag, for one snapshot in flight; one
    more point has three.

    Args:
        half_width: Relative half-width of the interval of the simulated mean.
    """
    mtti_s, rows = 1.8 * HOUR_S, []
    grid = [("check value", 0.5 * HOUR_S, 10.0, 0.1 * HOUR_S, 0.2 * HOUR_S)]
    for lag, stall in product(LAGS, STALLS):
        interval_s = max(float(closed_form.optimal_interval_s(stall, 1.0)), lag) * mtti_s
        name = f"lag {lag:g} M, stall {stall:g} M, interval {interval_s / mtti_s:.3g} M"
        grid.append((name, interval_s, stall * mtti_s, lag * mtti_s, 0.1 * mtti_s))
    crowded = (0.05 * mtti_s, 0.01 * mtti_s, 0.15 * mtti_s, 0.1 * mtti_s)
    grid.append(("lag 0.15 M, interval 0.05 M: three in flight", *crowded))
    for name, interval_s, stall_s, lag_s, restart_s in grid:
        strategy = model.Strategy(
            interval_s=interval_s,
            levels=(model.Level(write_s=stall_s, lag_s=lag_s, read_s=restart_s),),
        )
        exact = closed_form.asynchronous_efficiency(
            interval_s, stall_s, lag_s, restart_s, mtti_s
        ).value_C
        job = model.Job(fleet=model.one_cause(mtti_s, 8), units=8, horizon_s=ENDLESS * mtti_s)
        asked = (job, strategy, half_width)
        rows.append(_watched("asynchronous checkpoints", name, float(exact), asked))
    return rows


def multilevel_points(*, half_width: float = HALF_WIDTH) -> list[Point]:
    """Return two levels with rare and frequent deep checkpoints, three levels, the check value.

    Args:
        half_width: Relative half-width of the interval of the simulated mean.
    """
    two = ((0.005, 0.05), (0.02, 0.2))
    three = ((0.005, 0.02, 0.05), (0.02, 0.05, 0.2))
    rows = [_levels("check value", (1, 6), *two, ((0.5, 0.1), 0.0, half_width))]
    for period, ratio, per_h in PERIODS:
        deep = per_h / (1 + ratio)
        name = f"every {period}, {ratio} times rarer, {per_h:g} /h"
        asked = ((per_h - deep, deep), 0.0, half_width)
        rows.append(_levels(name, (1, period), *two, asked))
    for per_h in (0.2, 1.0):
        rates = (per_h * 0.75, per_h * 0.2, per_h * 0.05)
        name = f"three levels, every 3 and 12, {per_h:g} /h, detection 36 s"
        rows.append(_levels(name, (1, 3, 12), *three, (rates, 0.01, half_width)))
    return rows


def _levels(
    name: str,
    every_L: tuple[int, ...],
    write_h_L: Sequence[float],
    read_h_L: Sequence[float],
    asked: tuple[tuple[float, ...], float, float],
) -> Point:
    per_h_L, detection_h, half_width = asked
    h = HOUR_S
    times = (np.array(write_h_L) * h, np.array(read_h_L) * h, np.array(per_h_L) / h)
    exact = float(closed_form.multilevel_efficiency(0.2 * h, every_L, *times, detection_h * h)[0])
    last = len(every_L) - 1
    reach_L = [*REACHES[:last], "everything"]
    strategy = model.Strategy(
        interval_s=0.2 * h,
        levels=tuple(
            model.Level(write_s=write * h, read_s=read * h, every=every, survives=reach)
            for write, read, every, reach in zip(write_h_L, read_h_L, every_L, reach_L, strict=True)
        ),
    )
    causes = tuple(
        model.Cause(
            name=f"class {number}",
            lifetime=Exponential(mean_s=h / per_h),
            shared=1.0,
            loses=REACHES[number],
            detection=Constant(value_s=detection_h * h),
        )
        for number, per_h in enumerate(per_h_L)
    )
    drawn = (model.Fleet(units=8, causes=causes), strategy, half_width)
    return _worked("multilevel checkpoints", name, exact, drawn)


def verified_points(*, half_width: float = HALF_WIDTH) -> list[Point]:
    """Return silent errors from rare to as frequent as failures, and the check value.

    Work between checkpoints is the first-order optimum, recovery takes four times verification and
    write, detection as long as both.

    Args:
        half_width: Relative half-width of the interval of the simulated mean.
    """
    h = HOUR_S
    known = closed_form.VerifiedPattern(
        0.02 * h, 0.03 * h, 0.2 * h, 0.05 * h, 1 / (1.8 * h), 1 / (24 * h)
    )
    rows = [_verified("check value", 0.5 * h, known, half_width)]
    for silent, cost in product(SILENT, VERIFIED):
        rate, both_s = 1 / (1.8 * h), cost * 1.8 * h
        work_s = float(np.sqrt(both_s / (rate * (silent + 0.5))))
        times = (0.4 * both_s, 0.6 * both_s, 4 * both_s, both_s)
        pattern = closed_form.VerifiedPattern(*times, rate, silent * rate)
        name = f"silent {silent:g} times as often, checkpoint {cost:g} M"
        rows.append(_verified(name, work_s, pattern, half_width))
    return rows


def _verified(
    name: str, work_s: float, pattern: closed_form.VerifiedPattern, half_width: float
) -> Point:
    verify_s, write_s, restart_s, detection_s, failing, silent = (float(x) for x in pattern)  # type: ignore[arg-type]
    strategy = model.Strategy(
        interval_s=work_s,
        levels=(model.Level(write_s=write_s, read_s=restart_s),),
        verify_s=verify_s,
    )
    crash = model.Cause(
        name="crash",
        lifetime=Exponential(mean_s=1 / failing),
        shared=1.0,
        detection=Constant(value_s=detection_s),
    )
    wrong = model.Cause(
        name="silent", lifetime=Exponential(mean_s=1 / silent), shared=1.0, effect="corrupts"
    )
    exact = work_s / float(closed_form.verified_time_s(work_s, pattern))
    drawn = (model.Fleet(units=8, causes=(crash, wrong)), strategy, half_width)
    return _worked("silent errors, verified", name, exact, drawn)


def maintained_points(*, half_width: float = HALF_WIDTH) -> list[Point]:
    """Return maintenance twice per day to once per week, of half an hour and of three hours.

    Args:
        half_width: Relative half-width of the interval of the simulated mean.
    """
    h, rows = HOUR_S, []
    job = closed_form.Plain(1.0 * h, 60.0, 0.25 * h, 2.0 * h, 300.0)
    fleet = model.one_cause(2.0 * h, 8, detection=Constant(value_s=300.0))
    for every, lasts in MAINTAINED_H:
        strategy = model.Strategy(
            interval_s=1.0 * h,
            levels=(model.Level(write_s=60.0, read_s=0.15 * h),),
            restarts=(model.Restart(name="restart", phases={"start": 0.1 * h}),),
            maintenance=model.Maintenance(every_s=every * h, lasts_s=lasts * h),
        )
        exact = float(closed_form.maintained_efficiency(job, every * h, lasts * h).value_C)
        # the horizon truncates one of many maintenance periods
        horizon_s = (2 * ENDLESS * 2 // every + 0.5) * every * h
        asked = (model.Job(fleet=fleet, units=8, horizon_s=horizon_s), strategy, half_width)
        name = f"every {every:g} h for {lasts:g} h"
        rows.append(_watched("planned maintenance", name, exact, asked))
    return rows


def _worked(
    group: str, name: str, exact: float, drawn: tuple[model.Fleet, model.Strategy, float]
) -> Point:
    """Return a point that runs a fixed amount of work to completion: its mean time is exact."""
    fleet, strategy, half_width = drawn
    work_s = SEGMENTS * strategy.interval_s
    job = model.Job(fleet=fleet, units=fleet.units, horizon_s=30 * work_s / exact, work_s=work_s)

    def measure(seed: int, finer: int) -> Measured:
        width = half_width / finer**0.5
        outcome = simulate_until(job, strategy, half_width=width, seed=seed)
        if outcome.unfinished:
            raise RuntimeError(
                f"{outcome.unfinished} replicas did not finish; use a longer horizon"
            )
        return measured_goodput(outcome)

    return Point(group=group, name=name, exact=exact, measure=measure)


def _watched(
    group: str, name: str, exact: float, asked: tuple[model.Job, model.Strategy, float]
) -> Point:
    """Return a point that runs a job to a long horizon."""
    job, strategy, half_width = asked

    def measure(seed: int, finer: int) -> Measured:
        width = half_width / finer**0.5
        return measured_goodput(simulate_until(job, strategy, half_width=width, seed=seed))

    return Point(group=group, name=name, exact=exact, measure=measure)
