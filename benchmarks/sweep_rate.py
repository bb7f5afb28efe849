"""Time and memory of sweeps by their number of points, start-up and writing included.

    python benchmarks/sweep_rate.py --points 10000 100000 1000000
    python benchmarks/sweep_rate.py --points 10000 --sampled

Each sweep runs in a new process with a data folder of its own. Half of the points or fewer do not
fit in memory, as in a real study; the share is printed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from perfatlas.files import format_toml

EVERY_S = 0.5  # between looks at the memory
BANDWIDTH = {"from": "4 TB/s", "to": "8 TB/s"}


def study_of(points: int, *, sampled: bool) -> dict[str, Any]:
    """Return a study of estimates: 4 sizes, prompts, batches and 10 or all different bandwidths."""
    scenario = {"model": "meta-llama/Llama-3.1-70B-Instruct", "system": "h200_sxm", "osl": 256}
    study: dict[str, Any] = {"verb": "estimate", "scenario": scenario}
    if sampled:
        vary = {"device.memory.bandwidth": BANDWIDTH, "isl": {"from": 128, "to": 8192}}
        return study | {
            "vary": {"tp": [1, 2, 4, 8]},
            "sample": {"points": points // 4, "vary": vary},
        }
    rest = points // 40
    prompts = next(n for n in range(math.isqrt(rest), 0, -1) if rest % n == 0)
    batches = rest // prompts
    return study | {
        "vary": {
            "tp": [1, 2, 4, 8],
            "isl": {"from": 128, "to": 128 + 100 * (prompts - 1), "steps": prompts},
            "batch": {"from": 1, "to": batches, "steps": batches},
            "device.memory.bandwidth": {**BANDWIDTH, "steps": 10},
        }
    }


def resident_bytes(parent: int) -> int:
    """Return the resident memory of a process and its children [bytes]."""
    total = 0
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        except (OSError, ValueError):  # the process has ended
            continue
        if parent in (int(fields["Pid"]), int(fields["PPid"])) and "VmRSS" in fields:
            total += 1024 * int(fields["VmRSS"].split()[0])
    return total


def measure(points: int, jobs: int, *, sampled: bool) -> dict[str, float]:
    """Return wall and processor time [s], memory [bytes] and counts of one sweep."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.toml"
        path.write_text(format_toml(study_of(points, sampled=sampled)), "utf-8")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        started, peak = time.perf_counter(), 0
        process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", "perfatlas", "sweep", str(path), "--jobs", str(jobs), "--json"],
            env={**os.environ, "XDG_DATA_HOME": folder},
            stdout=subprocess.PIPE,
            text=True,
        )
        while process.poll() is None and time.perf_counter() - started < 3600:
            peak = max(peak, resident_bytes(process.pid))
            time.sleep(EVERY_S)
        told = json.loads(process.communicate()[0])["results"]
        wall = time.perf_counter() - started
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        written = sum(file.stat().st_size for file in Path(folder).rglob("*.parquet"))
    return {
        "wall_s": wall,
        "cpu_s": cpu,
        "memory_bytes": peak,
        "written_bytes": written,
        "refused": told["failed"] / points,
    }


def main() -> None:
    """Print one line per number of points."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--sampled", action="store_true", help="a different system at each sample")
    given = parser.parse_args()
    for points in given.points:
        found = measure(points, given.jobs, sampled=given.sampled)
        print(
            f"{points:>9,} points, {given.jobs} processes: {found['wall_s']:6.1f} s wall,"
            f" {found['cpu_s']:6.1f} s CPU, {found['memory_bytes'] / 2**20:5.0f} MiB,"
            f" {found['written_bytes'] / 2**20:5.0f} MiB written, {found['refused']:.0%} refused;"
            f" load average {os.getloadavg()[0]:.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
