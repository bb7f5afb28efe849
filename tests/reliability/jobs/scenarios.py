"""Random small schedules, and both ways to run them."""

from __future__ import annotations

import dataclasses
import random
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple

import numpy as np

from perfatlas.reliability.jobs import model
from perfatlas.reliability.jobs.model.packing import check_cluster
from perfatlas.reliability.jobs.run import ScheduleOutcome
from tests.reliability.jobs.slow_reference import FOREVER, Reference, RefJob

COMPARED = ("started", "ended", "attempts", "restarts", "preempted", "waited", "lost_work")


class Scenario(NamedTuple):
    jobs: model.Jobs
    cluster: model.Cluster
    policy: model.Policy
    failures: model.Failures
    until: int | None


def random_scenario(seed: int) -> Scenario:
    rng = random.Random(seed)  # noqa: S311 - a scenario, no secret
    cluster, together, required = _cluster(rng)
    policy = _policy(rng, together, required=required)
    size = rng.randint(1, 22)
    room = cluster.nodes
    if required:
        domain, leaf = check_cluster(cluster)
        room = domain if together == "domain" else leaf
    nodes_J = np.array([rng.randint(1, rng.choice([1, room])) for _ in range(size)])
    gpus_J = nodes_J * np.array([rng.randint(1, cluster.gpus_per_node) for _ in range(size)])
    limited = policy.backfill != "none" or rng.random() < 0.5
    run_J = np.array(
        [rng.choice([0, rng.randint(1, 40), rng.randint(1, 200)]) for _ in range(size)]
    )
    limit_J = run_J + np.array([rng.choice([1, rng.randint(1, 60), 10_000]) for _ in range(size)])
    limit_J = np.maximum(limit_J - np.array([rng.choice([0, 0, 5]) for _ in range(size)]), 1)
    if limited and rng.random() < 0.3:
        limit_J[rng.randrange(size)] = model.NEVER
    jobs = model.Jobs(
        submit_J=np.sort(np.array([rng.randint(0, 120) for _ in range(size)])),
        run_J=run_J,
        gpus_J=gpus_J,
        nodes_J=nodes_J,
        limit_J=limit_J if limited else None,
        user_J=np.array([rng.randrange(3) for _ in range(size)]),
        users=("ann", "bob", "cem"),
        priority_J=np.array([rng.randint(0, 3) for _ in range(size)]),
        requeue_J=np.array([rng.random() < 0.8 for _ in range(size)]),
        checkpoint_J=np.array([rng.choice([0, 1, 7, 20]) for _ in range(size)]),
        restart_J=np.array([rng.choice([0, 3, 11]) for _ in range(size)]),
        fewest_J=np.array([rng.randint(1, int(n)) for n in nodes_J]),
    )
    until = rng.choice([None, None, rng.randint(50, 500)])
    return Scenario(jobs, cluster, policy, _failures(rng, cluster), until)


def crowded_scenario(seed: int) -> Scenario:
    """Conservative backfill where many jobs come before one ends, so that reservations are kept."""
    rng = random.Random(seed)  # noqa: S311 - a scenario, no secret
    it = random_scenario(seed)
    size, room = rng.randint(10, 30), min(it.cluster.nodes, 2)
    if it.policy.required and it.policy.together == "domain":
        room = min(room, check_cluster(it.cluster)[0])
    nodes_J = np.array([rng.choice([1, 1, room]) for _ in range(size)])
    gpus_J = nodes_J * np.array([rng.randint(1, it.cluster.gpus_per_node) for _ in range(size)])
    run_J = np.array([rng.randint(30, 300) for _ in range(size)])
    jobs = model.Jobs(
        submit_J=np.sort(np.array([rng.randint(0, 150) for _ in range(size)])),
        run_J=run_J,
        gpus_J=gpus_J,
        nodes_J=nodes_J,
        limit_J=run_J + np.array([rng.choice([0, rng.randint(1, 200)]) for _ in range(size)]),
        user_J=np.array([rng.randrange(3) for _ in range(size)]),
        users=("ann", "bob", "cem"),
        priority_J=np.array([rng.randint(0, 1) for _ in range(size)]),
        requeue_J=np.ones(size, np.bool_),
        checkpoint_J=np.full(size, 20),
        restart_J=np.full(size, 3),
        fewest_J=np.ones(size, np.int64),
    )
    policy = dataclasses.replace(it.policy, backfill="conservative")
    return Scenario(jobs, it.cluster, policy, it.failures, it.until)


def _cluster(
    rng: random.Random,
) -> tuple[model.Cluster, Literal["anywhere", "domain", "leaf"], bool]:
    domain, domains = rng.choice([1, 2, 3]), rng.randint(1, 4)
    cluster = model.Cluster(
        nodes=domain * domains,
        gpus_per_node=rng.choice([1, 2, 4]),
        nodes_per_domain=domain,
        nodes_per_leaf=min(2 * domain, domain * domains),
    )
    levels: list[Literal["anywhere", "domain", "leaf"]] = ["anywhere", "domain", "leaf"]
    return cluster, rng.choice(levels), rng.random() < 0.4


