from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from perfatlas.quantities import InfeasibleError, InvalidSpecError
from perfatlas.reliability.fleet.closed_form import renewal_efficiency, restart_remark
from perfatlas.reliability.fleet.laws import (
    BUCKETS,
    TICKS_PER_SECOND,
    Constant,
    Exponential,
    LogNormal,
    Weibull,
    weibull_of_mean,
)
from perfatlas.reliability.fleet.model import (
    Cause,
    Fleet,
    Job,
    Lemons,
    Level,
    Maintenance,
    Repair,
    RepairStage,
    Restart,
    Shrink,
    Spares,
    Strategy,
    collective_init_s,
    one_cause,
)
from perfatlas.reliability.fleet.simulator import JobOutcome, exact_sum, simulate, simulate_until
from tests.examples import scaled_examples

H = 3600.0
DAY = 86400.0
PLAIN = Strategy(
    interval_s=1800.0,
    levels=(Level(write_s=60.0),),
    restarts=(Restart(name="restart", phases={"load": 300.0}),),
)
RARE = 1e9 * DAY  # a mean time in which nothing fails


def days(fleet: Fleet, units: int, count: float) -> Job:
    return Job(fleet=fleet, units=units, horizon_s=count * DAY)


def share(outcome: JobOutcome, bucket: str) -> float:
    return outcome.shares()[bucket]


def near(value: float, exact: float, error: float) -> None:
    """Within three standard errors."""
    assert abs(value - exact) <= 3 * error, f"{value} against {exact}: {(value - exact) / error}"


def nodes(**fields: object) -> Cause:
    return Cause(name="node", lifetime=Exponential(mean_s=100 * DAY), per_unit=1.0, **fields)  # type: ignore[arg-type]


def test_without_failures_time_is_work_and_checkpoints_only() -> None:
    outcome = simulate(days(one_cause(RARE, 8), 8, 10), PLAIN, replicas=2)
    assert share(outcome, "productive") == pytest.approx(1800 / 1860, abs=1e-3)
    assert share(outcome, "productive") + share(outcome, "checkpoint") == 1.0
    assert outcome.mtti_s == math.inf
    assert outcome.standard_error == 0.0


def test_a_job_by_hand() -> None:
    # a part lives 2000 s; its successor ages from the failure on, through 300 s of restart
    cause = Cause(name="clock", lifetime=Constant(value_s=2000.0), shared=1.0, takes="nothing")
    job = Job(fleet=Fleet(units=1, causes=(cause,)), units=1, horizon_s=6000.0)
    outcome = simulate(job, PLAIN, replicas=1)
    buckets = {name: int(outcome.column(name)[0]) / TICKS_PER_SECOND for name in BUCKETS}
    # 0-2000: 1800 work, 60 write, 140 lost; 2000-2300 restart; 2300-4000: 1700 lost;
    # 4000-4300 restart; 4300-6000: 1700 of work under way at the end
    assert buckets["productive"] == 1800 + 1700
    assert buckets["checkpoint"] == 60
    assert buckets["lost_work"] == 140 + 1700
    assert buckets["restart"] == 600
    assert int(outcome.column("interruptions")[0]) == 2


@pytest.mark.parametrize("exposed", [True, False])
def test_2048_nodes_with_32_spares_reach_the_exact_efficiency(exposed: bool) -> None:  # noqa: FBT001
    repair = Repair(name="swap", stages=(RepairStage(name="swap", lasts=Exponential(mean_s=DAY)),))
    cause = Cause(name="node", lifetime=Exponential(mean_s=DAY / 6.5e-3), per_unit=1.0)
    fleet = Fleet(units=2080, causes=(cause,), repairs=(repair,))
    restarts = (Restart(name="restart", phases={"detect": 120.0, "restart": 600.0}),)
    strategy = replace(PLAIN, restarts=restarts, spares=Spares(count=32), restart_exposed=exposed)
    outcome = simulate(days(fleet, 2048, 54), strategy, replicas=1500, seed=5)
    exact = renewal_efficiency(1800.0, 60.0, 720.0, DAY / (2048 * 6.5e-3), restart_exposed=exposed)
    near(outcome.goodput, float(exact.value_C), outcome.standard_error)
    if exposed:
        assert float(exact.value_C) == pytest.approx(0.74794, abs=5e-6)


