"""Order, backfill, preemption and placement by hand; refusals with their row."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from perfatlas.quantities import InfeasibleError, InvalidSpecError, UnsupportedError
from perfatlas.reliability.fleet.laws import Constant, Exponential, Weibull
from perfatlas.reliability.fleet.model import Cause, Fleet, Lemons, Repair, RepairStage
from perfatlas.reliability.jobs.failures import draw_failures
from perfatlas.reliability.jobs.model import Cluster, Failures, Jobs, Policy, ticks
from perfatlas.reliability.jobs.run import schedule
from tests.examples import few


def _jobs(*rows: tuple[float, float, int], **columns: Any) -> Jobs:  # noqa: ANN401
    submit_s, run_s, gpus = zip(*rows, strict=True)
    jobs = Jobs(submit_J=ticks(submit_s), run_J=ticks(run_s), gpus_J=np.array(gpus), **columns)
    return jobs if jobs.limit_J is not None else jobs.with_limits(1.0, least_s=1.0)


def _starts(jobs: Jobs, cluster: Cluster, **rules: Any) -> list[float]:  # noqa: ANN401
    outcome = schedule(jobs, cluster, Policy(**rules))
    return (outcome.column("started") / 1000).tolist()  # type: ignore[no-any-return]


def test_easy_and_conservative_differ_where_the_third_job_matters() -> None:
    # 4 nodes. A: 3 nodes to 10 s. B (head): 4 nodes, due at 10 s, to 20 s. C: 3 nodes. D: one node
    # for 15 s: it would end at 18 s, after B is due on all nodes: nobody lets it pass. E: one node
    # for 5 s ends at 9 s: both let it pass.
    jobs = _jobs((0, 10, 24), (1, 10, 32), (2, 30, 24), (3, 15, 8), (4, 5, 8))
    cluster = Cluster(nodes=4)
    assert _starts(jobs, cluster) == [0, 10, 20, 20, 35]
    assert _starts(jobs, cluster, backfill="easy") == [0, 10, 20, 20, 4]
    assert _starts(jobs, cluster, backfill="conservative") == [0, 10, 20, 20, 4]
    # Now B wants 2 nodes and C all 4 for 30 s. F, one node for 40 s from 3 s, leaves B its two at
    # 10 s, so EASY lets it pass, and C waits until 43 s. Conservative has promised C 20 s, and F
    # starts after it.
    jobs = _jobs((0, 10, 24), (1, 10, 16), (2, 30, 32), (3, 40, 8))
    assert _starts(jobs, cluster, backfill="easy") == [0, 10, 43, 3]
    assert _starts(jobs, cluster, backfill="conservative") == [0, 10, 20, 50]


def test_reservations_are_made_anew_after_a_start_that_changes_the_fullest_node() -> None:
    # 3 nodes of 4 GPUs. Until 10 s A holds 4 of node 0, B 3 of node 1, C 2 of node 2. D wants 3 and
    # is given node 0 at 10 s, the first of equals. E takes the last GPU of node 1 for 100 s: from
    # 10 s node 1 has 3 and is the fullest for D. So F is given all of node 0 at 10 s, and G takes 2
    # GPUs of node 2 at 4 s. With D still on node 0, F would be given node 2, and G would wait.
    jobs = _jobs((0, 10, 4), (0, 10, 3), (0, 10, 2), (1, 9, 3), (2, 100, 1), (3, 9, 4), (4, 100, 2))
    cluster = Cluster(nodes=3, gpus_per_node=4)
    starts = _starts(jobs, cluster, backfill="conservative", placement="best_fit")
    assert starts == [0, 0, 0, 10, 2, 10, 4]


def test_reservations_are_made_anew_after_a_start_that_changes_the_roomiest_domain() -> None:
    # 3 domains of 2 nodes. A holds domain 0 until 10 s, B node 2, E node 5; nodes 3 and 4 are free
    # from 1 s. F wants 3 nodes at 10 s: domain 0 and node 2. G takes node 3 for 100 s: then domain
    # 2 is roomier than domain 1, and F gets node 4 instead of node 2. So H cannot have node 4 for
    # 100 s at 4 s and waits for node 2.
    jobs = _jobs(
        (0, 10, 2), (0, 10, 1), (0, 1, 1), (0, 1, 1), (0, 10, 1),
        (2, 20, 3), (3, 100, 1), (4, 100, 1),
    )  # fmt: skip
    cluster = Cluster(nodes=6, gpus_per_node=1, nodes_per_domain=2, nodes_per_leaf=2)
    starts = _starts(jobs, cluster, backfill="conservative", together="domain")
    assert starts == [0, 0, 0, 0, 0, 10, 3, 10]


def test_reservations_that_fill_the_memory_are_refused() -> None:
    # Each of a million nodes may get 8 ends of running jobs, 2 x 40 of reservations and 2 more: 90.
    jobs = _jobs(*[(0, 10, 8)] * 40)
    with pytest.raises(InvalidSpecError, match=r"1000000 nodes.*7e"):
        schedule(jobs, Cluster(nodes=1_000_000), Policy(backfill="conservative"))


def test_depth_limits_who_is_looked_at() -> None:
    jobs = _jobs((0, 10, 8), (1, 10, 16), (2, 9, 16), (3, 5, 8))
    assert _starts(jobs, Cluster(nodes=2), backfill="easy", depth=2)[3] == 3
    assert _starts(jobs, Cluster(nodes=2), backfill="easy", depth=1)[3] > 3


def test_who_moves_within_the_depth_is_looked_at_without_waiting_for_gpus() -> None:
    # A has two of four nodes to 400 s, B wants all four. At 10 s C and D come, one node for 300 s
    # each: the one job looked at behind B is C, which starts. At 50 s E comes; D is the one now and
    # ends at 350 s, in time for B. E would end after B is due.
    jobs = _jobs((0, 400, 16), (1, 10, 32), (10, 300, 8), (10, 300, 8), (50, 1000, 8))
    assert _starts(jobs, Cluster(nodes=4), backfill="easy", depth=1) == [0, 400, 10, 50, 410]
    assert _starts(jobs, Cluster(nodes=4), backfill="easy") == [0, 400, 10, 10, 410]


def test_limits_end_jobs() -> None:
    jobs = _jobs((0, 10, 8), (0, 3, 8), limit_J=ticks([4, 4]))
    outcome = schedule(jobs, Cluster(nodes=1), Policy(order="fifo"))
    assert outcome.states == {"completed": 1, "timeout": 1}
    assert (outcome.column("ended") / 1000).tolist() == [4.0, 7.0]
    assert outcome.gpu_ticks()["lost_work"] == 4 * 8 * 1000


def test_priority_goes_first_and_preempts_as_few_as_needed() -> None:
    # Three nodes: low jobs since 0 s on nodes 0 and 1, since 1 s on node 2. At 2 s a job of higher
    # priority wants two nodes: the latest goes first, then the last of equals.
    jobs = _jobs((0, 10, 8), (0, 10, 8), (1, 10, 8), (2, 4, 16), priority_J=np.array([0, 0, 0, 5]))
    cluster = Cluster(nodes=3)
    assert _starts(jobs, cluster, order="priority") == [0, 0, 1, 10]
    outcome = schedule(jobs, cluster, Policy(order="priority", preemption="requeue"))
    assert outcome.column("preempted").tolist() == [0, 1, 1, 0]
    assert (outcome.column("ended") / 1000).tolist() == [10, 16, 16, 6]
    assert outcome.gpu_ticks()["lost_work"] == (2 + 1) * 8 * 1000
    cancelled = schedule(jobs, cluster, Policy(order="priority", preemption="cancel"))
    assert cancelled.states == {"completed": 2, "preempted": 2}


def test_who_must_not_be_queued_again_is_cancelled_for_others() -> None:
    # Both nodes are of two jobs, of which the first is not queued again. At 100 s a job of higher
    # priority takes both until 300 s; then the second begins anew.
    jobs = _jobs(
        (0, 1000, 8), (0, 1000, 8), (100, 200, 16),
        priority_J=np.array([0, 0, 5]), requeue_J=np.array([False, True, True]),
    )  # fmt: skip
    outcome = schedule(jobs, Cluster(nodes=2), Policy(order="priority", preemption="requeue"))
    assert outcome.states == {"completed": 2, "preempted": 1}
    assert (outcome.column("ended") / 1000).tolist() == [100, 1300, 300]
    assert outcome.column("preempted").tolist() == [1, 1, 0]
    assert outcome.column("restarts").tolist() == [0, 1, 0]


def test_placement_keeps_gangs_together_and_measures_what_is_split() -> None:
    # Two domains of two nodes. Two jobs of one node take nodes 0 and 1 by packing, but nodes of one
    # domain either way; a job of two nodes then gets the other domain, and one of 2 nodes waits.
    cluster = Cluster(nodes=4, nodes_per_domain=2)
    jobs = _jobs((0, 10, 8), (0, 30, 8), (1, 20, 8), (11, 5, 16))
    near = Policy(together="domain", required=True)
    outcome = schedule(jobs, cluster, near)
    # At 11 s nodes 0 and 3 are free, in two domains: it waits for node 2 until 21 s.
    assert (outcome.column("started") / 1000).tolist() == [0, 0, 1, 21]
    assert outcome.fragmented == pytest.approx(10 * 16 / (30 * 32))
    loose = schedule(jobs, cluster, Policy(together="domain"))
    assert loose.column("spread").tolist() == [1, 1, 1, 2]
    assert loose.column("started")[3] == 11_000


def test_best_fit_leaves_whole_nodes_free() -> None:
    jobs = _jobs((0, 10, 6), (0, 20, 5), (11, 9, 3), (12, 5, 8))
    assert _starts(jobs, Cluster(nodes=2), placement="pack")[3] == 20
    assert _starts(jobs, Cluster(nodes=2), placement="best_fit")[3] == 12
    outcome = schedule(jobs, Cluster(nodes=2), Policy(placement="best_fit"))
    assert 0.0 < outcome.stranded < 1.0


def test_outcome_tells_each_class_of_jobs() -> None:
    jobs = _jobs((0, 100, 8), (0, 100, 8), (0, 50, 8), kind_J=np.array([0, 1, 1]), kinds=("a", "b"))
    outcome = schedule(jobs, Cluster(nodes=1), Policy())
    first, second = outcome.by_kind()
    assert (first["kind"], first["wait_s"]["mean"], first["slowdown"]["mean"]) == ("a", 0.0, 1.0)
    assert (second["jobs"], second["wait_s"]["mean"]) == (2, 150.0)
    assert second["slowdown"]["mean"] == pytest.approx((200 / 100 + 250 / 50) / 2)
    assert outcome.utilisation == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"gpus_J": np.array([8, 40])}, "row 2: a job of 40 GPUs takes 5 nodes"),
        ({"gpus_J": np.array([8, 0])}, "row 2: gpus_J = 0"),
        ({"run_J": np.array([-1, 5])}, "row 1: run_J = -1"),
        ({"submit_J": np.array([5, -5])}, "row 2: submit_J = -5"),
        ({"submit_J": np.array([5, 4])}, "row 2: submitted before the previous row"),
        ({"run_J": np.array([1.5, 2.0])}, "expected whole numbers"),
        ({"run_J": np.array([1])}, r"shape \(1,\)"),
        ({"limit_J": np.array([0, 5])}, "row 1: limit_J = 0"),
        ({"user_J": np.array([0, 7])}, "row 2: user_J = 7"),
        ({"row_J": np.array([12, 31]), "run_J": np.array([3, -2])}, "row 31: run_J = -2"),
    ],
)
def test_bad_rows_are_named(columns: dict[str, Any], words: str) -> None:
    given: dict[str, Any] = {
        "submit_J": np.array([0, 1]), "run_J": np.array([5, 5]), "gpus_J": np.array([8, 8])
    }  # fmt: skip
    with pytest.raises((InvalidSpecError, InfeasibleError), match=words):
        schedule(Jobs(**(given | columns)), Cluster(nodes=4), Policy())


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({"order": "fifoo"}, "did you mean 'fifo'"),
        ({"backfill": "easy"}, "needs time limits, which"),
        ({"preemption": "requeue"}, "requires order = 'priority'"),
        ({"depth": 0}, "depth = 0"),
        ({"half_life_s": 0.0}, "half_life_s"),
        ({"shares": {"nobody": 1.0}}, "no job belongs to 'nobody'"),
        ({"together": "domain", "required": True}, "a domain has 1 node"),
    ],
)
def test_bad_rules_are_named(rules: dict[str, Any], words: str) -> None:
    jobs = Jobs(submit_J=ticks([0]), run_J=ticks([1]), gpus_J=np.array([16]))
    with pytest.raises((InvalidSpecError, InfeasibleError), match=words):
        schedule(jobs, Cluster(nodes=2, nodes_per_domain=1), Policy(**rules))


def test_bad_clusters_and_failures_are_named() -> None:
    jobs = Jobs(submit_J=ticks([0]), run_J=ticks([1]), gpus_J=np.array([8]))
    with pytest.raises(InvalidSpecError, match="splits domains"):
        schedule(jobs, Cluster(nodes=6, nodes_per_domain=2, nodes_per_leaf=3), Policy())
    wide = Failures(
        time_X=ticks([1]), node_X=np.array([1]), repair_X=ticks([1]), width_X=np.array([2])
    )
    with pytest.raises(InvalidSpecError, match="row 1: width_X = 2"):
        schedule(jobs, Cluster(nodes=2), Policy(), failures=wide)
    late = Failures(time_X=ticks([2, 1]), node_X=np.array([0, 0]), repair_X=ticks([1, 1]))
    with pytest.raises(InvalidSpecError, match="row 2: fails before"):
        schedule(jobs, Cluster(nodes=2), Policy(), failures=late)


def test_failures_drawn_from_a_fleet_have_its_rates_and_blast_radius() -> None:
    day = 86400.0
    swap = Repair(name="swap", stages=(RepairStage(name="swap", lasts=Constant(value_s=3600.0)),))
    causes = (
        Cause(name="host", lifetime=Exponential(mean_s=20 * day), per_unit=1.0),
        Cause(name="rack", lifetime=Exponential(mean_s=50 * day), per_unit=0.25, units=4),
    )
    fleet = Fleet(units=64, causes=causes, repairs=(swap,))
    cluster = Cluster(nodes=64, nodes_per_domain=4)
    drawn = draw_failures(fleet, cluster, horizon_s=400 * day, seed=3)
    assert drawn.width_X is not None
    hosts, racks = (drawn.width_X == 1).sum(), (drawn.width_X == 4).sum()
    assert abs(hosts - 64 * 20) < 4 * np.sqrt(64 * 20)
    assert abs(racks - 16 * 8) < 4 * np.sqrt(16 * 8)
    assert (drawn.node_X[drawn.width_X == 4] % 4 == 0).all()
    assert (drawn.repair_X == 3_600_000).all()
    assert (np.diff(drawn.time_X) >= 0).all()
    slow = replace(causes[0], effect="slows", lasts=Constant(value_s=1.0), slowdown=2.0)
    with pytest.raises(UnsupportedError, match="stop jobs"):
        draw_failures(Fleet(units=64, causes=(slow,)), cluster, horizon_s=day)
    with pytest.raises(InvalidSpecError, match="64 units"):
        draw_failures(fleet, Cluster(nodes=8), horizon_s=day)


def _drawn_day(cause: Cause, repair_s: float, days: float = 200.0) -> Failures:
    stage = RepairStage(name="swap", lasts=Constant(value_s=repair_s))
    fleet = Fleet(units=100, causes=(cause,), repairs=(Repair(name="swap", stages=(stage,)),))
    return draw_failures(fleet, Cluster(nodes=100), horizon_s=days * 86400.0, seed=4)


def test_no_node_fails_while_it_is_under_repair() -> None:
    day = 86400.0
    drawn = _drawn_day(Cause(name="n", lifetime=Exponential(mean_s=day), per_unit=1.0), day)
    out_s = np.minimum(day, 200 * day - drawn.time_X / 1000.0).sum()
    # MTTR / (MTBF + MTTR) = 1/2; the nodes start in service, which takes 1/4 of a day off
    assert out_s / (100 * 200 * day) == pytest.approx(0.5 - 0.25 / 200, abs=0.01)
    for node in range(100):
        assert (np.diff(drawn.time_X[drawn.node_X == node]) >= 86_400_000).all()


def test_nodes_of_a_rack_that_is_out_do_not_fail() -> None:
    day = 86400.0
    stage = RepairStage(name="swap", lasts=Constant(value_s=day))
    causes = (
        Cause(name="rack", lifetime=Exponential(mean_s=3 * day), per_unit=0.25, units=4),
        Cause(name="node", lifetime=Exponential(mean_s=day), per_unit=1.0),
    )
    fleet = Fleet(units=64, causes=causes, repairs=(Repair(name="swap", stages=(stage,)),))
    drawn = draw_failures(fleet, Cluster(nodes=64), horizon_s=100 * day, seed=2)
    assert drawn.width_X is not None
    racks = drawn.width_X > 1
    assert racks.sum() > 300
    for time, first in zip(drawn.time_X[racks], drawn.node_X[racks], strict=True):
        inside = (drawn.node_X >= first) & (drawn.node_X < first + 4) & ~racks
        since = drawn.time_X[inside] - time
        assert not ((since > 0) & (since < 86_400_000 - 1)).any()


@pytest.mark.parametrize("strikes", [0, 3])
@pytest.mark.parametrize("parts", [1, 8])
def test_lemons_fail_as_often_as_they_should(strikes: int, parts: int) -> None:
    # Lemons are nodes, so that it is the same whether one part of a node fails or one of eight.
    day = 86400.0
    lemons = Lemons(share=0.1, factor=20.0, strikes=strikes)
    lifetime = Exponential(mean_s=100 * day * parts)
    cause = Cause(name="bad", lifetime=lifetime, per_unit=float(parts), lemons=lemons)
    drawn = _drawn_day(cause, 0.0, days=1000.0)
    counts = np.sort(np.bincount(drawn.node_X, minlength=100))
    per_lemon = 200.0 if not strikes else 3.0 + (1000.0 - 3 * 5.0) / 100.0
    assert counts[-10:].sum() == pytest.approx(10 * per_lemon, rel=0.1 if not strikes else 0.5)
    everything = 90 * 10.0 + 10 * per_lemon
    assert abs(counts.sum() - everything) < 4 * np.sqrt(everything)


@pytest.mark.parametrize("nodes", [1, 4, 8, 24, 100])
@pytest.mark.parametrize("shape", few([1.0, 2.0], every=3))
def test_a_fraction_of_a_part_fails_that_fraction_as_often(nodes: int, shape: float) -> None:
    # One switch of 16 nodes fails once an hour: half a switch 12 times a day, one and a half 36
    # times, whatever their age. Parts stand in order: the second begins with node 16.
    mean_s, days = 3600.0, 100
    lifetime = Weibull(shape=shape, scale_s=mean_s / math.gamma(1.0 + 1.0 / shape))
    cause = Cause(name="leaf", lifetime=lifetime, per_unit=1 / 16, ages="mixed")
    drawn = draw_failures(
        Fleet(units=nodes, causes=(cause,)), Cluster(nodes=nodes), horizon_s=days * 86400.0
    )
    expected = nodes / 16 * 24 * days
    assert abs(drawn.time_X.size - expected) < 4 * np.sqrt(expected)
    assert set(drawn.node_X.tolist()) == set(range(0, nodes, 16))


def test_failures_of_a_longer_horizon_begin_with_those_of_a_shorter_one() -> None:
    lemons = Lemons(share=0.013, factor=50.0, strikes=9)
    cause = Cause(name="a", lifetime=Exponential(mean_s=9e4), per_unit=0.3, lemons=lemons)
    fleet, cluster = Fleet(units=99, causes=(cause,)), Cluster(nodes=99)
    long = draw_failures(fleet, cluster, horizon_s=2e6, seed=5)
    short = draw_failures(fleet, cluster, horizon_s=5e5, seed=5)
    inside = long.time_X < 500_000_000
    assert 50 < inside.sum() < long.time_X.size
    assert long.time_X[inside].tolist() == short.time_X.tolist()
    assert long.node_X[inside].tolist() == short.node_X.tolist()


def test_a_small_share_of_lemons_keeps_the_rate_of_the_fleet() -> None:
    # 0.001 of 64 nodes that fail 1,000 times as often: the rate is 64 x 1.999 over the mean.
    lemons = Lemons(share=0.001, factor=1000.0)
    cause = Cause(name="a", lifetime=Exponential(mean_s=86400.0), per_unit=1.0, lemons=lemons)
    drawn = draw_failures(
        Fleet(units=64, causes=(cause,)), Cluster(nodes=64), horizon_s=50 * 86400.0
    )
    counts = np.sort(np.bincount(drawn.node_X, minlength=64))
    assert abs(counts.sum() - 64 * 1.999 * 50) < 4 * np.sqrt(64 * 1.999 * 50)
    assert counts[-1] == pytest.approx(50 * (1 + 0.064 * 999), rel=0.1)  # the one that is worse
    assert counts[-2] < 90


def test_jobs_that_never_started_count_with_what_they_waited() -> None:
    jobs = Jobs(submit_J=ticks([0, 10, 900]), run_J=ticks([5000] * 3), gpus_J=np.array([8] * 3))
    found = schedule(jobs, Cluster(nodes=1), Policy(), until_s=100.0)
    assert found.waited_s_J[:2].tolist() == [0.0, 90.0]
    assert np.isnan(found.waited_s_J[2])  # not submitted yet
    assert found.never_started_J.tolist() == [False, True, False]
    assert found.by_kind()[0]["wait_s"]["mean"] == 45.0
    assert found.by_kind()[0]["never_started"] == 1
    assert any("1 of 3 jobs never started" in text for text in found.remarks())
