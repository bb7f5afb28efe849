"""How fast jobs are simulated on one core, beside SimPy on the same model.

    python benchmarks/fleet_rate.py [--json] [--simpy-python PYTHON] [--replicas 10000]

SimPy runs in its own environment; where it is missing, its row says so:

    python -m venv peers && peers/bin/pip install simpy==4.1.2
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Final

from timing import Row, stay_on_one_core, timed

from perfatlas.fleet.laws import Exponential
from perfatlas.fleet.model import (
    Cause,
    Fleet,
    Level,
    Repair,
    RepairStage,
    Restart,
    Spares,
    Strategy,
    one_cause,
)
from perfatlas.fleet.renewal import renewal_efficiency
from perfatlas.fleet.simulate import Job, simulate

DAY_S: Final = 86400.0
NODE_RATE_PER_S: Final = 6.5e-3 / DAY_S  # RSC-1 of arXiv 2410.21680, per node of 8 GPUs
SECTION: Final = "Job simulator"


def strategy(spares: int | None) -> Strategy:
    """Return 30 min of work, 60 s writes, 12 min restarts.

    Args:
        spares: Nodes that stand by; None for never missing.
    """
    return Strategy(
        interval_s=1800.0,
        levels=(Level(write_s=60.0),),
        restarts=(Restart(name="restart", phases={"detect": 120.0, "restart": 600.0}),),
        spares=Spares(count=spares),
    )


def large_job(nodes: int, spares: int, days: float) -> Job:
    """Return a job whose nodes fail like RSC-1's and are repaired in a day.

    Args:
        nodes: Nodes it needs.
        spares: Nodes beside them.
        days: How long it runs [d].
    """
    cause = Cause(name="node", lifetime=Exponential(mean_s=1 / NODE_RATE_PER_S), per_unit=1.0)
    stage = RepairStage(name="swap", lasts=Exponential(mean_s=DAY_S))
    repair = Repair(name="swap", stages=(stage,))
    fleet = Fleet(units=nodes + spares, causes=(cause,), repairs=(repair,))
    return Job(fleet=fleet, units=nodes, horizon_s=days * DAY_S)


def failure_rate(runs: int) -> Row:
    """Return failures per second of a job whose spares never run out."""
    fleet = one_cause(1 / (2048 * NODE_RATE_PER_S), 2048)
    job = Job(fleet=fleet, units=2048, horizon_s=540 * DAY_S)
    timing, outcome = timed(lambda: simulate(job, strategy(None), replicas=400), runs=runs)
    failures = int(outcome.column("failures").sum())
    return _rate("failures", failures, timing.wall_s, timing.cpu_s, (5e6, runs))


def replica_rate(runs: int) -> tuple[Row, float, float]:
    """Return replicas per second of 16,384 GPUs for 54 days, their goodput and its error."""
    job = large_job(2048, 32, 54)
    timing, outcome = timed(lambda: simulate(job, strategy(32), replicas=5000), runs=runs)
    name = "replicas of 16,384 GPUs x 54 days, 32 spares, all buckets"
    row = _rate(name, 5000, timing.wall_s, timing.cpu_s, (2000.0, runs))
    return row, outcome.goodput, outcome.standard_error


def largest(replicas: int) -> Row:
    """Return the time of 131,072 GPUs for 90 days, 10,000 times."""
    job = large_job(16_384, 200, 90)
    timing, outcome = timed(
        lambda: simulate(job, strategy(200), replicas=replicas), runs=1, warm_up=0
    )
    failures = int(outcome.column("failures").sum())
    return Row(
        section=SECTION,
        name=f"131,072 GPUs x 90 days x {replicas:,} replicas, 200 spares",
        value=timing.wall_s,
        cpu_value=timing.cpu_s,
        goal="< 60" if replicas == 10_000 else "",
        met=timing.wall_s < 60.0 if replicas == 10_000 else None,
        runs=1,
        note=f"{failures:,} failures, goodput {outcome.goodput:.5f}",
    )


def simpy_row(python: str, replicas: int, ours: tuple[float, float]) -> Row:
    """Return SimPy's replicas per second, or why there are none.

    Args:
        python: Interpreter that has SimPy.
        replicas: How many it runs.
        ours: Goodput and standard error of perfatlas, which SimPy's must equal.
    """
    name = "the same replicas in SimPy, aggregate failures"
    script = str(Path(__file__).with_name("peer_simpy.py"))
    try:
        done = subprocess.run(  # noqa: S603 - an interpreter the caller names
            [python, script, str(replicas)], check=False, capture_output=True, text=True
        )
    except OSError as error:
        return Row(section=SECTION, name=name, note=f"not run: {error}")
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return Row(section=SECTION, name=name, note=f"not run: {last[:200]}")
    found = json.loads(done.stdout)
    spread = (ours[1] ** 2 + found["standard_error"] ** 2) ** 0.5
    z = (found["goodput"] - ours[0]) / spread
    note = (
        f"SimPy {found['version']}, {found['failures_per_s']:,.0f} failures/s, goodput "
        f"{found['goodput']:.4f}, {z:+.1f} standard errors from ours"
    )
    rate = found["replicas_per_s"]
    return Row(
        section=SECTION, name=name, value=rate, cpu_value=rate, unit="1/s", runs=1, note=note
    )


def _rate(name: str, count: int, wall_s: float, cpu_s: float, goal: tuple[float, int]) -> Row:
    least, runs = goal
    return Row(
        section=SECTION,
        name=name,
        value=count / wall_s,
        cpu_value=count / cpu_s,
        unit="1/s",
        goal=f">= {least:,.0f}",
        met=count / wall_s >= least,
        runs=runs,
        note=f"{count:,} in one call",
    )


def main() -> int:
    """Print the rows, or one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--replicas", type=int, default=10_000, help="of 131,072 GPUs x 90 days")
    parser.add_argument("--simpy-python", default=sys.executable, help="Python that has SimPy")
    parser.add_argument("--simpy-replicas", type=int, default=100)
    asked = parser.parse_args()
    stay_on_one_core()
    job_row, goodput, error = replica_rate(asked.runs)
    exact = renewal_efficiency(1800.0, 60.0, 720.0, 1 / (2048 * NODE_RATE_PER_S)).value_C
    note = f"{job_row.note}; goodput {goodput:.5f} +- {error:.5f}, exact {float(exact):.5f}"
    rows = [
        failure_rate(asked.runs),
        dataclasses.replace(job_row, note=note),
        largest(asked.replicas),
        simpy_row(asked.simpy_python, asked.simpy_replicas, (goodput, error)),
    ]
    if asked.json:
        json.dump({"rows": [dataclasses.asdict(row) for row in rows]}, sys.stdout)
        sys.stdout.write("\n")
        return 0
    for row in rows:
        value = "not run" if row.value is None else f"{row.value:,.4g} {row.unit}"
        cpu = "" if row.cpu_value is None else f"cpu {row.cpu_value:,.4g}"
        verdict = {None: "", True: "met", False: "MISSED"}[row.met]
        print(f"{row.name:58}{value:>16} {cpu:>16} {row.goal:14}{verdict}\n    {row.note}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
