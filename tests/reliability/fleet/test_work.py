"""Work that ends, and repairs that are tried again and again, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfatlas.reliability.fleet import model
from perfatlas.reliability.fleet.laws import BUCKETS, TICKS_PER_SECOND, Constant, Exponential
from perfatlas.reliability.fleet.simulator import JobOutcome, simulate

H = 3600.0
STRATEGY = model.Strategy(
    interval_s=1000.0,
    levels=(model.Level(write_s=50.0),),
    restarts=(model.Restart(name="restart", phases={"load": 300.0}),),
)


def worked(strategy: model.Strategy, life_s: float, work_s: float = 2500.0) -> dict[str, float]:
    """Return buckets and the end of 2500 s of work that fails every so often [s]."""
    cause = model.Cause(
        name="clock", lifetime=Constant(value_s=life_s), shared=1.0, takes="nothing"
    )
    fleet = model.Fleet(units=1, causes=(cause,))
    job = model.Job(fleet=fleet, units=1, horizon_s=20_000.0, work_s=work_s)
    outcome = simulate(job, strategy, replicas=1)
    names = (*BUCKETS, "finished")
    return {name: int(outcome.column(name)[0]) / TICKS_PER_SECOND for name in names}


def test_the_last_segment_is_what_is_left_of_the_work() -> None:
    never = worked(STRATEGY, 1e9)
    assert (never["finished"], never["productive"], never["checkpoint"]) == (2650.0, 2500.0, 150.0)
    assert worked(STRATEGY, 1e9, 2000.0)["finished"] == 2100.0  # whole segments
    assert worked(STRATEGY, 1e9, 10.0)["finished"] == 60.0  # less than one


@pytest.mark.parametrize(
    ("changes", "lost_s"),
    [
        ({}, 500.0),  # back to the checkpoint after 2000 s of work
        ({"levels": (model.Level(write_s=50.0, lag_s=600.0),)}, 1500.0),  # durable at 2700 s only
        ({"step_s": 5.0}, 5.0),
    ],
)
def test_a_failure_in_the_last_write_loses_the_work_there_was(
    changes: dict[str, object], lost_s: float
) -> None:
    told = worked(replace(STRATEGY, **changes), 2620.0)  # type: ignore[arg-type]
    assert told["lost_work"] == lost_s
    assert told["productive"] == 2500.0
    redone = lost_s + 50.0 * (1 + int(lost_s >= 1000.0))
    assert told["finished"] == 2620.0 + 300.0 + redone


def waits(repair: model.Repair, replicas: int) -> JobOutcome:
    cause = model.Cause(name="unit", lifetime=Exponential(mean_s=1000 * H), shared=1.0)
    fleet = model.Fleet(units=1, causes=(cause,), repairs=(repair,))
    strategy = replace(STRATEGY, interval_s=10 * H, spares=model.Spares(count=0))
    return simulate(model.Job(fleet=fleet, units=1, horizon_s=1e5 * H), strategy, replicas=replicas)


@pytest.mark.parametrize(("fixes", "false_fix"), [(0.01, 0.0), (0.0005, 0.0), (0.01, 0.03)])
def test_a_stage_is_repeated_until_something_comes_of_it(fixes: float, false_fix: float) -> None:
    stage = model.RepairStage(
        name="try", lasts=Constant(value_s=H), fixes=fixes, false_fix=false_fix
    )
    outcome = waits(model.Repair(name="try", stages=(stage,)), 100)
    count = int(outcome.column("failures").sum())
    mean_s = int(outcome.column("waiting_for_spares").sum()) / TICKS_PER_SECOND / count
    exact_s = H / (fixes + false_fix)
    assert count > 2000
    # a geometric number has as much spread as its mean; what the horizon cuts is one in many
    assert mean_s == pytest.approx(exact_s, rel=3.5 / count**0.5 + 0.01)
