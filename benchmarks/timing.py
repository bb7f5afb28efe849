"""Medians of repeated runs on one core, in wall and CPU time, and report rows."""

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
    """Medians over runs."""

    wall_s: float  # Median elapsed time [s]
    cpu_s: float  # Median processor time of the work [s], as on an idle core
    runs: int  # Runs of the median, without the warm-up


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the report; `value` is None where the benchmark could not run."""

    section: str
    name: str  # Timed work
    value: float | None = None  # Median by wall time, in `unit`
    cpu_value: float | None = None  # Median by processor time
    unit: str = "s"  # "s", "1/s", "us" or a count
    goal: str = ""  # Bound of the value as text, "" without one
    met: bool | None = None  # Whether wall time meets the goal; None without a goal or a value
    runs: int = 0  # Runs of the median
    note: str = ""  # Details, or "not run: <reason>"


def stay_on_one_core() -> int | None:
    """Pin this process and its children to one core; return it, None where unsupported."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core


def timed(work: Callable[[], Result], *, runs: int, warm_up: int = 1) -> tuple[Timing, Result]:
    """Return the median times of `work`, and its last result.

    Args:
        work: The timed function.
        runs: Timed calls.
        warm_up: Untimed calls before them (to load compiled code and catalogs).
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


def timed_command(words: Sequence[str], *, runs: int) -> tuple[Timing, str]:
    """Return the median times of a command as a new process, and its last standard output.

    Args:
        words: The command line.
        runs: Timed runs, after an untimed one where there are several.

    Raises:
        RuntimeError: The command failed; its last output is in the message.
    """
    wall, cpu = [], []
    warm_up = int(runs > 1)
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
