"""Scheduling rate in jobs per second, compared with SimPy under the same policy."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Final

import numpy as np
from simpy_peer import asked_of_simpy
from timing import Row, timed

from perfatlas.reliability.jobs.model import Cluster, Jobs, Policy, ticks
from perfatlas.reliability.jobs.run import schedule

if TYPE_CHECKING:
    from collections.abc import Iterator

SECTION: Final = "scheduler of many jobs"
CLUSTER: Final = Cluster(nodes=256, gpus_per_node=8, nodes_per_domain=4, nodes_per_leaf=32)
SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 128)
# Shares of sizes fall with size, as in every public GPU trace; run times are lognormal with a heavy
# tail. This is an assumption for timing, not a realistic trace.
CHANCES: Final = (0.55, 0.1, 0.1, 0.15, 0.05, 0.03, 0.015, 0.005)


def trace(size: int, *, load: float, seed: int = 0) -> Jobs:
    """Return jobs that arrive as a Poisson process.

    Args:
        size: Number of jobs.
        load: Requested GPU-time over capacity.
        seed: Random seed.
    """
    rng = np.random.default_rng(seed)
    gpus_J = rng.choice(SIZES, size=size, p=CHANCES)
    run_s_J = np.clip(rng.lognormal(np.log(600.0), 1.6, size), 5.0, 7 * 86400.0)
    span_s = float((gpus_J * run_s_J).sum()) / CLUSTER.gpus / load
    submit_J = ticks(np.sort(rng.uniform(0.0, span_s, size)))
    limit_J = ticks(run_s_J * rng.uniform(1.0, 5.0, size) + 60.0)
    return Jobs(submit_J=submit_J, run_J=ticks(run_s_J), gpus_J=gpus_J, limit_J=limit_J)


def rate(jobs: Jobs, policy: Policy, words: str, goal: float, runs: int) -> Row:
    """Return jobs per second of one policy.

    Args:
        jobs: The trace.
        policy: The scheduling policy.
        words: Name of the row.
        goal: Required jobs per second; 0 for none.
        runs: Timed calls.
    """
    timing, outcome = timed(lambda: schedule(jobs, CLUSTER, policy), runs=runs)
    state = outcome.sim.state_1[0]
    note = (
        f"{jobs.size:,} jobs on {CLUSTER.gpus:,} GPUs, utilisation {outcome.utilisation:.3f}, "
        f"mean wait {float(np.nanmean(outcome.wait_s_J)):,.0f} s, "
        f"{int(state['backfilled']):,} backfilled"
    )
    value = jobs.size / timing.wall_s
    return Row(
        section=SECTION,
        name=words,
        value=value,
        cpu_value=jobs.size / timing.cpu_s,
        unit="1/s",
        goal=f">= {goal:,.0f}" if goal else "",
        met=value >= goal if goal else None,
        runs=runs,
        note=note,
    )


def simpy_row(python: str, jobs: Jobs, policy: Policy) -> Row:
    """Return SimPy's jobs per second, or why it did not run.

    Args:
        jobs: The trace.
        policy: FIFO with EASY backfill.
    """
    nodes_J, limit_J = -(-jobs.gpus_J // CLUSTER.gpus_per_node), np.asarray(jobs.limit_J)
    columns = (jobs.submit_J, jobs.run_J, nodes_J, jobs.gpus_J // nodes_J, limit_J)
    asked = {
        "nodes": CLUSTER.nodes,
        "gpus": CLUSTER.gpus_per_node,
        "depth": policy.depth,
        "jobs": [[int(value) for value in row] for row in zip(*columns, strict=True)],
    }
    name = f"FIFO + EASY in SimPy, load 1.1, {jobs.size:,} jobs"
    row = Row(section=SECTION, name=name, unit="1/s")
    found = asked_of_simpy(python, "peer_simpy_schedule.py", stdin=json.dumps(asked))
    if isinstance(found, str):
        return dataclasses.replace(row, note=found)
    timing, ours = timed(lambda: schedule(jobs, CLUSTER, policy), runs=1)
    wait_s = found["mean_wait_ticks"] / ticks(1.0).item()
    note = (
        f"SimPy {found['version']}: mean wait {wait_s:.3f} s, {found['backfilled']:,} backfilled;"
        f" perfatlas on these jobs {float(np.nanmean(ours.wait_s_J)):.3f} s,"
        f" {int(ours.sim.state_1[0]['backfilled']):,}, at {jobs.size / timing.wall_s:,.0f} jobs/s"
    )
    rate = found["jobs_per_s"]
    return dataclasses.replace(row, value=rate, cpu_value=rate, runs=1, note=note)


def schedule_rows(count: int, runs: int, simpy_python: str, simpy_jobs: int) -> Iterator[Row]:
    """Yield jobs per second of several policies, and of SimPy.

    Args:
        count: Jobs of the trace; the goal is for 100,000.
        runs: Timed calls.
    """
    easy, first_fit = Policy(backfill="easy"), Policy(backfill="none")
    near = Policy(backfill="easy", placement="best_fit", together="leaf")
    goal = 1e5 if count == 100_000 else 0.0
    kept = Policy(backfill="conservative", depth=50)
    asked_for: list[tuple[Jobs, Policy, str, float]] = [
        (trace(count, load=0.9), easy, "FIFO + EASY, load 0.9", goal),
        (trace(count, load=1.1), easy, "FIFO + EASY, load 1.1 (long queue)", goal),
        (trace(count, load=0.9), near, "FIFO + EASY, best fit within a leaf", 0.0),
        (trace(count, load=0.9), first_fit, "FIFO, load 0.9", 0.0),
        (trace(min(count, 5_000), load=2.0), kept, "conservative, 50 reservations, load 2", 0.0),
    ]
    for jobs, policy, words, least in asked_for:
        yield rate(jobs, policy, words, least, runs)
    yield simpy_row(simpy_python, trace(simpy_jobs, load=1.1), easy)