def test_every_hour_of_a_job_with_spares_is_in_one_bucket() -> None:
    repair = Repair(name="swap", stages=(RepairStage(name="swap", lasts=Exponential(mean_s=DAY)),))
    fleet = Fleet(units=104, causes=(nodes(),), repairs=(repair,), gpus_per_unit=8)
    outcome = simulate(days(fleet, 100, 50), replace(PLAIN, spares=Spares(count=2)), replicas=40)
    assert sum(int(outcome.column(name).sum()) for name in BUCKETS) == outcome.horizon * 40
    assert share(outcome, "waiting_for_spares") > 0.0
    assert share(outcome, "idle") == 0.0


settings_of_everything = st.fixed_dictionaries(
    {
        "interval": st.floats(60.0, 7200.0),
        "write": st.floats(0.0, 600.0),
        "lag": st.floats(0.0, 900.0),
        "mtti": st.floats(600.0, 1e5),
        "restart": st.floats(0.0, 3000.0),
        "verify": st.sampled_from([0.0, 30.0]),
        "spares": st.sampled_from([None, 0, 2]),
        "kind": st.sampled_from(["cold", "warm"]),
        "shrink": st.booleans(),
        "step": st.sampled_from([None, 5.0]),
        "shape": st.sampled_from([0.7, 1.0, 2.0]),
        "seed": st.integers(0, 1000),
    }
)


def everything(drawn: dict[str, object]) -> tuple[Job, Strategy]:
    mtti = float(drawn["mtti"])  # type: ignore[arg-type]
    repair = Repair(
        name="ladder",
        stages=(
            RepairStage(name="reset", lasts=Constant(value_s=600.0), fixes=0.5, false_fix=0.2),
            RepairStage(name="swap", lasts=LogNormal(median_s=DAY / 4, sigma=1.0)),
        ),
        relapse=Exponential(mean_s=H),
    )
    causes = (
        Cause(
            name="part",
            lifetime=weibull_of_mean(mtti * 64, float(drawn["shape"])),  # type: ignore[arg-type]
            per_unit=4.0,
            ages="mixed",
            detection=LogNormal(median_s=60.0, sigma=1.0),
        ),
        Cause(name="rack", lifetime=Exponential(mean_s=mtti * 16), per_unit=0.25, units=4),
        Cause(
            name="crash",
            lifetime=Exponential(mean_s=mtti * 2),
            shared=1.0,
            takes="nothing",
            loses="process",
        ),
        Cause(
            name="silent",
            lifetime=Exponential(mean_s=mtti * 3),
            shared=1.0,
            effect="corrupts",
            lasts=Exponential(mean_s=3 * H),
        ),
        Cause(
            name="slow",
            lifetime=Exponential(mean_s=mtti * 2),
            shared=1.0,
            effect="slows",
            slowdown=1.5,
            lasts=Exponential(mean_s=H),
        ),
    )
    fleet = Fleet(units=18, causes=causes, repairs=(repair,), crews=3)
    levels = (
        Level(name="peer", write_s=float(drawn["write"]) / 4, survives="process"),  # type: ignore[arg-type]
        Level(name="remote", write_s=float(drawn["write"]), lag_s=float(drawn["lag"]), every=3),  # type: ignore[arg-type]
    )
    strategy = Strategy(
        interval_s=float(drawn["interval"]),  # type: ignore[arg-type]
        levels=levels,
        restarts=(
            Restart(name="in-process", phases={"all": 20.0}, success=0.7),
            Restart(name="scheduler", phases={"all": float(drawn["restart"])}),  # type: ignore[arg-type]
        ),
        verify_s=float(drawn["verify"]),  # type: ignore[arg-type]
        retained=2,
        step_s=drawn["step"],  # type: ignore[arg-type]
        spares=Spares(count=drawn["spares"], kind=drawn["kind"], start=Constant(value_s=100.0)),  # type: ignore[arg-type]
        shrink=Shrink(replica_units=2, fewest=8, rejoin_s=60.0) if drawn["shrink"] else None,
        maintenance=Maintenance(every_s=7 * DAY, lasts_s=4 * H, restart="scheduler"),
        slow_patience_s=1200.0,
        detection_exposed=bool(drawn["step"]),
    )
    return days(fleet, 16, 40), strategy


