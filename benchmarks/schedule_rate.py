"""How many jobs per second are scheduled on one core: 100,000 jobs, FIFO with EASY backfill.

python benchmarks/schedule_rate.py [--json] [--jobs 100000] [--runs 5]
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from typing import Final

import numpy as np
from timing import Row, stay_on_one_core, timed

from perfatlas.jobs.model import Cluster, Jobs, Policy, ticks
from perfatlas.jobs.simulate import schedule

SECTION: Final = "Scheduler"
CLUSTER: Final = Cluster(nodes=256, gpus_per_node=8, nodes_per_domain=4, nodes_per_leaf=32)
SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 128)
# Shares of sizes fall with size, as in every public GPU trace; run times are lognormal with a heavy
# tail. An assumption: a trace to be timed on, not to be believed.
CHANCES: Final = (0.55, 0.1, 0.1, 0.15, 0.05, 0.03, 0.015, 0.005)


def trace(size: int, *, load: float, seed: int = 0) -> Jobs:
    """Return jobs that arrive as a Poisson process.

    Args:
        size: How many.
        load: GPU-time they ask for over what the cluster has.
        seed: Of the draws.
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
        policy: How they are served.
        words: What the row is called.
        goal: Jobs per second asked for; 0 for none.
        runs: Timed calls.
    """
    timing, outcome = timed(lambda: schedule(jobs, CLUSTER, policy), runs=runs)
    state = outcome.world.state_1[0]
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


def main() -> int:
    """Print the rows, or one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=100_000)
    asked = parser.parse_args()
    stay_on_one_core()
    easy = Policy(backfill="easy")
    near = Policy(backfill="easy", placement="best_fit", together="leaf")
    goal = 1e5 if asked.jobs == 100_000 else 0.0
    few, kept = min(asked.jobs, 5_000), Policy(backfill="conservative", depth=50)
    asked_for: list[tuple[Jobs, Policy, str, float]] = [
        (trace(asked.jobs, load=0.9), easy, "FIFO + EASY, load 0.9", goal),
        (trace(asked.jobs, load=1.1), easy, "FIFO + EASY, load 1.1 (long queue)", goal),
        (trace(asked.jobs, load=0.9), near, "FIFO + EASY, best fit within a leaf", 0.0),
        (trace(asked.jobs, load=0.9), Policy(), "FIFO, load 0.9", 0.0),
        (trace(few, load=2.0), kept, "conservative, 50 reservations, load 2", 0.0),
    ]
    rows = [
        rate(jobs, policy, words, least, asked.runs) for jobs, policy, words, least in asked_for
    ]
    if asked.json:
        json.dump({"rows": [dataclasses.asdict(row) for row in rows]}, sys.stdout)
        sys.stdout.write("\n")
        return 0
    for row in rows:
        verdict = {None: "", True: "met", False: "MISSED"}[row.met]
        value, cpu = f"{row.value:,.4g} {row.unit}", f"cpu {row.cpu_value:,.4g}"
        print(f"{row.name:40}{value:>16} {cpu:>16} {row.goal:14}{verdict}\n    {row.note}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
