"""What every schedule must keep, whatever its rules."""

from __future__ import annotations

import numpy as np
import pytest

from perfatlas.reliability.jobs.model import NEVER, Cluster, Jobs, Policy, pack
from perfatlas.reliability.jobs.run import schedule
from perfatlas.reliability.jobs.scheduler import run_world
from tests.reliability.jobs.scenarios import random_scenario


def _many(seed: int) -> Jobs:
    rng, size = np.random.default_rng(seed), 400
    run_J = rng.integers(1, 3000, size)
    return Jobs(
        submit_J=np.sort(rng.integers(0, 60_000, size)),
        run_J=run_J,
        gpus_J=rng.choice([1, 2, 4, 8, 16, 40], size),
        limit_J=run_J + rng.integers(0, 5000, size),
    )


def test_work_is_conserved_and_nothing_starts_before_it_is_submitted() -> None:
    jobs, cluster = _many(1), Cluster(nodes=8, nodes_per_domain=2, nodes_per_leaf=4)
    assert jobs.limit_J is not None
    for backfill in ("none", "easy", "conservative"):
        outcome = schedule(jobs, cluster, Policy(backfill=backfill))
        work = int((jobs.run_J * jobs.gpus_J).sum())
        assert outcome.states == {"completed": jobs.size}
        assert outcome.gpu_ticks()["productive"] == work
        assert (outcome.column("started") >= jobs.submit_J).all()
        assert (outcome.column("ended") - outcome.column("started") == jobs.run_J).all()


def test_jobs_never_hold_more_gpus_than_there_are() -> None:
    jobs, cluster = _many(2), Cluster(nodes=6)
    outcome = schedule(jobs, cluster, Policy(backfill="easy"))
    begins, ends = outcome.column("started"), outcome.column("ended")
    moments = np.unique(begins)
    used = [int(jobs.gpus_J[(begins <= t) & (t < ends)].sum()) for t in moments]
    assert max(used) <= cluster.gpus
    assert max(used) > 0.9 * cluster.gpus


@pytest.mark.parametrize("first", range(10_000, 10_100, 25))
def test_no_node_ever_holds_gangs_beyond_its_gpus(first: int) -> None:
    looked = 0
    for seed in range(first, first + 25):
        it = random_scenario(seed)
        sim, gpus = pack(*it[:4], it.until), it.cluster.gpus_per_node
        while not run_world(sim, 1):
            holder_NG = sim.place_E["job"].reshape(-1, gpus)
            used_NG = np.where(holder_NG >= 0, sim.job_J["gpus"][holder_NG], 0)
            assert (sim.node_N["free"] == gpus - used_NG.sum(axis=1)).all()
            assert (sim.node_N["free"] >= 0).all()
            held_J = np.bincount(holder_NG[holder_NG >= 0], minlength=it.jobs.size)
            assert (held_J == sim.job_J["allocated"]).all()
            for row_G in holder_NG:
                assert len(set(row_G[row_G >= 0].tolist())) == (row_G >= 0).sum()
            looked += int((holder_NG >= 0).any())
    assert looked > 100


def test_no_jobs_take_no_time() -> None:
    none = np.zeros(0, np.int64)
    outcome = schedule(Jobs(submit_J=none, run_J=none, gpus_J=none), Cluster(nodes=2), Policy())
    assert (outcome.now, outcome.states, outcome.utilisation) == (0, {}, 0.0)


@pytest.mark.parametrize("seed", range(6))
def test_easy_never_delays_what_the_head_was_promised(seed: int) -> None:
    jobs, cluster = _many(seed), Cluster(nodes=8, nodes_per_domain=2)
    for together in ("anywhere", "domain"):
        policy = Policy(backfill="easy", placement="best_fit", together=together)
        outcome = schedule(jobs, cluster, policy)
        promised, started = outcome.column("promised"), outcome.column("started")
        heads = promised < NEVER
        assert heads.sum() > 20
        assert (started[heads] <= promised[heads]).all()
        assert int(outcome.sim.state_1["backfilled"][0]) > 20


def test_without_backfill_jobs_start_in_their_order() -> None:
    jobs = _many(7)
    started = schedule(jobs, Cluster(nodes=8), Policy()).column("started")
    assert (np.diff(started) >= 0).all()


def test_backfill_shortens_the_mean_wait() -> None:
    jobs, cluster = _many(8), Cluster(nodes=8)
    waits = {
        name: float(schedule(jobs, cluster, Policy(backfill=name)).wait_s_J.mean())
        for name in ("none", "easy", "conservative")
    }
    assert waits["easy"] < waits["none"]
    assert waits["conservative"] < waits["none"]


def test_fair_share_brings_equal_users_equal_service() -> None:
    # Both users submit at time 0; the first asked earlier for all its jobs, which FIFO honours.
    size = 200
    jobs = Jobs(
        submit_J=np.zeros(size, np.int64),
        run_J=np.full(size, 1000),
        gpus_J=np.full(size, 8),
        user_J=np.repeat([0, 1], size // 2),
        users=("early", "late"),
    )
    cluster = Cluster(nodes=4)
    fifo = schedule(jobs, cluster, Policy()).wait_s_J
    fair = schedule(jobs, cluster, Policy(order="fair_share")).wait_s_J
    halves = (slice(0, size // 2), slice(size // 2, size))
    assert fifo[halves[1]].mean() > 2.9 * fifo[halves[0]].mean()
    assert fair[halves[1]].mean() == pytest.approx(fair[halves[0]].mean(), rel=0.05)
    double = Policy(order="fair_share", shares={"late": 3.0}, half_life_s=1e6)
    third = schedule(jobs, cluster, double, until_s=20.0)
    done = [(third.column("ended")[half] >= 0).sum() for half in halves]
    assert done[1] / done[0] == pytest.approx(3.0, rel=0.1)


def test_no_one_waits_while_everything_is_free() -> None:
    jobs, cluster = _many(9), Cluster(nodes=8)
    outcome = schedule(jobs, cluster, Policy(backfill="easy"))
    begins, ends = outcome.column("started"), outcome.column("ended")
    for j in range(jobs.size):
        waited = np.arange(jobs.submit_J[j], begins[j], 97)
        for t in waited:
            assert ((begins <= t) & (t < ends)).any()