@given(settings_of_everything)
@settings(max_examples=scaled_examples(1.2))
def test_buckets_sum_to_the_horizon_whatever_happens(drawn: dict[str, object]) -> None:
    job, strategy = everything(drawn)
    outcome = simulate(job, strategy, replicas=3, seed=int(drawn["seed"]))  # type: ignore[call-overload]
    for name in BUCKETS:
        assert (outcome.column(name) >= 0).all(), name
    total_R = np.sum([outcome.column(name) for name in BUCKETS], axis=0)
    assert total_R.tolist() == [outcome.horizon] * 3
    assert math.fsum(outcome.shares().values()) == pytest.approx(1.0, abs=1e-14)


def test_a_replica_does_not_depend_on_the_others_nor_on_heap_sizes() -> None:
    drawn: dict[str, object] = {
        "interval": 600.0, "write": 60.0, "lag": 30.0, "mtti": 900.0, "restart": 300.0,
        "verify": 0.0, "spares": 2, "kind": "warm", "shrink": True, "step": None, "shape": 0.7,
        "seed": 0,
    }  # fmt: skip
    job, strategy = everything(drawn)
    job = replace(job, horizon_s=400 * DAY)  # outgrows the first heap
    many = simulate(job, strategy, replicas=6, seed=3)
    few = simulate(job, strategy, replicas=4, seed=3)
    np.testing.assert_array_equal(many.ticks_RF[:4], few.ticks_RF)
    assert len(np.unique(many.column("exposed"))) == 6


def test_strategies_meet_the_same_failures() -> None:
    job = days(one_cause(6 * H, 8), 8, 20)
    slow = replace(PLAIN, name="slow", levels=(Level(write_s=120.0),))
    first, second = (simulate(job, way, replicas=300, seed=7) for way in (PLAIN, slow))
    np.testing.assert_array_equal(first.column("exposed"), second.column("exposed"))
    np.testing.assert_array_equal(first.column("failures"), second.column("failures"))
    paired = (first.goodput_R - second.goodput_R).std()
    apart = math.hypot(first.goodput_R.std(), second.goodput_R.std())
    assert paired < 0.5 * apart


def test_adaptive_stopping_reaches_the_half_width_or_says_so() -> None:
    job = days(one_cause(6 * H, 8), 8, 20)
    found = simulate_until(job, PLAIN, half_width=0.002)
    assert found.converged
    assert found.half_width <= 0.002 * found.goodput
    stopped = simulate_until(job, PLAIN, half_width=1e-5, most_replicas=100)
    assert not stopped.converged
    assert "wider than requested" in stopped.remarks()[0]


def test_mtbf_shorter_than_restart_is_said_and_does_not_hang() -> None:
    strategy = replace(PLAIN, restarts=(Restart(name="restart", phases={"load": 3600.0}),))
    outcome = simulate(days(one_cause(60.0, 8), 8, 30), strategy, replicas=4)
    assert outcome.goodput < 1e-6
    assert "of the time goes to restart" in outcome.remarks()[0]
    assert "which is less than a restart takes" in restart_remark(
        strategy, outcome.mtti_s, outcome.goodput
    )
    assert restart_remark(PLAIN, outcome.mtti_s * 10, 0.0) == ""
    assert restart_remark(replace(strategy, restart_exposed=False), outcome.mtti_s, 0.0) == ""