def _policy(
    rng: random.Random, together: Literal["anywhere", "domain", "leaf"], *, required: bool
) -> model.Policy:
    order: Any = rng.choice(["fifo", "priority", "fair_share"])
    modes: list[Any] = ["none", "requeue", "cancel"] if order == "priority" else ["none"]
    kinds: list[Any] = ["restart", "shrink", "elastic", "replace"]
    response = model.Response(
        kind=rng.choice(kinds),
        detection_s=rng.choice([0, 4, 30]) / 1000,
        patience_s=rng.choice([None, 0.0, 0.025]),
        most_restarts=rng.choice([None, 0, 1, 4]),
        backoff_s=rng.choice([0, 6]) / 1000,
        most_backoff_s=rng.choice([6, 20]) / 1000,
    )
    return model.Policy(
        order=order,
        backfill=rng.choice(["none", "easy", "easy", "conservative"]),
        depth=rng.choice([1, 3, 500]),
        preemption=rng.choice(modes),
        placement=rng.choice(["pack", "best_fit"]),
        together=together,
        required=required,
        half_life_s=rng.choice([0.02, 1.0]),
        shares={"ann": 2.0},
        keeps_place=rng.random() < 0.3,
        response=response,
    )


def _failures(rng: random.Random, cluster: model.Cluster) -> model.Failures:
    rows = []
    for _ in range(rng.choice([0, 0, 2, 8])):
        node = rng.randrange(cluster.nodes)
        width = rng.choice([1, 1, min(2, cluster.nodes - node)])
        repair = rng.choice([0, 10, 50, 90, 90, -1])
        rows.append((rng.randint(0, 250), node, width, repair, int(rng.random() < 0.25)))
    rows.sort(key=lambda row: row[0])
    columns = np.array(rows, np.int64).reshape(-1, 5).T
    return model.Failures(
        time_X=columns[0], node_X=columns[1], width_X=columns[2], repair_X=columns[3],
        drain_X=columns[4].astype(np.bool_),
    )  # fmt: skip


def _rows(jobs: model.Jobs) -> list[RefJob]:
    columns = {
        "submit": jobs.submit_J, "run": jobs.run_J, "limit": jobs.limit_J, "nodes": jobs.nodes_J,
        "user": jobs.user_J, "priority": jobs.priority_J, "requeue": jobs.requeue_J,
        "interval": jobs.checkpoint_J, "overhead": jobs.restart_J, "fewest": jobs.fewest_J,
    }  # fmt: skip
    rows = []
    for j in range(jobs.size):
        row: dict[str, Any] = {n: FOREVER if c is None else int(c[j]) for n, c in columns.items()}
        row["gpus"] = -(-int(jobs.gpus_J[j]) // row["nodes"])
        rows.append(RefJob(index=j, **row))
    return rows


def run_reference(it: Scenario) -> Reference:
    policy, response = it.policy, it.policy.response
    rules = SimpleNamespace(
        order=policy.order, backfill=policy.backfill, depth=policy.depth,
        preemption=policy.preemption, best_fit=policy.placement == "best_fit",
        level=("anywhere", "domain", "leaf").index(policy.together), required=policy.required,
        half_life=policy.half_life_s * 1000, keeps_place=policy.keeps_place,
        share=[policy.shares.get(user, 1.0) for user in it.jobs.users], response=response.kind,
        detection=round(response.detection_s * 1000),
        patience=FOREVER if response.patience_s is None else round(response.patience_s * 1000),
        most_restarts=FOREVER if response.most_restarts is None else response.most_restarts,
        backoff=round(response.backoff_s * 1000),
        most_backoff=round(response.most_backoff_s * 1000),
    )  # fmt: skip
    domain, leaf = check_cluster(it.cluster)
    size = (it.cluster.nodes, it.cluster.gpus_per_node, domain, leaf)
    reference = Reference(_rows(it.jobs), size, rules)
    assert it.failures.width_X is not None
    assert it.failures.drain_X is not None
    events = zip(
        it.failures.time_X.tolist(), it.failures.node_X.tolist(), it.failures.width_X.tolist(),
        it.failures.repair_X.tolist(), it.failures.drain_X.tolist(), strict=True,
    )  # fmt: skip
    reference.run(list(events), FOREVER if it.until is None else it.until)
    return reference


def found_by(outcome: ScheduleOutcome) -> dict[str, Any]:
    rows: dict[str, Any] = {name: outcome.column(name).tolist() for name in COMPARED}
    rows["state"] = [model.STATES[code] for code in outcome.column("state").tolist()]
    rows["promised"] = outcome.column("promised").tolist()
    rows["bucket"] = outcome.gpu_ticks()
    rows["now"] = outcome.now
    rows["backfilled"] = int(outcome.sim.state_1["backfilled"][0])
    return rows


def expected_by(reference: Reference) -> dict[str, Any]:
    rows: dict[str, Any] = {n: [getattr(j, n) for j in reference.jobs] for n in COMPARED}
    rows["state"] = [job.state for job in reference.jobs]
    rows["promised"] = [job.promised for job in reference.jobs]
    rows["bucket"] = {name: reference.bucket.get(name, 0) for name in model.BUCKETS}
    ends = {"completed": "productive"} | dict.fromkeys(model.STATES[:6], "under_way")
    for name in ("productive", "under_way", "unfinished"):
        of = [j.kept for j in reference.jobs if ends.get(j.state, "unfinished") == name]
        rows["bucket"][name] = sum(of)
    rows["now"] = reference.now
    rows["backfilled"] = reference.backfilled
    return rows
