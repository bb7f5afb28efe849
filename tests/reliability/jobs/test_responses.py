"""What each launcher does with a job that loses a node, worked by hand.

The job: 2 nodes of 8 GPUs, 1,000 s of work, a checkpoint every 300 s, 60 s to restart. It starts at
0 on nodes 0 and 1; node 0 fails at 400 s, when 300 s are saved and 100 s are not. So 700 s are
left on two nodes (1,400 node-seconds), and 100 s x 16 GPUs are lost.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from perfatlas.reliability.jobs import model
from perfatlas.reliability.jobs.model import responses
from perfatlas.reliability.jobs.run import ScheduleOutcome, schedule


def _run(
    response: model.Response,
    *events: tuple[float, int, float],
    nodes: int = 3,
    width: int = 1,
    job: dict[str, Any] | None = None,
    **rules: Any,  # noqa: ANN401
) -> ScheduleOutcome:
    columns: dict[str, Any] = {
        "submit_J": model.ticks([0]),
        "run_J": model.ticks([1000]),
        "gpus_J": np.array([16]),
        "checkpoint_J": model.ticks([300]),
        "restart_J": model.ticks([60]),
    }
    time_s, node, repair_s = zip(*(events or ((400.0, 0, 2000.0),)), strict=True)
    failures = model.Failures(
        time_X=model.ticks(time_s),
        node_X=np.array(node),
        repair_X=model.ticks(repair_s),
        width_X=np.full(len(node), width),
    )
    cluster = model.Cluster(nodes=nodes, nodes_per_domain=2 if nodes == 4 else None)
    policy = model.Policy(response=response, **rules)
    return schedule(model.Jobs(**(columns | (job or {}))), cluster, policy, failures=failures)


def _gpu_s(outcome: ScheduleOutcome) -> dict[str, float]:
    """GPU-seconds of the buckets a job fills."""
    idle = ("draining", "down", "idle_jobs_queued", "idle_no_jobs")
    return {k: v / 1000 for k, v in outcome.gpu_ticks().items() if k not in idle and v}


def _end(outcome: ScheduleOutcome) -> tuple[str, float]:
    (state,) = outcome.states
    return state, int(outcome.column("ended")[0]) / 1000


def _restarts(outcome: ScheduleOutcome) -> int:
    """Times the work of the job began anew."""
    return int(outcome.column("restarts")[0])


def test_slurm_kills_the_allocation_after_slurmd_timeout_and_requeues() -> None:
    # 400 + 300 noticed; nodes 1 and 2 at once; 60 s restart; 700 s left: 1460 s.
    outcome = _run(responses.slurm_requeue())
    assert _end(outcome) == ("completed", 1460.0)
    assert _gpu_s(outcome) == {
        "productive": 16_000.0,
        "lost_work": 1_600.0,
        "restart": 960.0,
        "detection": 300.0 * 8,  # the surviving node; the dead one is down
    }
    assert _restarts(outcome) == 1


def test_slurm_no_requeue_ends_with_the_node() -> None:
    outcome = _run(responses.slurm_requeue(), job={"requeue_J": np.array([False])})
    assert _end(outcome) == ("node_fail", 700.0)
    # 300 s were saved, and nobody will ever use them; nothing began anew.
    assert _gpu_s(outcome) == {
        "unfinished": 300.0 * 16,
        "lost_work": 100.0 * 16,
        "detection": 300.0 * 8,
    }
    assert _restarts(outcome) == 0


def test_slurm_no_kill_goes_on_with_one_node_and_never_regrows() -> None:
    # From 760 s 1,400 node-seconds on one node: 2160 s. A node that returns at 900 s is not taken.
    outcome = _run(responses.slurm_no_kill(), (400.0, 0, 500.0), nodes=2)
    assert _end(outcome) == ("completed", 2160.0)
    assert _gpu_s(outcome) == {
        "productive": 300.0 * 16 + 1400.0 * 8,
        "lost_work": 1_600.0,
        "restart": 60.0 * 8,
        "detection": 300.0 * 8,
    }
    assert _restarts(outcome) == 1  # in place, which takes its 60 s like any other


def test_slurm_drain_lets_the_job_end_and_repairs_then() -> None:
    jobs = model.Jobs(
        submit_J=model.ticks([0, 500]), run_J=model.ticks([1000, 10]), gpus_J=np.array([8, 16])
    )
    drain = model.Failures(
        time_X=model.ticks([400]),
        node_X=np.array([0]),
        repair_X=model.ticks([100]),
        drain_X=np.array([True]),
    )
    outcome = schedule(jobs, model.Cluster(nodes=2), model.Policy(), failures=drain)
    # The first ends at 1000 s undisturbed; its node is back at 1100 s, and the second needs both.
    assert (outcome.column("ended") / 1000).tolist() == [1000.0, 1110.0]
    assert outcome.gpu_ticks()["lost_work"] == 0
    assert outcome.column("restarts").tolist() == [0, 0]


def test_what_is_free_on_a_draining_node_is_not_under_repair() -> None:
    # 4 of 8 GPUs of node 0 are in use until 1000 s; it drains from 400 s and is repaired to 1100 s.
    jobs = model.Jobs(
        submit_J=model.ticks([0, 500]), run_J=model.ticks([1000, 10]), gpus_J=np.array([4, 16])
    )
    drain = model.Failures(
        time_X=model.ticks([400]),
        node_X=np.array([0]),
        repair_X=model.ticks([100]),
        drain_X=np.array([True]),
    )
    told = schedule(jobs, model.Cluster(nodes=2), model.Policy(), failures=drain).gpu_ticks()
    assert (told["draining"], told["down"]) == (600_000 * 4, 100_000 * 8)


def test_jobset_counts_restarts_of_the_whole_set() -> None:
    # Noticed at 750 s; 60 s restart; 700 s left: 1510 s.
    once = _run(responses.jobset(max_restarts=1))
    assert _end(once) == ("completed", 1510.0)
    assert _restarts(once) == 1
    never = _run(responses.jobset(max_restarts=0))
    assert _end(never) == ("node_fail", 750.0)
    assert _restarts(never) == 0
    twice = _run(responses.jobset(max_restarts=1), (400.0, 0, 2000.0), (1000.0, 1, 2000.0))
    assert _end(twice) == ("node_fail", 1350.0)
    assert _restarts(twice) == 1  # the second failure is the end, not a restart
    # 300 s before the first; from 810 s to 1000 s 190 s, less than a checkpoint apart
    assert _gpu_s(twice)["unfinished"] == 300.0 * 16
    assert _gpu_s(twice)["lost_work"] == (100.0 + 190.0) * 16


def test_kueue_by_default_tries_once_when_the_pods_of_the_node_are_evicted() -> None:
    # 750 s: no free node in the domain {0, 1}; evicted a tick later; nodes 2 and 3 at once.
    outcome = _run(model.kueue_replacement(), nodes=4, together="domain", required=True)
    assert _end(outcome) == ("completed", 750.001 + 60.0 + 700.0)
    assert _restarts(outcome) == 1
    preferred = _run(model.kueue_replacement(), nodes=4, together="domain")
    assert _end(preferred) == ("completed", 750.0 + 60.0 + 700.0)
    assert (_restarts(preferred), preferred.column("attempts")[0]) == (1, 1)  # never evicted


def _patient(recovery_timeout_s: float | None = None) -> model.Response:
    return model.kueue_replacement(
        detection_s=30.0, fail_fast=False, recovery_timeout_s=recovery_timeout_s
    )


def test_kueue_replaces_the_node_where_topology_is_preferred() -> None:
    # Noticed after 30 s; no other node in the domain {0, 1}; node 2 at once: 430 + 60 + 700.
    outcome = _run(_patient(), nodes=4, together="domain")
    assert _end(outcome) == ("completed", 1190.0)
    assert (_restarts(outcome), outcome.column("attempts")[0]) == (1, 1)  # never evicted


def test_kueue_waits_in_a_required_domain_until_the_recovery_timeout() -> None:
    # 430 s to 1030 s waiting with node 1; evicted; backoff 60 s; nodes 2 and 3 from 1090 s;
    # 60 s restart; 700 s: 1850 s.
    response = _patient(600.0)
    outcome = _run(response, nodes=4, together="domain", required=True)
    assert _end(outcome) == ("completed", 1850.0)
    assert _gpu_s(outcome) == {
        "productive": 16_000.0,
        "lost_work": 1_600.0,
        "restart": 960.0,
        "detection": 30.0 * 8,
        "waiting": 600.0 * 8,
    }
    assert (_restarts(outcome), outcome.column("attempts")[0]) == (1, 2)


def test_kueue_takes_the_repaired_node_if_it_is_back_in_time() -> None:
    # Back at 900 s, within the domain: 900 + 60 + 700 = 1660 s.
    response = _patient(600.0)
    outcome = _run(response, (400.0, 0, 500.0), nodes=4, together="domain", required=True)
    assert _end(outcome) == ("completed", 1660.0)


def test_kueue_evicts_when_two_nodes_fail() -> None:
    # Evicted at 430 s, queued at 490 s, nodes 2 and 3: 490 + 60 + 700 = 1250 s.
    outcome = _run(_patient(), nodes=4, width=2, together="domain")
    assert _end(outcome) == ("completed", 1250.0)


def test_kueue_backoff_doubles_up_to_an_hour() -> None:
    # Each eviction loses everything (no checkpoint): evicted at 430, 1130, 2130 s ... The second
    # failure strikes at 1100 s in the run that began at 490 s, so it queues again after 120 s.
    job = {"checkpoint_J": model.ticks([0]), "restart_J": model.ticks([0])}
    outcome = _run(_patient(), (400.0, 0, 1.0), (1100.0, 0, 1.0), nodes=2, width=2, job=job)
    assert _end(outcome) == ("completed", 1130.0 + 120.0 + 1000.0)


def test_torchrun_shrinks_and_takes_the_node_in_again() -> None:
    # 445 s: restart with one node, work from 505 s. At 900 s the node is back: 395 s were worked,
    # 300 s saved, 95 s x 8 GPUs lost; all restart; from 960 s 2,000 - 600 - 300 = 1,100
    # node-seconds on two nodes: 1510 s. Two restarts.
    job = {"fewest_J": np.array([1])}
    outcome = _run(responses.torchrun_elastic(max_restarts=1), (400.0, 0, 500.0), nodes=2, job=job)
    assert _end(outcome) == ("completed", 1510.0)
    # The second, to take the node in, is none that --max-restarts counts.
    assert (_restarts(outcome), outcome.column("counted")[0]) == (2, 1)
    assert _gpu_s(outcome) == {
        "productive": 16_000.0,
        "lost_work": 1_600.0 + 95.0 * 8,
        "restart": 60.0 * 8 + 60.0 * 16,
        "detection": 45.0 * 8,
    }
    never = _run(responses.torchrun_elastic(), (400.0, 0, 500.0), nodes=2, job=job)
    assert _end(never) == ("node_fail", 445.0)  # --max-restarts is 0 by default
    assert _restarts(never) == 0


def test_torchrun_below_its_minimum_waits_for_the_join_timeout() -> None:
    # 445 s + 600 s; a node back at 900 s: 900 + 60 + 700 = 1660 s.
    job = {"fewest_J": np.array([2])}
    back = _run(responses.torchrun_elastic(max_restarts=9), (400.0, 0, 500.0), nodes=2, job=job)
    assert _end(back) == ("completed", 1660.0)
    assert _restarts(back) == 1
    gone = _run(responses.torchrun_elastic(max_restarts=9), (400.0, 0, 5000.0), nodes=2, job=job)
    assert _end(gone) == ("node_fail", 1045.0)
    assert _restarts(gone) == 0  # it never got to begin anew


def test_torchrun_takes_the_only_node_of_a_job_in_again() -> None:
    # 445 s: has the keys nothing and waits; back at 900 s: 900 + 60 + 700 = 1660 s.
    job = {"gpus_J": np.array([8])}
    back = _run(responses.torchrun_elastic(max_restarts=9), (400.0, 0, 500.0), job=job)
    assert _end(back) == ("completed", 1660.0)
    assert _gpu_s(back) == {"productive": 8_000.0, "lost_work": 100.0 * 8, "restart": 60.0 * 8}
    gone = _run(responses.torchrun_elastic(max_restarts=9), (400.0, 0, 5000.0), job=job)
    assert _end(gone) == ("node_fail", 1045.0)


def test_torchrun_with_all_nodes_lost_goes_on_with_those_that_return() -> None:
    # Node 1 is back at 700 s and alone is enough: 60 s, then 240 s on it, none of them saved. Node
    # 0 is back at 1000 s: 60 s, then 700 s on both, done at 1760 s.
    events = ((400.0, 0, 600.0), (400.0, 1, 300.0))
    outcome = _run(responses.torchrun_elastic(max_restarts=9), *events, nodes=2)
    assert _end(outcome) == ("completed", 1760.0)
    assert _gpu_s(outcome)["lost_work"] == 100.0 * 16 + 240.0 * 8


def test_all_elastic_jobs_of_a_node_take_it_in_again() -> None:
    # Three jobs share node 0; two lose all they had, one half: each goes on from 900 s.
    columns: dict[str, Any] = {
        "submit_J": model.ticks([0, 0, 0]),
        "run_J": model.ticks([1000] * 3),
        "gpus_J": np.array([2, 2, 4]),
        "nodes_J": np.array([1, 1, 2]),
        "fewest_J": np.array([1, 1, 2]),
        "checkpoint_J": model.ticks([300] * 3),
        "restart_J": model.ticks([60] * 3),
    }
    failures = model.Failures(
        time_X=model.ticks([400]), node_X=np.array([0]), repair_X=model.ticks([500])
    )
    policy = model.Policy(response=responses.torchrun_elastic(max_restarts=9))
    outcome = schedule(model.Jobs(**columns), model.Cluster(nodes=2), policy, failures=failures)
    assert (outcome.column("ended") / 1000).tolist() == [1660.0] * 3
    assert outcome.column("restarts").tolist() == [1, 1, 1]


def test_a_preempted_job_restarts_like_any_other() -> None:
    # The first works 400 of 1000 s and keeps 300; the second takes its node until 500 s; then 60 s
    # and 700 s are left: 1260 s.
    jobs = model.Jobs(
        submit_J=model.ticks([0, 400]),
        run_J=model.ticks([1000, 100]),
        gpus_J=np.array([8, 8]),
        checkpoint_J=model.ticks([300, 300]),
        restart_J=model.ticks([60, 60]),
        priority_J=np.array([0, 1]),
    )
    rules: dict[str, Any] = {"order": "priority", "preemption": "requeue"}
    outcome = schedule(jobs, model.Cluster(nodes=1), model.Policy(**rules))
    assert (outcome.column("ended") / 1000).tolist() == [1260.0, 500.0]
    assert outcome.column("restarts").tolist() == [1, 0]
    assert outcome.column("preempted").tolist() == [1, 0]
    assert _gpu_s(outcome) == {
        "productive": 1100.0 * 8,
        "lost_work": 100.0 * 8,
        "restart": 60.0 * 8,
    }
    cancelled = schedule(
        jobs, model.Cluster(nodes=1), model.Policy(**(rules | {"preemption": "cancel"}))
    )
    assert cancelled.column("restarts").tolist() == [0, 0]
    assert _gpu_s(cancelled) == {
        "productive": 100.0 * 8,
        "unfinished": 300.0 * 8,
        "lost_work": 100.0 * 8,
    }


def test_a_job_killed_at_its_limit_leaves_work_that_is_never_finished() -> None:
    # Killed at 700 s of 1000, with 600 s in checkpoints.
    jobs = model.Jobs(
        submit_J=model.ticks([0]), run_J=model.ticks([1000]), gpus_J=np.array([8]),
        limit_J=model.ticks([700]), checkpoint_J=model.ticks([300]),
    )  # fmt: skip
    killed = schedule(jobs, model.Cluster(nodes=1), model.Policy())
    assert killed.states == {"timeout": 1}
    assert _gpu_s(killed) == {"unfinished": 600.0 * 8, "lost_work": 100.0 * 8}


def test_what_is_cut_off_keeps_what_it_did_so_far_apart() -> None:
    # At 650 s the first has ended, the second worked 550 s, checkpoint or not, and goes on.
    jobs = model.Jobs(
        submit_J=model.ticks([0, 0]), run_J=model.ticks([100, 1000]), gpus_J=np.array([8, 8]),
        checkpoint_J=model.ticks([300, 300]),
    )  # fmt: skip
    cut = schedule(jobs, model.Cluster(nodes=1), model.Policy(), until_s=650.0)
    assert cut.states == {"running": 1, "completed": 1}
    assert _gpu_s(cut) == {"productive": 100.0 * 8, "under_way": 550.0 * 8}
    assert (cut.work_done_J / 1000).tolist() == [800.0, 4400.0]


@pytest.mark.parametrize("name", sorted(model.LAUNCHERS))
@pytest.mark.parametrize("at_s", [100.0, 333.3, 899.0])
def test_restart_time_is_paid_once_for_each_restart(name: str, at_s: float) -> None:
    # One of two nodes is lost for good; a job that goes on has one or both.
    response = replace(model.LAUNCHERS[name](), most_restarts=9)
    job = {"gpus_J": np.array([2]), "nodes_J": np.array([2]), "restart_J": model.ticks([3])}
    outcome = _run(response, (at_s, 0, 1e6), job=job)
    held = 1 if response.kind in ("shrink", "elastic") else 2
    assert _end(outcome)[0] == "completed"
    assert _restarts(outcome) == 1
    assert outcome.gpu_ticks()["restart"] == 3000 * held


@pytest.mark.parametrize(
    "response",
    [
        responses.slurm_requeue(),
        responses.slurm_no_kill(),
        responses.jobset(max_restarts=3),
        model.kueue_replacement(),
        _patient(600.0),
        responses.torchrun_elastic(max_restarts=3),
    ],
)
def test_every_gpu_second_is_in_one_bucket(response: model.Response) -> None:
    outcome = _run(response, (400.0, 0, 90.0), (450.0, 1, 700.0), (2000.0, 2, 5.0))
    assert sum(outcome.gpu_ticks().values()) == outcome.cluster.gpus * outcome.now
    assert sum(outcome.shares().values()) == pytest.approx(1.0)