def test_few_failures_do_not_make_the_mean_sure() -> None:
    # one failure in 3470 days costs about half of 23 days; a month sees one in 116 replicas
    job = days(one_cause(3e8, 8), 8, 30)
    strategy = replace(PLAIN, interval_s=2e6)
    found = simulate_until(job, strategy, half_width=0.002)
    assert found.met >= 30
    exact = float(renewal_efficiency(2e6, 60.0, 300.0, 3e8).value_C)
    assert abs(found.goodput - exact) < 2.0 * found.half_width
    seldom = simulate_until(job, strategy, half_width=0.002, most_replicas=64, seed=2)
    assert seldom.met == 0
    assert seldom.standard_error < 1e-9
    assert seldom.half_width == pytest.approx(3.0 / 64 * seldom.goodput)
    assert "only 0 failures in 64 replicas" in seldom.remarks()[0]


def test_work_that_is_not_done_is_counted() -> None:
    job = replace(days(one_cause(600.0, 8), 8, 1), work_s=10 * DAY)
    outcome = simulate(job, PLAIN, replicas=3)
    assert outcome.unfinished == 3
    assert (outcome.ended_R == outcome.horizon).all()
    assert "not finished within the horizon" in outcome.remarks()[-1]


def test_work_ends_when_its_last_checkpoint_is_written_and_the_rest_is_idle() -> None:
    job = replace(days(one_cause(RARE, 8), 8, 1), work_s=2 * 1800.0)
    outcome = simulate(job, PLAIN, replicas=1)
    assert (outcome.ended_R / TICKS_PER_SECOND).tolist() == [3720.0]
    assert share(outcome, "idle") == pytest.approx(1 - 3720 / DAY)


def test_slow_spells_cost_their_share() -> None:
    # slowdowns of an hour every 10 h: some is under way a share 1 - e^(-1/10) of the time
    cause = Cause(
        name="slow", lifetime=Exponential(mean_s=10 * H), shared=1.0, effect="slows",
        slowdown=1.5, lasts=Constant(value_s=H),
    )  # fmt: skip
    free = replace(PLAIN, levels=(Level(write_s=0.0),))
    outcome = simulate(days(Fleet(units=8, causes=(cause,)), 8, 400), free, replicas=200)
    degraded_R = outcome.column("degraded") / outcome.horizon
    exact = (1 - math.exp(-0.1)) / 3
    near(float(degraded_R.mean()), exact, float(degraded_R.std()) / math.sqrt(200) + 1e-4 * exact)
    patient = replace(free, slow_patience_s=600.0)  # 600 s are lost after 1800 s of a spell
    replaced = simulate(days(Fleet(units=8, causes=(cause,)), 8, 400), patient, replicas=200)
    assert share(replaced, "degraded") == pytest.approx((1 - math.exp(-0.05)) / 3, rel=0.03)
    assert share(replaced, "restart") > 0.0


def test_one_shrunk_job_by_hand() -> None:
    # 3 of 16 units leave after 1000 s: one replica of 4 is dropped, 12 / 16 of the speed is left;
    # where 5 leave, 11 units cannot make the 12 it goes on with
    repair = Repair(name="never", stages=(RepairStage(name="-", lasts=Constant(value_s=1e10)),))
    cause = Cause(name="once", lifetime=Constant(value_s=1000.0), shared=1.0, units=3)
    strategy = Strategy(
        interval_s=100.0,
        levels=(Level(write_s=0.0),),
        spares=Spares(count=0),
        shrink=Shrink(replica_units=4, fewest=12),
    )
    job = Job(fleet=Fleet(units=16, causes=(cause,), repairs=(repair,)), units=16, horizon_s=1900.0)
    outcome = simulate(job, strategy, replicas=1)
    seconds = {name: int(outcome.column(name)[0]) / TICKS_PER_SECOND for name in BUCKETS}
    assert seconds["productive"] == pytest.approx(1000.0 + 900.0 * 12 / 16, abs=1e-5)
    assert seconds["degraded"] == pytest.approx(900.0 * 4 / 16, abs=1e-5)
    five = replace(job.fleet, causes=(replace(cause, units=5),))
    waiting = simulate(replace(job, fleet=five), strategy, replicas=1)
    assert int(waiting.column("waiting_for_spares")[0]) == 900 * TICKS_PER_SECOND


