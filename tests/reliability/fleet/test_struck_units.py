"""Which units a failure strikes: those at work, those that stand by, parts repaired in vain."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from perfatlas.reliability.fleet.closed_form import VerifiedPattern, failed_nodes, verified_time_s
from perfatlas.reliability.fleet.laws import Constant, Exponential, weibull_of_mean
from perfatlas.reliability.fleet.model import (
    Cause,
    Fleet,
    Job,
    Lemons,
    Level,
    Repair,
    RepairStage,
    Shrink,
    Spares,
    Strategy,
)
from perfatlas.reliability.fleet.model.model import Effect
from perfatlas.reliability.fleet.simulator import JobOutcome, simulate

H = 3600.0
DAY = 86400.0
FREE = Strategy(interval_s=1800.0, levels=(Level(write_s=0.0),), spares=Spares(count=0))


def repaired(lasts: Constant | Exponential, **fields: object) -> tuple[Repair, ...]:
    """Return a repair of one stage, which may only seem to fix."""
    relapse = fields.pop("relapse", Constant(value_s=0.0))
    stage = RepairStage(name="swap", lasts=lasts, **fields)  # type: ignore[arg-type]
    return (Repair(name="swap", stages=(stage,), relapse=relapse),)  # type: ignore[arg-type]


def near(outcome: JobOutcome, column: str, exact: float) -> None:
    """Within three and a half standard errors, which are small."""
    value_R = outcome.column(column)
    error = float(value_R.std(ddof=1)) / math.sqrt(value_R.size)
    assert error < 0.03 * exact
    assert abs(value_R.mean() - exact) < 3.5 * error, f"{value_R.mean()} +- {error}, not {exact}"


@pytest.mark.parametrize("kind", ["cold", "warm", "hot"])
def test_units_that_stand_by_corrupt_nothing(kind: str) -> None:
    silent = Cause(
        name="silent", lifetime=Exponential(mean_s=10 * DAY), per_unit=1.0, effect="corrupts"
    )
    strategy = replace(
        FREE,
        interval_s=2 * H,
        levels=(Level(write_s=60.0, read_s=600.0),),
        verify_s=60.0,
        spares=Spares(count=10, kind=kind),  # type: ignore[arg-type]
    )
    job = Job(fleet=Fleet(units=20, causes=(silent,)), units=10, horizon_s=400 * DAY)
    outcome = simulate(job, strategy, replicas=100, seed=1)
    # ten units at work corrupt once a day; spares, however many are powered, never do
    pattern = VerifiedPattern(60.0, 60.0, 600.0, 0.0, 0.0, 1 / DAY)
    exact = 2 * H / float(verified_time_s(2 * H, pattern))
    assert abs(outcome.goodput - exact) < 3.5 * outcome.standard_error + 1e-4
    assert outcome.standard_error < 1e-3


def test_units_that_stand_by_slow_nothing() -> None:
    slow = Cause(
        name="slow", lifetime=Exponential(mean_s=100 * H), per_unit=1.0, effect="slows",
        slowdown=1.5, lasts=Constant(value_s=H),
    )  # fmt: skip
    strategy = replace(FREE, spares=Spares(count=10, kind="hot"))
    job = Job(fleet=Fleet(units=20, causes=(slow,)), units=10, horizon_s=400 * DAY)
    outcome = simulate(job, strategy, replicas=100, seed=2)
    # a spell of an hour every 10 h: one is under way a share 1 - e^(-1/10) of the time
    exact = (1 - math.exp(-0.1)) / 3 * outcome.horizon
    near(outcome, "degraded", exact)


@pytest.mark.parametrize("per_unit", [0.02, 0.17])
@pytest.mark.parametrize("shape", [0.7, 1.0, 2.0])
def test_a_fraction_of_an_ageing_part_fails_that_share_as_often(
    per_unit: float, shape: float
) -> None:
    # ten units with 0.02 parts each have a fifth of one; with 0.17, one and 0.7 of another
    switch = Cause(
        name="switch", lifetime=weibull_of_mean(10 * DAY, shape), per_unit=per_unit,
        ages="mixed", takes="nothing",
    )  # fmt: skip
    job = Job(fleet=Fleet(units=10, causes=(switch,)), units=10, horizon_s=100 * DAY)
    outcome = simulate(job, FREE, replicas=4000, seed=3)
    near(outcome, "failures", 10 * per_unit * 100 / 10)
    if shape == 1.0:  # no memory: as many failures as a Poisson process has, and as varied
        spread = float(outcome.column("failures").var(ddof=1)) / (per_unit * 100)
        assert abs(spread - 1.0) < 4 * math.sqrt((2 + 1 / (per_unit * 100)) / 4000)


def test_whole_parts_beside_a_fraction_all_fail() -> None:
    # 2.5 parts live a day each: two fail at noon of every day for sure, the half one half the days
    part = Cause(name="part", lifetime=Constant(value_s=DAY), shared=2.5, takes="nothing")
    job = Job(fleet=Fleet(units=1, causes=(part,)), units=1, horizon_s=10.5 * DAY)
    outcome = simulate(job, FREE, replicas=2000, seed=4)
    assert int(outcome.column("interruptions").min()) == 10
    assert int(outcome.column("interruptions").max()) == 10
    near(outcome, "failures", 10 * 2.5)


def test_a_fraction_of_a_lemon_is_in_that_share_of_jobs() -> None:
    lemons = Lemons(share=0.01, factor=100.0, strikes=3)
    node = Cause(name="node", lifetime=Exponential(mean_s=30 * DAY), per_unit=1.0, lemons=lemons)
    job = Job(fleet=Fleet(units=30, causes=(node,)), units=30, horizon_s=30 * DAY)
    outcome = simulate(job, replace(FREE, spares=Spares()), replicas=4000, seed=5)
    # 29.7 normal parts fail once each. A lemon, in 0.3 of jobs, fails every 0.3 d until its third
    # failure, after 0.9 d on average, and is normal for the 29.1 d that are left
    near(outcome, "failures", 29.7 + 0.3 * (3 + (30 - 0.9) / 30))


def test_a_part_repaired_in_vain_fails_again_by_hand() -> None:
    # a part fails after 10 h and after every further 10 h; a repair takes 2 h and seems to help,
    # the fault shows an hour later: 10, 13, 16, 19, and the part's next life ends at 20 too
    tray = Cause(name="tray", lifetime=Constant(value_s=10 * H), shared=1.0, takes="part")
    repairs = repaired(
        Constant(value_s=2 * H), fixes=1e-12, false_fix=1 - 1e-12, relapse=Constant(value_s=H)
    )
    fleet = Fleet(units=1, causes=(tray,), repairs=repairs, parts_per_unit=1000, parts_needed=2)
    job = Job(fleet=fleet, units=1, horizon_s=19.5 * H)
    outcome = simulate(job, FREE, replicas=3)
    assert outcome.column("interruptions").tolist() == [4, 4, 4]
    outcome = simulate(replace(job, horizon_s=20.5 * H), FREE, replicas=3)
    assert outcome.column("interruptions").tolist() == [5, 5, 5]


@pytest.mark.parametrize("spares", [0, 3])
@pytest.mark.parametrize("takes", ["part", "unit"])
def test_false_fixes_of_units_with_parts_show(takes: str, spares: int) -> None:
    # 12 units of 50 parts; a repair of a minute helps in one of five tries, and the fault shows an
    # hour later: a failure of a good part leads to 1 / 0.2 = 5
    tray = Cause(name="tray", lifetime=Exponential(mean_s=600 * DAY), per_unit=50.0, takes=takes)  # type: ignore[arg-type]
    repairs = repaired(
        Constant(value_s=60.0), fixes=0.2, false_fix=0.8, relapse=Exponential(mean_s=H)
    )
    fleet = Fleet(
        units=12 + spares, causes=(tray,), repairs=repairs, parts_per_unit=50, parts_needed=25
    )
    strategy = replace(FREE, spares=Spares(count=spares))
    outcome = simulate(Job(fleet=fleet, units=12, horizon_s=400 * DAY), strategy, replicas=50)
    found = float(outcome.column("failures").sum() / outcome.column("exposed").sum()) * DAY * 1e6
    # what left the job with a fault, and waits as a spare, is all that may be missing
    assert found == pytest.approx(12 * 50 / 600 / 0.2, rel=0.03)


def test_false_fixes_of_two_causes_show_as_their_own() -> None:
    # of one kind half the repairs help, of the other a tenth: a failure leads to 1 / 0.5 and to
    # 1 / 0.1. Both kinds wait among the same spares until they are taken and show
    first, second = (
        Repair(
            name=name,
            stages=(
                RepairStage(
                    name="-", lasts=Constant(value_s=60.0), fixes=fixes, false_fix=1 - fixes
                ),
            ),
            relapse=Exponential(mean_s=H),
        )
        for name, fixes in (("half", 0.5), ("tenth", 0.1))
    )
    causes = tuple(
        Cause(name=name, lifetime=Exponential(mean_s=100 * DAY), per_unit=1.0, repair=name)
        for name in ("half", "tenth")
    )
    fleet = Fleet(units=60, causes=causes, repairs=(first, second))
    strategy = replace(FREE, spares=Spares(count=10))
    job = Job(fleet=fleet, units=50, horizon_s=1000 * DAY)
    outcome = simulate(job, strategy, replicas=50)
    found = float(outcome.column("failures").sum() / outcome.column("exposed").sum()) * DAY * 1e6
    assert found == pytest.approx(0.5 / 0.5 + 0.5 / 0.1, rel=0.03)


@pytest.mark.parametrize("parts", [1, 2])
def test_a_burst_takes_the_job_and_the_powered_spares_beside_it(parts: int) -> None:
    # 4 units and 4 powered spares share one supply: every failure of it takes all 8 for a day each.
    # While fewer than 4 are up nothing fails; then those up, 4 to 8, still bring it at their share
    burst = Cause(name="pdu", lifetime=Exponential(mean_s=5 * DAY), per_unit=0.125, units=8)
    fleet = Fleet(
        units=8, causes=(burst,), repairs=repaired(Exponential(mean_s=DAY)), parts_per_unit=parts
    )
    strategy = replace(FREE, spares=Spares(count=4, kind="warm"))
    outcome = simulate(Job(fleet=fleet, units=4, horizon_s=4000 * DAY), strategy, replicas=50)
    # by hand: k out of 8 for k = 0 to 8; down by repairs at k a day, up to 8 out at (8 - k) / 40
    # a day while k is at most 4
    rates = np.zeros((9, 9))
    for out in range(9):
        if out:
            rates[out, out - 1] = out
        if out <= 4:
            rates[out, 8] += (8 - out) / 40
    balance = np.vstack([(rates - np.diag(rates.sum(axis=1))).T, np.ones(9)])
    chance_J = np.linalg.lstsq(balance, np.eye(10)[-1], rcond=None)[0]
    assert failed_nodes(4, 4, {8: 1 / 40}, 1.0, warm=True).tolist() == pytest.approx(
        chance_J.tolist()
    )
    near(outcome, "waiting_for_spares", float(chance_J[5:].sum()) * outcome.horizon)
    per_day = sum(chance_J[out] * (8 - out) / 40 for out in range(5))
    near(outcome, "interruptions", float(per_day) * 4000)


@pytest.mark.parametrize("parts", [1, 2])
def test_a_burst_of_spares_alone_stops_nothing(parts: int) -> None:
    # two neighbours of 6 + 4 in a ring: 3 of the 10 pairs are spares only
    burst = Cause(name="pdu", lifetime=Exponential(mean_s=10 * DAY), per_unit=0.5, units=2)
    fleet = Fleet(units=10, causes=(burst,), parts_per_unit=parts)  # repair times are zero
    strategy = replace(FREE, spares=Spares(count=4, kind="warm"))
    outcome = simulate(Job(fleet=fleet, units=6, horizon_s=400 * DAY), strategy, replicas=100)
    near(outcome, "failures", 10 * 0.5 / 10 * 400 * 7 / 10)
    near(outcome, "unseen", 10 * 0.5 / 10 * 400 * 3 / 10)


def test_a_burst_larger_than_the_job_leaves_cold_spares() -> None:
    # 3 units of a job of 2 leave for good after an hour; the cold spare is off and stays
    burst = Cause(name="pdu", lifetime=Constant(value_s=H), shared=1.0, units=3)
    fleet = Fleet(
        units=3, causes=(burst,), repairs=repaired(Constant(value_s=1e10)), parts_per_unit=2
    )
    strategy = replace(FREE, spares=Spares(count=1), shrink=Shrink(replica_units=1, fewest=1))
    outcome = simulate(Job(fleet=fleet, units=2, horizon_s=1.5 * H), strategy, replicas=30)
    # an hour at full speed, then half an hour on the spare alone, wherever the burst begins
    assert outcome.column("degraded").tolist() == pytest.approx([0.25 * H * 1e6] * 30, abs=2)


@pytest.mark.parametrize("effect", ["stops", "slows"])
@pytest.mark.parametrize("shared", [False, True])
def test_software_of_a_job_that_shrank_fails_as_often_as_it_has_units(
    effect: Effect,
    shared: bool,  # noqa: FBT001
) -> None:
    # after 100 days 4 of 12 units are gone, for good: two replicas of 2
    once = Cause(name="once", lifetime=Constant(value_s=100 * DAY), shared=1.0, units=4)
    software = Cause(
        name="software", lifetime=Exponential(mean_s=12 * DAY), takes="nothing",
        shared=12.0 * shared, per_unit=1.0 - shared,
        effect=effect, slowdown=1.0001, lasts=Constant(value_s=1.0),
    )  # fmt: skip
    fleet = Fleet(units=12, causes=(once, software), repairs=repaired(Constant(value_s=1e10)))
    strategy = replace(FREE, shrink=Shrink(replica_units=2, fewest=2))
    job = Job(fleet=fleet, units=12, horizon_s=199 * DAY)
    outcome = simulate(job, strategy, replicas=200, seed=6)
    met_R = outcome.column("events") - outcome.column("unseen") - 1
    # once a day at full size, 8 / 12 as often on 8 units; what is of the whole job goes on
    exact = 199.0 if shared else 100 + 99 * 8 / 12
    assert abs(met_R.mean() - exact) < 3.5 * met_R.std(ddof=1) / math.sqrt(200)
