from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.fleet.closed_form import (
    Plain,
    best_interval_s,
    expected_goodput,
    likely_interval_s,
    maintained_efficiency,
    multilevel_efficiency,
    optimal_interval_s,
    renewal_efficiency,
)
from perfatlas.reliability.fleet.laws import Constant, Exponential, weibull_of_mean
from perfatlas.reliability.fleet.model import (
    Cause,
    Fleet,
    Job,
    Level,
    Maintenance,
    Repair,
    RepairStage,
    Restart,
    Shrink,
    Spares,
    Strategy,
    one_cause,
)
from perfatlas.reliability.fleet.simulator import simulate

H = 3600.0
DAY = 86400.0
PLAIN = Strategy(
    interval_s=1800.0,
    levels=(Level(write_s=60.0, read_s=100.0),),
    restarts=(Restart(name="restart", phases={"start": 200.0}),),
)
FLEET = one_cause(8 * H, 8)
NEAR, FAR = Level(write_s=18.0, survives="process"), Level(write_s=180.0, every=6)
SILENT = Cause(name="silent", lifetime=Exponential(mean_s=24 * H), shared=1.0, effect="corrupts")


def test_maintenance_by_hand() -> None:
    # nothing ever fails: 30 days less 6 h and one restart of 300 s in every 30 days
    job = Plain(1800.0, 60.0, 300.0, 1e15)
    found = maintained_efficiency(job, 30 * DAY, 6 * H)
    assert found.value_C == pytest.approx(1800 / 1860 * (1 - (6 * H + 300) / (30 * DAY)), rel=1e-9)
    assert found.valid_C
    # no maintenance to speak of: renewal theory
    often = maintained_efficiency(Plain(1800.0, 60.0, 300.0, 2 * H), 1e12, 0.0).value_C
    assert often == pytest.approx(renewal_efficiency(1800.0, 60.0, 300.0, 2 * H).value_C, rel=1e-6)
    assert not maintained_efficiency(job, 2000.0, 100.0).valid_C
    with pytest.raises(InvalidSpecError, match="every_s"):
        maintained_efficiency(job, 0.0, 1.0)


def test_longer_or_more_frequent_maintenance_never_helps() -> None:
    job = Plain(1800.0, 60.0, 300.0, 2 * H, 60.0)
    longer = maintained_efficiency(job, 7 * DAY, np.linspace(0.0, 2 * DAY, 30)).value_C
    seldomer = maintained_efficiency(job, np.linspace(DAY, 90 * DAY, 30), 6 * H).value_C
    assert np.all(np.diff(longer) < 0.0)
    assert np.all(np.diff(seldomer) > 0.0)


def test_detection_in_the_chain_of_levels_is_that_of_one_level() -> None:
    one = multilevel_efficiency(1800.0, (1,), [60.0], [300.0], [1 / (2 * H)], 120.0)
    assert one[0] == pytest.approx(renewal_efficiency(1800.0, 60.0, 300.0, 2 * H, 120.0).value_C)


def upkept(every_s: float, horizon_s: float) -> dict[str, float]:
    strategy = Strategy(
        interval_s=1000.0,
        levels=(
            Level(write_s=100.0, survives="process"),
            Level(write_s=300.0, every=3, read_s=30.0),
        ),
        restarts=(Restart(name="restart", phases={"start": 50.0}),),
        maintenance=Maintenance(every_s=every_s, lasts_s=1000.0),
    )
    job = Job(fleet=one_cause(1e15, 1), units=1, horizon_s=horizon_s)
    shares = simulate(job, strategy, replicas=1).shares()
    return {name: share * horizon_s for name, share in shares.items()}


def test_maintenance_keeps_to_the_calendar_and_reads_what_it_saved() -> None:
    # Due at 10,000 s: 9 segments with 6 near and 3 far checkpoints end at 10,500 s. 1000 s of
    # maintenance, 80 s of restart and reading: 11,580 s. Then 1000 s, a near one, 300 s: 12,980 s.
    first = upkept(10_000.0, 12_980.0)
    assert first["maintenance"] == pytest.approx(1000.0)
    assert first["restart"] == pytest.approx(80.0)
    assert first["checkpoint"] == pytest.approx(7 * 100.0 + 3 * 300.0)
    assert first["productive"] == pytest.approx(10_300.0)
    # due again at 20,000 s and drained within a segment, not 10,000 s after the first began
    assert upkept(10_000.0, 22_400.0)["maintenance"] == pytest.approx(2000.0)
    # Due at 9,100 s: 8 segments end at 9,200 s near; what outlives the downtime takes 300 s more
    assert upkept(9_100.0, 9_700.0)["checkpoint"] == pytest.approx(6 * 100.0 + 2 * 300.0 + 300.0)