def test_maintenance_waits_for_a_checkpoint_and_is_accounted() -> None:
    maintenance = Maintenance(every_s=10_000.0, lasts_s=1000.0)
    job = Job(fleet=one_cause(RARE, 8), units=8, horizon_s=20_000.0)
    outcome = simulate(job, replace(PLAIN, maintenance=maintenance), replicas=1)
    seconds = {name: int(outcome.column(name)[0]) / TICKS_PER_SECOND for name in BUCKETS}
    # due at 10,000 in the sixth segment, which ends at 11,160; then 1000 s, then the restart
    assert seconds["maintenance"] == 1000.0
    assert seconds["restart"] == 300.0
    assert seconds["lost_work"] == 0.0
    left = 20_000.0 - 11_160.0 - 1300.0
    assert seconds["productive"] == 6 * 1800.0 + 4 * 1800.0 + (left - 4 * 1860.0)


@pytest.mark.parametrize("bad", [0.04, 0.06])
def test_a_job_of_few_units_has_its_share_of_lemons(bad: float) -> None:
    """Two causes, each with its own lemons, less than one unit of them: the rates add up."""
    causes = tuple(
        replace(nodes(lemons=Lemons(share=bad, factor=20.0)), name=name) for name in ("a", "b")
    )
    job = days(Fleet(units=100, causes=causes), 10, 100)
    # 10 units fail once in 100 days each; with lemons 1 + 19 x share times as often
    expected = 2 * 10 * 100 / 100 * (1.0 + 19.0 * bad)
    found = simulate(job, PLAIN, replicas=1000, seed=7).column("failures")
    near(float(found.mean()), expected, float(found.std()) / math.sqrt(1000))


def test_lemons_fail_more_often_until_they_are_retired() -> None:
    lemons = Lemons(share=0.1, factor=20.0)
    job = days(Fleet(units=100, causes=(nodes(lemons=lemons),)), 100, 100)
    found = simulate(job, PLAIN, replicas=300, seed=2).column("failures")
    near(float(found.mean()), 100 * (0.9 + 2.0), float(found.std()) / math.sqrt(300))
    struck = replace(lemons, strikes=1)
    job = days(Fleet(units=100, causes=(nodes(lemons=struck),)), 100, 100)
    fewer = simulate(job, PLAIN, replicas=300, seed=2).column("failures")
    # each of 10 lemons fails once after 5 days on average and is then like the others
    once = 1 - math.exp(-20.0)
    exact = 90.0 + 10 * (once + (100 - 5 * once) / 100)
    near(float(fewer.mean()), exact, float(fewer.std()) / math.sqrt(300) + 0.01)


def test_false_fixes_bring_the_failure_back() -> None:
    stage = RepairStage(name="reset", lasts=Constant(value_s=H), fixes=0.6, false_fix=0.4)
    repair = Repair(name="auto", stages=(stage,), relapse=Constant(value_s=H))
    fleet = Fleet(units=104, causes=(nodes(),), repairs=(repair,))
    strategy = replace(PLAIN, spares=Spares(count=4))
    found = simulate(days(fleet, 100, 100), strategy, replicas=400).column("failures")
    # a unit that is not fixed waits as a spare until it is taken, then fails again
    assert 100 * 1.3 < found.mean() < 100 / 0.6


def test_a_burst_takes_several_units_and_waits_for_all_of_them() -> None:
    repair = Repair(name="swap", stages=(RepairStage(name="swap", lasts=Constant(value_s=H)),))
    cause = Cause(name="power", lifetime=Constant(value_s=10 * H), shared=1.0, units=4)
    fleet = Fleet(units=20, causes=(cause,), repairs=(repair,))
    job = Job(fleet=fleet, units=16, horizon_s=11.5 * H)
    two = simulate(job, replace(PLAIN, spares=Spares(count=2)), replicas=1)
    assert int(two.column("waiting_for_spares")[0]) == pytest.approx(H * 1e6, abs=2)
    four = simulate(job, replace(PLAIN, spares=Spares(count=4)), replicas=1)
    assert int(four.column("waiting_for_spares")[0]) == 0
    assert int(four.column("interruptions")[0]) == 1


