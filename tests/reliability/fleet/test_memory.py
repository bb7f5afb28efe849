"""Failures that depend on what happened before, and what counts as an interruption."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from perfatlas.reliability.fleet import closed_form, model
from perfatlas.reliability.fleet.closed_form import late_detection
from perfatlas.reliability.fleet.laws import Constant, Exponential, Law, LogNormal, Weibull
from perfatlas.reliability.fleet.simulator import chosen_interval_s, simulate

H = 3600.0
DAY = 86400.0
PLAIN = model.Strategy(
    interval_s=1800.0,
    levels=(model.Level(write_s=60.0),),
    restarts=(model.Restart(name="restart", phases={"start": 600.0}),),
)
WAITS = replace(PLAIN, spares=model.Spares(count=0))
NODE = model.Cause(name="node", lifetime=Exponential(mean_s=10 * DAY), per_unit=1.0)
SILENT = model.Cause(
    name="silent", lifetime=Exponential(mean_s=DAY), shared=1.0, effect="corrupts", takes="nothing"
)


def half_fixed(lasts_s: float) -> model.Fleet:
    stage = model.RepairStage(
        name="swap", lasts=Constant(value_s=lasts_s), fixes=0.2, false_fix=0.8
    )
    repair = model.Repair(name="swap", stages=(stage,), relapse=Constant(value_s=H))
    return model.Fleet(units=20, causes=(NODE,), repairs=(repair,))


@pytest.mark.parametrize("lasts_s", [0.0, 2 * H])
def test_every_failure_of_which_four_in_five_return_is_five(lasts_s: float) -> None:
    # 20 nodes of 10 d fail every 12 h; each is followed by 0.8 + 0.8^2 + ... = 4 relapses: 2.4 h
    job = model.Job(fleet=half_fixed(lasts_s), units=20, horizon_s=300 * DAY)
    found = simulate(job, WAITS, replicas=200)
    assert found.mtti_s == pytest.approx(12 * H / 5, rel=0.02)
    exposed_s = float(found.column("exposed").mean()) / 1e6
    assert found.mtti_s * found.column("interruptions").mean() == pytest.approx(exposed_s)
    assert closed_form.known_mtti_s(job, WAITS) is None
    assert closed_form.expected_goodput(job.fleet, 20, WAITS).leaves_out[0] == "false fixes"
    # whose spares are never missing sends nothing to repair
    assert closed_form.known_mtti_s(job, PLAIN) == pytest.approx(12 * H)
    assert model.not_memoryless(job.fleet, PLAIN) == ()


def test_no_interval_beats_the_one_found_for_false_fixes() -> None:
    job = model.Job(fleet=half_fixed(2 * H), units=20, horizon_s=30 * DAY)
    best_s, said = chosen_interval_s(job, WAITS, 0)
    assert best_s is not None
    assert said.endswith("no closed form covers false fixes")
    # that of 12 h between failures, as of the first ones alone, is 37 min
    assert best_s < 30 * 60
    found = {
        factor: simulate(job, replace(WAITS, interval_s=factor * best_s), replicas=3000).goodput
        for factor in (0.3, 1.0, 3.0)
    }
    assert max(found.values()) == found[1.0]


def test_a_silent_error_that_is_noticed_is_an_interruption() -> None:
    # Of the attempts at W = 1800 s of work a share q = 1 - e^(-W/day) fails: e^(W/day) - 1 notices
    # per segment, each after W and 30 s of verification, with 600 s of restart.
    verified = replace(PLAIN, verify_s=30.0)
    job = model.Job(fleet=model.Fleet(units=1, causes=(SILENT,)), units=1, horizon_s=100 * DAY)
    found = simulate(job, verified, replicas=400)
    notices = math.expm1(1800 / DAY)
    segment_s = 1800 + 30 + 60 + notices * (1800 + 30 + 600)
    assert found.mtti_s == pytest.approx(segment_s / notices, rel=0.02)
    assert int(found.column("failures").sum()) == 0
    assert closed_form.known_mtti_s(job, verified) is None


def test_a_slow_unit_that_is_replaced_is_an_interruption() -> None:
    # every 10 h a spell at half speed; after 1200 s it has cost the 600 s of patience
    slow = model.Cause(
        name="slow", lifetime=Constant(value_s=10 * H), shared=1.0, effect="slows", slowdown=2.0,
        lasts=Constant(value_s=5 * H), takes="nothing",
    )  # fmt: skip
    job = model.Job(fleet=model.Fleet(units=1, causes=(slow,)), units=1, horizon_s=35 * H)
    replaced = replace(PLAIN, slow_patience_s=600.0)
    assert int(simulate(job, replaced, replicas=1).column("interruptions")[0]) == 3
    assert int(simulate(job, PLAIN, replicas=1).column("interruptions")[0]) == 0
    both = model.Job(fleet=model.Fleet(units=1, causes=(slow, NODE)), units=1, horizon_s=35 * H)
    assert closed_form.known_mtti_s(both, replaced) is None
    assert closed_form.known_mtti_s(both, PLAIN) == pytest.approx(10 * DAY)


def test_a_failure_that_strikes_in_a_restart_is_one_more() -> None:
    # at 1000 s and at 1400 s, 400 s into the restart of 600 s, which then takes until 2000 s
    first, second = (
        model.Cause(name=f"at {t:g}", lifetime=Constant(value_s=t), shared=1.0, takes="nothing")
        for t in (1000.0, 1400.0)
    )
    job = model.Job(fleet=model.Fleet(units=1, causes=(first, second)), units=1, horizon_s=1900.0)
    found = simulate(job, PLAIN, replicas=1)
    assert int(found.column("interruptions")[0]) == 2
    assert found.mtti_s == pytest.approx(950.0)


def test_lemons_that_stay_are_one_more_poisson_process() -> None:
    lemons = model.Cause(
        name="node", lifetime=Exponential(mean_s=20 * DAY), per_unit=1.0,
        lemons=model.Lemons(share=0.1, factor=11.0),
    )  # fmt: skip
    fleet = model.Fleet(units=20, causes=(lemons,))
    # 20 / 20 d x (0.9 + 0.1 x 11) = 2 a day
    job = model.Job(fleet=fleet, units=20, horizon_s=100 * DAY)
    assert closed_form.known_mtti_s(job, PLAIN) == pytest.approx(12 * H)
    expected = closed_form.expected_goodput(fleet, 20, PLAIN)
    assert expected.leaves_out == ()
    assert expected.goodput is not None
    found = simulate(job, PLAIN, replicas=2000)
    assert abs(found.goodput - expected.goodput) < 4 * found.standard_error


@pytest.mark.parametrize(
    "law",
    [
        Exponential(mean_s=2400.0),
        Constant(value_s=3000.0),
        LogNormal(median_s=1500.0, sigma=1.5),
        Weibull(shape=0.5, scale_s=900.0),
    ],
)
def test_the_share_that_is_noticed_too_late_is_that_of_a_million_draws(law: Law) -> None:
    random = np.random.default_rng(7)
    count = 1_000_000
    into = random.random(count) * 1260.0
    drawn: dict[type, np.ndarray[tuple[int], np.dtype[np.float64]]] = {
        Exponential: random.exponential(2400.0, count),
        Constant: np.full(count, 3000.0),
        LogNormal: 1500.0 * np.exp(1.5 * random.standard_normal(count)),
        Weibull: 900.0 * random.weibull(0.5, count),
    }
    newer = np.floor((into + drawn[type(law)]) / 1260.0)
    for retained in (1, 3, 6):
        share = float((newer >= retained).mean())
        assert late_detection.late_share(law, retained, 1260.0) == pytest.approx(share, abs=0.004)


def test_checkpoints_for_errors_that_are_noticed_late_are_enough() -> None:
    silent = replace(SILENT, lasts=Exponential(mean_s=2400.0))
    job = model.Job(fleet=model.Fleet(units=1, causes=(silent,)), units=1, horizon_s=60 * DAY)
    strategy = replace(PLAIN, interval_s=1200.0, retained=3)
    (found,) = late_detection.late_causes(job, strategy)
    # x = 1260 / 2400: e^-3x (e^x - 1) / x; one error in 1 d + 2400 s, of 60 d less two segments
    share = math.exp(-3 * 0.525) * math.expm1(0.525) / 0.525
    assert found[1] == pytest.approx(share, rel=1e-4)
    assert found[2] == pytest.approx(share * (60 * DAY - 2520) / (DAY + 2400), rel=1e-4)
    assert "27% of the errors of silent" in closed_form.late_detection_remarks(job, strategy)[0]
    kept = closed_form.kept_for(job, strategy)
    enough, all_kept = (replace(strategy, retained=count) for count in (kept, 10_000))
    few, some, most = (
        simulate(job, tried, replicas=500, seed=3) for tried in (strategy, enough, all_kept)
    )
    assert few.goodput < 0.15
    # one such job in a hundred begins anew, and loses half of its work on average
    assert abs(some.goodput - most.goodput) < late_detection.NEGLIGIBLE_EVENTS
    assert closed_form.kept_for(job, enough) == 0
    assert closed_form.late_detection_remarks(job, enough) == []
    fewer = replace(strategy, retained=kept - 1)
    assert closed_form.late_detection_remarks(job, fewer)
    assert closed_form.late_detection_remarks(job, replace(strategy, verify_s=30.0)) == []
