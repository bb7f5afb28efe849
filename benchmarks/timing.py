"""Medians of repeated runs on one core, in wall and CPU time, and the rows they are printed in."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Medians over runs.

    Args:
        wall_s: Median elapsed time [s].
        cpu_s: Median processor time of the work [s]; what an idle core would need.
        runs: Runs behind the medians, the warm-up left out.
    """

    wall_s: float
    cpu_s: float
    runs: int


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the report; `value` is None where the benchmark could not run.

    Args:
        section: What it belongs to.
        name: What was timed.
        value: Median by wall time, in `unit`.
        cpu_value: The same by processor time.
        unit: "s", "1/s", "us" or a count.
        goal: Bound of the value as text, "" without one.
        met: Whether wall time meets the goal; None without a goal or a value.
        runs: Runs behind the median.
        note: What exactly was asked, or "not run: <reason>".
    """

    section: str
    name: str
    value: float | None = None
    cpu_value: float | None = None
    unit: str = "s"
    goal: str = ""
    met: bool | None = None
    runs: int = 0
    note: str = ""


def stay_on_one_core() -> int | None:
    """Pin this process and its children to one core; return it, None where pinning is absent."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core


def timed(work: Callable[[], Result], *, runs: int, warm_up: int = 1) -> tuple[Timing, Result]:
    """Return the medians of calling `work`, and what it last returned.

    Args:
        work: What to time.
        runs: Timed calls.
        warm_up: Calls before them that are not timed (compiled code loads, catalogs are read).
    """
    for _ in range(warm_up):
        work()
    wall, cpu = [], []
    for _ in range(runs):
        started, used = time.perf_counter(), time.process_time()
        result = work()
        wall.append(time.perf_counter() - started)
        cpu.append(time.process_time() - used)
    timing = Timing(wall_s=statistics.median(wall), cpu_s=statistics.median(cpu), runs=runs)
    return timing, result


def timed_command(words: Sequence[str], *, runs: int, warm_up: int = 1) -> tuple[Timing, str]:
    """Return the medians of running a command as a fresh process, and its last standard output.

    Args:
        words: The command line.
        runs: Timed runs.
        warm_up: Runs before them that are not timed.

    Raises:
        RuntimeError: The command failed; its last words are in the message.
    """
    wall, cpu = [], []
    for turn in range(warm_up + runs):
        before, started = _children_s(), time.perf_counter()
        done = subprocess.run(  # noqa: S603 - commands of this benchmark, no shell
            list(words), check=False, capture_output=True, text=True
        )
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise RuntimeError(f"{words[0]} exited with {done.returncode}: {last[:300]}")
        if turn >= warm_up:
            wall.append(time.perf_counter() - started)
            cpu.append(_children_s() - before)
    timing = Timing(wall_s=statistics.median(wall), cpu_s=statistics.median(cpu), runs=runs)
    return timing, done.stdout


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