def test_failures_of_one_instant_are_one_interruption() -> None:
    cause = Cause(name="uptime", lifetime=Constant(value_s=66.5 * DAY), per_unit=1.0)
    outcome = simulate(days(Fleet(units=100, causes=(cause,)), 100, 90), PLAIN, replicas=1)
    assert int(outcome.column("interruptions")[0]) == 1
    assert int(outcome.column("failures")[0]) == 100


@pytest.mark.parametrize("needed", [18, 17, 16])
def test_a_rack_waits_as_its_birth_death_chain_says(needed: int) -> None:
    # trays fail every 50 days, repairs take a day; the rack stops, and failures with it, once
    # fewer than `needed` of its 18 trays are up
    tray = Cause(name="tray", lifetime=Exponential(mean_s=50 * DAY), per_unit=18.0, takes="part")
    repair = Repair(name="swap", stages=(RepairStage(name="swap", lasts=Exponential(mean_s=DAY)),))
    fleet = Fleet(
        units=1, causes=(tray,), repairs=(repair,), parts_per_unit=18, parts_needed=needed
    )
    strategy = replace(PLAIN, spares=Spares(count=0))
    outcome = simulate(days(fleet, 1, 4000), strategy, replicas=60)
    weights = [1.0]
    for down in range(18 - needed + 1):
        weights.append(weights[-1] * (18 - down) / 50 / (down + 1))
    wait_R = outcome.column("waiting_for_spares") / outcome.horizon
    near(float(wait_R.mean()), weights[-1] / sum(weights), float(wait_R.std()) / math.sqrt(60))