def test_what_a_closed_form_leaves_out_is_named() -> None:
    told = expected_goodput(FLEET, 8, PLAIN)
    assert (told.leaves_out, told.form) == ((), "exact renewal efficiency (Daly 2006)")
    hot = replace(
        PLAIN, spares=Spares(count=2, start=Constant(value_s=9.0)), shrink=Shrink(
            replica_units=1, fewest=4)
    )  # fmt: skip
    swap = Repair(name="swap", stages=(RepairStage(name="swap", lasts=Constant(value_s=H)),))
    assert expected_goodput(replace(FLEET, repairs=(swap,)), 8, hot).leaves_out == (
        "waiting for nodes", "fewer nodes", "the start of spares"
    )  # fmt: skip
    old = Fleet(
        units=8, causes=(Cause(name="fan", per_unit=1, lifetime=weibull_of_mean(8 * DAY, 2.0)),)
    )
    assert expected_goodput(old, 8, PLAIN).leaves_out == ("the age of parts",)
    slow = Cause(
        name="slow", lifetime=Exponential(mean_s=DAY), shared=1.0, effect="slows",
        lasts=Constant(value_s=H), slowdown=1.5,
    )  # fmt: skip
    beyond = {
        "some failures slow the job down": (Fleet(units=8, causes=(slow,)), PLAIN),
        "silent errors are detected late": (Fleet(units=8, causes=(SILENT,)), PLAIN),
        "nothing stops the job": (Fleet(units=8, causes=()), PLAIN),
        "several kinds of restarts": (FLEET, replace(PLAIN, restarts=PLAIN.restarts * 2)),
        "peers hold the state": (FLEET, replace(PLAIN, step_s=5.0)),
        "before the first is detected": (FLEET, replace(PLAIN, detection_exposed=True)),
    }
    for words, (fleet, strategy) in beyond.items():
        found = expected_goodput(fleet, 8, strategy)
        assert found.goodput is None
        assert words in found.form


def test_the_best_interval_is_the_largest_value_of_the_form_that_fits() -> None:
    assert best_interval_s(FLEET, 8, PLAIN)[0] == pytest.approx(
        float(optimal_interval_s(60.0, 8 * H)), rel=1e-12
    )
    light = Cause(name="process", lifetime=Exponential(mean_s=2 * H), shared=1.0, loses="process")
    grave = Cause(name="node", lifetime=Exponential(mean_s=10 * H), shared=1.0)
    several = Fleet(units=8, causes=(light, grave)), replace(PLAIN, levels=(NEAR, FAR))
    verified = Fleet(units=8, causes=(light, SILENT)), replace(PLAIN, verify_s=30.0)
    for fleet, strategy in (several, verified):
        best_s, said = best_interval_s(fleet, 8, strategy)
        assert best_s is not None
        assert said.startswith("the optimum of the")
        values = [
            expected_goodput(fleet, 8, replace(strategy, interval_s=best_s * factor)).goodput
            for factor in (0.97, 1.0, 1.03)
        ]
        assert max(value for value in values if value is not None) == values[1]
    free = replace(PLAIN, levels=(Level(write_s=0.0),))
    assert best_interval_s(FLEET, 8, free)[0] is None
    assert best_interval_s(Fleet(units=8, causes=()), 8, PLAIN)[0] is None
    seldom = replace(PLAIN, levels=(NEAR, replace(FAR, every=1000)))
    assert best_interval_s(FLEET, 8, seldom)[1].startswith("no closed form gives")


@pytest.mark.study
def test_failures_that_peers_survive_ask_for_no_checkpoint() -> None:
    part = Cause(name="gpu", lifetime=Exponential(mean_s=1 * H), shared=1.0, loses="unit")
    row = Cause(name="row", lifetime=Exponential(mean_s=1000 * H), shared=1.0, loses="domain")
    held = replace(PLAIN, step_s=30.0)
    assert best_interval_s(Fleet(units=8, causes=(part,)), 8, held) == (
        None, "peers hold the state after every failure: the longer the interval, the better"
    )  # fmt: skip
    both = Fleet(units=8, causes=(part, row))
    assert best_interval_s(both, 8, held) == (
        None, "no closed form gives the optimal interval: peers hold the state after most failures"
    )  # fmt: skip
    likely_s = likely_interval_s(both, 8, held)[0] or 0.0
    assert likely_s == pytest.approx(float(optimal_interval_s(60.0, 1000 * H)))
    # and it is about the best of the simulated curve, where an hour's interval loses more
    job = Job(fleet=both, units=8, horizon_s=1000 * DAY)
    found = {
        factor: simulate(job, replace(held, interval_s=likely_s * factor), replicas=200).goodput
        for factor in (0.1, 1.0, 10.0)
    }
    assert found[1.0] == max(found.values())


def test_snapshots_that_overlap_are_said() -> None:
    lagging = replace(PLAIN, levels=(Level(write_s=10.0, lag_s=7200.0),))
    found = expected_goodput(FLEET, 8, lagging)
    assert found.leaves_out == ("several snapshots in flight",)
    assert expected_goodput(FLEET, 8, replace(lagging, interval_s=7200.0)).leaves_out == ()
