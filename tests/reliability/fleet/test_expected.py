from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.fleet import closed_form, model
from perfatlas.reliability.fleet.laws import Exponential
from perfatlas.reliability.fleet.simulator import simulate

H = 3600.0
DAY = 86400.0
PLAIN = model.Strategy(
    interval_s=1800.0,
    levels=(model.Level(write_s=60.0, read_s=100.0),),
    restarts=(model.Restart(name="restart", phases={"start": 200.0}),),
)
FLEET = model.one_cause(8 * H, 8)
NEAR, FAR = model.Level(write_s=18.0, survives="process"), model.Level(write_s=180.0, every=6)
SILENT = model.Cause(
    name="silent", lifetime=Exponential(mean_s=24 * H), shared=1.0, effect="corrupts"
)


def test_maintenance_by_hand() -> None:
    # nothing ever fails: 30 days less 6 h and one restart of 300 s in every 30 days
    job = closed_form.Plain(1800.0, 60.0, 300.0, 1e15)
    found = closed_form.maintained_efficiency(job, 30 * DAY, 6 * H)
    assert found.value_C == pytest.approx(1800 / 1860 * (1 - (6 * H + 300) / (30 * DAY)), rel=1e-9)
    assert found.valid_C
    # no maintenance to speak of: renewal theory
    often = closed_form.maintained_efficiency(
        closed_form.Plain(1800.0, 60.0, 300.0, 2 * H), 1e12, 0.0
    ).value_C
    assert often == pytest.approx(
        closed_form.renewal_efficiency(1800.0, 60.0, 300.0, 2 * H).value_C, rel=1e-6
    )
    assert not closed_form.maintained_efficiency(job, 2000.0, 100.0).valid_C
    with pytest.raises(InvalidSpecError, match="every_s"):
        closed_form.maintained_efficiency(job, 0.0, 1.0)


def test_longer_or_more_frequent_maintenance_never_helps() -> None:
    job = closed_form.Plain(1800.0, 60.0, 300.0, 2 * H, 60.0)
    longer = closed_form.maintained_efficiency(job, 7 * DAY, np.linspace(0.0, 2 * DAY, 30)).value_C
    seldomer = closed_form.maintained_efficiency(job, np.linspace(DAY, 90 * DAY, 30), 6 * H).value_C
    assert np.all(np.diff(longer) < 0.0)
    assert np.all(np.diff(seldomer) > 0.0)


def test_detection_in_the_chain_of_levels_is_that_of_one_level() -> None:
    one = closed_form.multilevel_efficiency(1800.0, (1,), [60.0], [300.0], [1 / (2 * H)], 120.0)
    assert one[0] == pytest.approx(
        closed_form.renewal_efficiency(1800.0, 60.0, 300.0, 2 * H, 120.0).value_C
    )


def upkept(every_s: float, horizon_s: float) -> dict[str, float]:
    strategy = model.Strategy(
        interval_s=1000.0,
        levels=(
            model.Level(write_s=100.0, survives="process"),
            model.Level(write_s=300.0, every=3, read_s=30.0),
        ),
        restarts=(model.Restart(name="restart", phases={"start": 50.0}),),
        maintenance=model.Maintenance(every_s=every_s, lasts_s=1000.0),
    )
    job = model.Job(fleet=model.one_cause(1e15, 1), units=1, horizon_s=horizon_s)
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


def test_the_best_interval_is_the_largest_value_of_the_form_that_fits() -> None:
    assert closed_form.best_interval_s(FLEET, 8, PLAIN)[0] == pytest.approx(
        float(closed_form.optimal_interval_s(60.0, 8 * H)), rel=1e-12
    )
    light = model.Cause(
        name="process", lifetime=Exponential(mean_s=2 * H), shared=1.0, loses="process"
    )
    grave = model.Cause(name="node", lifetime=Exponential(mean_s=10 * H), shared=1.0)
    several = model.Fleet(units=8, causes=(light, grave)), replace(PLAIN, levels=(NEAR, FAR))
    verified = model.Fleet(units=8, causes=(light, SILENT)), replace(PLAIN, verify_s=30.0)
    for fleet, strategy in (several, verified):
        best_s, said = closed_form.best_interval_s(fleet, 8, strategy)
        assert best_s is not None
        assert said.startswith("the optimum of the")
        values = [
            closed_form.expected_goodput(
                fleet, 8, replace(strategy, interval_s=best_s * factor)
            ).goodput
            for factor in (0.97, 1.0, 1.03)
        ]
        assert max(value for value in values if value is not None) == values[1]
    free = replace(PLAIN, levels=(model.Level(write_s=0.0),))
    assert closed_form.best_interval_s(FLEET, 8, free)[0] is None
    assert closed_form.best_interval_s(model.Fleet(units=8, causes=()), 8, PLAIN)[0] is None
    seldom = replace(PLAIN, levels=(NEAR, replace(FAR, every=1000)))
    assert closed_form.best_interval_s(FLEET, 8, seldom)[1].startswith("no closed form gives")