def test_a_rack_that_is_out_is_replaced_by_another() -> None:
    tray = Cause(name="tray", lifetime=Exponential(mean_s=50 * DAY), per_unit=18.0, takes="part")
    switch = Cause(name="switch", lifetime=Exponential(mean_s=90 * DAY), per_unit=9.0)
    repair = Repair(name="swap", stages=(RepairStage(name="swap", lasts=Exponential(mean_s=DAY)),))

    def waiting(spares: int) -> float:
        fleet = Fleet(
            units=12, causes=(tray, switch), repairs=(repair,), parts_per_unit=18, parts_needed=16
        )
        strategy = replace(PLAIN, spares=Spares(count=spares))
        outcome = simulate(days(fleet, 8, 1000), strategy, replicas=10)
        return share(outcome, "waiting_for_spares")

    shares = [waiting(spares) for spares in range(4)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0.4
    assert shares[3] < 0.1


def test_a_job_that_shrinks_and_grows_runs_at_the_share_of_units_up() -> None:
    # each unit alone is up 10 days and out 2 days on average; nothing is lost by a failure
    repair = Repair(
        name="swap", stages=(RepairStage(name="swap", lasts=Exponential(mean_s=2 * DAY)),)
    )
    cause = Cause(name="node", lifetime=Exponential(mean_s=10 * DAY), per_unit=1.0)
    strategy = Strategy(
        interval_s=600.0,
        levels=(Level(write_s=0.0),),
        step_s=0.0,
        spares=Spares(count=0),
        shrink=Shrink(replica_units=1, fewest=1),
    )
    fleet = Fleet(units=16, causes=(cause,), repairs=(repair,))
    outcome = simulate(days(fleet, 16, 3000), strategy, replicas=100)
    # the start, with all units up, is worth 1/6 of some 1.7 days
    extra = (1 / 6) * (10 / 6) / 3000
    near(outcome.goodput, 5 / 6 + extra, outcome.standard_error + 1e-5)


def test_peers_that_hold_the_state_lose_a_step_only() -> None:
    job = days(one_cause(6 * H, 8), 8, 50)
    with_peers = simulate(job, replace(PLAIN, step_s=10.0), replicas=50)
    lost = exact_sum(with_peers.column("lost_work")) / TICKS_PER_SECOND
    failures = int(with_peers.column("interruptions").sum())
    assert lost <= 10.0 * failures
    assert lost > 9.0 * failures


def test_silent_errors_noticed_late_need_several_checkpoints() -> None:
    silent = Cause(
        name="silent", lifetime=Exponential(mean_s=5 * DAY), shared=1.0, effect="corrupts",
        lasts=Constant(value_s=3 * H),
    )  # fmt: skip
    job = days(Fleet(units=8, causes=(silent,)), 8, 100)
    one = simulate(job, PLAIN, replicas=50)
    ten = simulate(job, replace(PLAIN, retained=10), replicas=50)
    assert share(one, "lost_work") > 0.5  # back to the start every five days
    # 3 h of latency and half an interval are lost every five days
    assert share(ten, "lost_work") == pytest.approx((3 * H + 900) / (5 * DAY), rel=0.15)


def test_restarts_escalate_when_they_do_not_help() -> None:
    kinds = (
        Restart(name="in-process", phases={"all": 10.0}, success=0.5),
        Restart(name="in-job", phases={"all": 100.0}, success=0.5),
        Restart(name="scheduler", phases={"all": 1000.0}),
    )
    job = days(one_cause(5 * DAY, 8), 8, 100)
    outcome = simulate(job, replace(PLAIN, restarts=kinds), replicas=300, seed=1)
    mean = exact_sum(outcome.column("restart")) / TICKS_PER_SECOND
    mean /= int(outcome.column("interruptions").sum())
    assert mean == pytest.approx(10 + 0.5 * 100 + 0.25 * 1000, rel=0.05)


def test_collective_init_grows_with_ranks() -> None:
    assert collective_init_s(10_000, fixed_s=1.0, per_rank_s=0.002) == pytest.approx(21.0)


BAD: list[tuple[dict[str, object], dict[str, object], str]] = [
    ({"units": 20}, {}, "the fleet has 16"),
    ({}, {"interval_s": -1.0}, "interval_s = -1"),
    ({}, {"interval_s": math.nan}, "interval_s = nan"),
    ({}, {"levels": (Level(write_s=-5.0),)}, "write_s = -5"),
    ({}, {"spares": Spares(count=-1)}, "spares = -1"),
    ({}, {"levels": (Level(write_s=1.0, survives="process"),)}, "survives that"),
    ({}, {"shrink": Shrink(replica_units=8, fewest=3)}, "no replica of 8"),
    ({}, {"shrink": Shrink(replica_units=1, fewest=16)}, "fewer than"),
    ({}, {"shrink": Shrink(replica_units=0, fewest=8)}, "replica_units = 0"),
    # 16 units give up 4 at a time and work on 12, then on 8
    ({}, {"shrink": Shrink(replica_units=4, fewest=10)}, "runs on 12 or 8"),
    ({}, {"silent_restart": "restrt"}, "did you mean 'restart'"),
    ({"horizon_s": 1e13}, {}, "expected 0.001 to 1e\\+12"),
    ({"horizon_s": -1.0}, {}, "horizon_s = -1"),
    ({"work_s": 0.0}, {}, "work_s = 0"),
    ({}, {"levels": (Level(write_s=1e300),)}, "write_s = 1e\\+300"),
    ({}, {"levels": (Level(write_s=1.0, read_s=-1.0),)}, "read_s = -1"),
    ({}, {"restarts": (Restart(name="a", phases={"load": -1.0}),)}, "a: load = -1"),
    ({}, {"step_s": -1.0}, "step_s = -1"),
    ({}, {"slow_patience_s": math.nan}, "slow_patience_s = nan"),
]


@pytest.mark.parametrize(("job_fields", "strategy_fields", "words"), BAD)
def test_contradictions_are_refused(
    job_fields: dict[str, object], strategy_fields: dict[str, object], words: str
) -> None:
    job = Job(fleet=one_cause(DAY, 16), units=16, horizon_s=DAY)
    job = replace(job, **job_fields)  # type: ignore[arg-type]
    strategy = replace(PLAIN, **strategy_fields)  # type: ignore[arg-type]
    with pytest.raises((InvalidSpecError, InfeasibleError), match=words):
        simulate(job, strategy, replicas=1)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"lifetime": Exponential(mean_s=-1.0)}, "mean_s = -1"),
        ({"lifetime": Constant(value_s=0.0)}, "mean lifetime of 0 s: expected 0.001 s"),
        ({"per_unit": -1.0}, "per_unit = -1"),
        ({"shared": 1.0}, "either per_unit or shared"),
        ({"age_s": -1.0}, "age_s = -1"),
        ({"lifetime": Weibull(shape=0.001, scale_s=1.0)}, "shape = 0.001: expected 0.05 to"),
        ({"detection": LogNormal(median_s=1.0, sigma=40.0)}, "sigma = 40: expected"),
        ({"takes": "part"}, "takes = 'part' needs"),
        ({"effect": "slows"}, "slowdown above 1"),
        ({"effect": "corrupts"}, "set verify"),
        ({"lifetime": Exponential(mean_s=2e-3)}, "check the unit of the rates"),
        ({"lifetime": Exponential(mean_s=1e-6)}, r"a rate of 1,000,000 /s: expected"),
        ({"lifetime": Exponential(mean_s=1e19)}, r"to 3.6e\+18 s \(1e-6 FIT\)"),
        ({"repair": "swop"}, "unknown repair 'swop'; known: 'swap'"),
        ({"units": 9}, "units = 9 at once in a fleet of 8 units: expected at most 8"),
        (
            {"lifetime": weibull_of_mean(DAY, 2.0), "lemons": Lemons(share=0.1, factor=2.0)},
            "lemons",
        ),
    ],
)
def test_impossible_causes_are_refused(fields: dict[str, object], words: str) -> None:
    cause = replace(nodes(), **fields)  # type: ignore[arg-type]
    with pytest.raises(InvalidSpecError, match=words):
        simulate(days(Fleet(units=8, causes=(cause,)), 8, 1), PLAIN, replicas=1)


