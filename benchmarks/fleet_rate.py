"""Speed of the failure simulation of one job, compared with SimPy."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from simpy_peer import asked_of_simpy
from timing import Row, timed

from perfatlas.reliability.fleet.closed_form import renewal_efficiency
from perfatlas.reliability.fleet.laws import Exponential
from perfatlas.reliability.fleet.model import (
    Cause,
    Fleet,
    Job,
    Level,
    Repair,
    RepairStage,
    Restart,
    Spares,
    Strategy,
    one_cause,
)
from perfatlas.reliability.fleet.simulator import simulate

if TYPE_CHECKING:
    from collections.abc import Iterator

DAY_S: Final = 86400.0
NODE_RATE_PER_S: Final = 6.5e-3 / DAY_S  # RSC-1 of arXiv 2410.21680, per node of 8 GPUs
SECTION: Final = "job simulator"


def strategy(spares: int | None) -> Strategy:
    """Return 30 min of work, 60 s writes, 12 min restarts.

    Args:
        spares: Spare nodes; None for unlimited.
    """
    return Strategy(
        interval_s=1800.0,
        levels=(Level(write_s=60.0),),
        restarts=(Restart(name="restart", phases={"detect": 120.0, "restart": 600.0}),),
        spares=Spares(count=spares),
    )


def large_job(nodes: int, spares: int, days: float) -> Job:
    """Return a job with the node failure rate of RSC-1 and repairs of a day.

    Args:
        days: Run time [d].
    """
    cause = Cause(name="node", lifetime=Exponential(mean_s=1 / NODE_RATE_PER_S), per_unit=1.0)
    stage = RepairStage(name="swap", lasts=Exponential(mean_s=DAY_S))
    repair = Repair(name="swap", stages=(stage,))
    fleet = Fleet(units=nodes + spares, causes=(cause,), repairs=(repair,))
    return Job(fleet=fleet, units=nodes, horizon_s=days * DAY_S)


def failure_rate(runs: int) -> Row:
    """Return simulated failures per second of a job with unlimited spares."""
    fleet = one_cause(1 / (2048 * NODE_RATE_PER_S), 2048)
    job = Job(fleet=fleet, units=2048, horizon_s=540 * DAY_S)
    timing, outcome = timed(lambda: simulate(job, strategy(None), replicas=400), runs=runs)
    failures = int(outcome.column("failures").sum())
    return _rate("failures", failures, timing.wall_s, timing.cpu_s, (5e6, runs))


def replica_rate(runs: int) -> tuple[Row, float, float]:
    """Return replicas per second of 16,384 GPUs for 54 days, their goodput and its error."""
    job = large_job(2048, 32, 54)
    timing, outcome = timed(lambda: simulate(job, strategy(32), replicas=5000), runs=runs)
    name = "replicas of 16,384 GPUs x 54 days, 32 spares, all categories"
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
    """Return SimPy's replicas per second, or why it did not run.

    Args:
        replicas: Number of replicas.
        ours: Goodput and standard error of perfatlas, for comparison.
    """
    row = Row(section=SECTION, name="the same replicas in SimPy, aggregate failures", unit="1/s")
    found = asked_of_simpy(python, "peer_simpy.py", str(replicas))
    if isinstance(found, str):
        return dataclasses.replace(row, note=found)
    spread = (ours[1] ** 2 + found["standard_error"] ** 2) ** 0.5
    z = (found["goodput"] - ours[0]) / spread
    note = (
        f"SimPy {found['version']}, {found['failures_per_s']:,.0f} failures/s, goodput "
        f"{found['goodput']:.4f}, {z:+.1f} standard errors from ours"
    )
    rate = found["replicas_per_s"]
    return dataclasses.replace(row, value=rate, cpu_value=rate, runs=1, note=note)


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


def job_rows(runs: int, replicas: int, simpy_python: str, simpy_replicas: int) -> Iterator[Row]:
    """Yield failures and replicas per second, the largest job, and SimPy.

    Args:
        runs: Timed calls.
        replicas: Replicas of 131,072 GPUs for 90 days.
    """
    yield failure_rate(runs)
    row, goodput, error = replica_rate(runs)
    exact = renewal_efficiency(1800.0, 60.0, 720.0, 1 / (2048 * NODE_RATE_PER_S)).value_C
    note = f"{row.note}; goodput {goodput:.5f} +- {error:.5f}, exact {float(exact):.5f}"
    yield dataclasses.replace(row, note=note)
    yield simpy_row(simpy_python, simpy_replicas, (goodput, error))
    yield largest(replicas)
