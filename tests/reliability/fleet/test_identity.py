"""Units keep their identity: lemons that leave and return, ages of parts, the order of spares."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from perfatlas.reliability.fleet import model
from perfatlas.reliability.fleet.laws import Constant, Exponential, LogNormal, weibull_of_mean
from perfatlas.reliability.fleet.simulator import JobOutcome, simulate

H = 3600.0
DAY = 24 * H
REPAIRS = (
    model.Repair(
        name="swap", stages=(model.RepairStage(name="swap", lasts=Exponential(mean_s=DAY)),)
    ),
)
STRATEGY = model.Strategy(
    interval_s=2 * H,
    levels=(model.Level(write_s=240.0, read_s=60.0),),
    restarts=(model.Restart(name="restart", phases={"load": 540.0}),),
    spares=model.Spares(count=5),
)
NODE = model.Cause(name="node", lifetime=Exponential(mean_s=40 * DAY), per_unit=1.0)
SOUR = replace(
    NODE, lifetime=Exponential(mean_s=60 * DAY), lemons=model.Lemons(share=0.1, factor=15.0)
)
WORN = model.Cause(
    name="fan", lifetime=weibull_of_mean(90 * DAY, 2.5), per_unit=2.0, age_s=20 * DAY
)
BURST = model.Cause(name="pdu", lifetime=Exponential(mean_s=30 * DAY), per_unit=0.25, units=4)
SLOW = model.Cause(
    name="slow", lifetime=Exponential(mean_s=50 * DAY), per_unit=1.0, effect="slows",
    slowdown=1.5, lasts=LogNormal(median_s=3 * H, sigma=0.5),
    lemons=model.Lemons(share=0.2, factor=5.0),
)  # fmt: skip


def posed(causes: tuple[model.Cause, ...], **spares: Any) -> tuple[model.Job, model.Strategy]:  # noqa: ANN401
    """Return a job of 20 units with 5 spares."""
    strategy = replace(STRATEGY, spares=replace(STRATEGY.spares, **spares), retained=20)
    fleet = model.Fleet(units=25, causes=causes, repairs=REPAIRS)
    return model.Job(fleet=fleet, units=20, horizon_s=60 * DAY), strategy


def mean_of(outcome: JobOutcome, column: str) -> tuple[float, float]:
    """Return the mean of a column and its standard error."""
    value_R = outcome.column(column)
    return float(value_R.mean()), float(value_R.std(ddof=1)) / math.sqrt(value_R.size)


@pytest.mark.parametrize("order", ["first", "last_returned"])
def test_spares_that_returned_last_bring_lemons_back(order: str) -> None:
    # lemons fail, return from repair, and are the first to be taken again
    interruptions = {}
    for taken in (order, "longest_idle"):
        job, strategy = posed((SOUR,), order=taken)
        interruptions[taken] = mean_of(simulate(job, strategy, replicas=1000), "interruptions")[0]
    assert interruptions[order] > 1.03 * interruptions["longest_idle"]


def test_units_that_are_alike_are_counted_and_others_are_named() -> None:
    assert named((NODE, BURST, SLOW_ALIKE)) == 0
    for cause in (SOUR, WORN, SLOW):
        assert named((BURST, cause)) == 1
        assert named((BURST, cause), count=0) == 0  # the job always waits for its own units


SLOW_ALIKE = replace(SLOW, lemons=None)


def named(causes: tuple[model.Cause, ...], **spares: Any) -> int:  # noqa: ANN401
    """Return whether the simulator follows single units."""
    job, strategy = posed(causes, **spares)
    plan_1 = model.pack(job.fleet, job.units, strategy, job.horizon_s).plan_1
    return int(plan_1["named"][0])


def test_a_lemon_is_gone_while_it_is_repaired() -> None:
    # one of ten units is a lemon that fails every 0.1 d; its repair outlasts the ten days
    lemons = model.Lemons(share=1 / 15, factor=1000.0)
    node = replace(NODE, lifetime=Exponential(mean_s=100 * DAY), lemons=lemons)
    repairs = (
        replace(REPAIRS[0], stages=(model.RepairStage(name="-", lasts=Constant(value_s=9e7)),)),
    )
    fleet = model.Fleet(units=15, causes=(node,), repairs=repairs)
    strategy = replace(STRATEGY, spares=model.Spares(count=5))
    outcome = simulate(
        model.Job(fleet=fleet, units=10, horizon_s=10 * DAY), strategy, replicas=4000
    )
    mean, error = mean_of(outcome, "failures")
    # the lemon is in the job in two thirds of the replicas, or comes as a spare: of five spares
    # it is any of those taken. Normal units fail about once in ten days
    assert mean < 2.0
    assert abs(mean - expected_failures()) < 4 * error + 0.02


def expected_failures() -> float:
    """Return normal failures of ten units in ten days, the lemon, and the lemon as a spare."""
    first = 10 / 15
    normal = (10 - first) * 10 / 100
    return normal + first + (1 - first) * (normal + first) / 5