def test_more_spares_than_the_fleet_has_are_refused_with_the_number_left() -> None:
    with pytest.raises(InfeasibleError, match="use 2 spares"):
        simulate(
            days(one_cause(DAY, 18), 16, 1), replace(PLAIN, spares=Spares(count=9)), replicas=1
        )


def test_a_verification_finds_an_error_although_the_speed_changed_since() -> None:
    # an error strikes at 400 s; from 500 s on the 400 s of work that are left take 600 s; then come
    # 30 s of verification, and everything since the start is lost
    slow = Cause(
        name="slow", lifetime=Constant(value_s=500.0), shared=1.0, effect="slows",
        slowdown=1.5, lasts=Constant(value_s=1e9),
    )  # fmt: skip
    silent = Cause(name="silent", lifetime=Constant(value_s=400.0), shared=1.0, effect="corrupts")
    strategy = Strategy(interval_s=900.0, levels=(Level(write_s=60.0),), verify_s=30.0, step_s=None)
    found_s = 500.0 + 400.0 * 1.5 + 30.0
    job = Job(fleet=Fleet(units=1, causes=(slow, silent)), units=1, horizon_s=found_s + 1.0)
    outcome = simulate(job, strategy, replicas=1)
    seconds = {name: int(outcome.column(name)[0]) / TICKS_PER_SECOND for name in BUCKETS}
    assert seconds["lost_work"] == pytest.approx(900.0, abs=1e-5)
    assert seconds["productive"] == pytest.approx(1.0 / 1.5, abs=1e-5)
    assert int(outcome.column("interruptions")[0]) == 1


def test_a_recovery_that_takes_for_ever_ends_at_the_horizon() -> None:
    heavy = LogNormal(median_s=1e9, sigma=10.0)
    restarts = (Restart(name="restart", phases={str(phase): heavy for phase in range(8)}),)
    repair = Repair(name="swap", stages=(RepairStage(name="swap", lasts=heavy),))
    fleet = replace(one_cause(H, 8), repairs=(repair,), crews=1, units=10)
    strategy = replace(PLAIN, restarts=restarts, spares=Spares(count=2))
    outcome = simulate(days(fleet, 8, 10), strategy, replicas=200)
    total_R = np.sum([outcome.column(name) for name in BUCKETS], axis=0)
    assert (total_R == outcome.horizon).all()
    assert all((outcome.column(name) >= 0).all() for name in BUCKETS)
