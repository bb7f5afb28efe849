"""Synthetic clusters: nodes that fail at a known rate, jobs, and the logs that record it."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

START_S = 1767225600.0  # 2026-01-01T00:00:00Z
DAY_S = 86400.0


def iso(time_s: float, spec: str = "seconds") -> str:
    """Return a time in UTC as accounting and kernel logs write it, without the zone."""
    moment = dt.datetime.fromtimestamp(round(time_s, 3), dt.UTC).replace(tzinfo=None)
    return moment.isoformat(timespec=spec)


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A cluster over an observation window.

    Args:
        nodes: Nodes.
        days: Length of the window [d].
        jobs: Start, end and whether the node failed, of each job by node.
        failures: Time, node, whether a job ran, and the repair [s] of each failure.
    """

    nodes: int
    days: float
    jobs: list[tuple[float, float, int, bool]]
    failures: list[tuple[float, int, bool, float]]

    @property
    def end_s(self) -> float:
        """End of the window [s since 1970-01-01 UTC]."""
        return START_S + self.days * DAY_S

    def sacct(self, path: Path) -> Path:
        """Write accounting: the failures on busy nodes, as ends of jobs."""
        rows = ["JobID|State|Submit|Start|End|ElapsedRaw|NodeList|AllocTRES|ExitCode"]
        for number, (start_s, end_s, node, failed) in enumerate(sorted(self.jobs), 1):
            state = "NODE_FAIL" if failed else "COMPLETED"
            times = f"{iso(start_s)}|{iso(start_s)}|{iso(end_s)}|{round(end_s - start_s)}"
            rows.append(f"{number}|{state}|{times}|n{node:04}|gres/gpu=8|0:0")
        path.write_text("\n".join(rows) + "\n", "utf-8")
        return path

    def kernel_log(self, path: Path) -> Path:
        """Write kernel logs: every failure, with an Xid."""
        rows = [
            f"{iso(time_s, 'milliseconds')}Z n{node:04} kernel: NVRM: Xid (PCI:0000:61:00): 79, x\n"
            for time_s, node, _, _ in sorted(self.failures)
        ]
        path.write_text("".join(rows) or "quiet\n", "utf-8")
        return path


def cluster(
    seed: int, *, utilization: float, nodes: int = 48, days: float = 60.0, mtbf_days: float = 90.0
) -> Cluster:
    """Return a cluster whose nodes fail at one rate, busy or idle, and are repaired.

    Jobs of one node begin and end at random, so that nodes are busy for a share of their up time;
    a failure ends the job of its node, and the node is away until it is repaired.
    """
    random = np.random.default_rng(seed)
    end_s = START_S + days * DAY_S
    jobs, failures = [], []
    mean_job_s = 0.2 * DAY_S
    mean_idle_s = mean_job_s * (1.0 - utilization) / utilization
    for node in range(nodes):
        now_s = START_S
        fails_s = now_s + random.exponential(mtbf_days * DAY_S)
        busy = bool(random.random() < utilization)
        while now_s < end_s:
            till_s = now_s + random.exponential(mean_job_s if busy else mean_idle_s)
            failed = fails_s < min(till_s, end_s)
            till_s = min(till_s, fails_s, end_s)
            if busy:
                jobs.append((now_s, till_s, node, failed))
            now_s, busy = till_s, not busy
            if failed:
                repair_s = random.exponential(0.3 * DAY_S)
                failures.append((till_s, node, not busy, repair_s))
                now_s = till_s + repair_s
                fails_s = now_s + random.exponential(mtbf_days * DAY_S)
                busy = bool(random.random() < utilization)
    return Cluster(nodes=nodes, days=days, jobs=jobs, failures=failures)
