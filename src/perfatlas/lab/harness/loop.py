"""The measuring loop: warm-up, arms in turn, samples until the median is known."""

from __future__ import annotations

import ctypes
import os
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.lab.harness.statistics import MedianInterval, clock_state, median_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from perfatlas.lab.harness.clocks import Clock, Sample

MAX_CALLS: Final = 2000  # of one sample
WARM_WINDOW: Final = 4  # samples whose medians tell that the warm-up is over
LOOKS: Final = 5  # single executions that tell how many make a sample
MIN_SLOW: Final = 8  # samples of a call so long that few fill the budget
M_TRIM_THRESHOLD: Final = -1  # of malloc.h
M_MMAP_MAX: Final = -4
MIN_S: Final = 1e-9  # resolution of clocks


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How a case is measured."""

    half_width: float = 0.02  # Half-width of the 90% interval of a median at which its arm is done
    sample_s: float = 0.5e-3  # Shortest sample [s]: short calls are repeated
    fewest: int = 32  # Samples per arm at least
    most: int = 400  # Samples per arm at most
    warm_up_s: float = 0.3  # Time of an arm's warm-up at most [s]
    budget_s: float = 1.0  # Time of an arm's samples at most [s]


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One of the implementations that are measured in turn."""

    name: str  # Its name in records
    # Executions, each on data of its own: one for hot data, as many as do not fit the caches for
    # cold data
    calls: Sequence[Callable[[], object]]


@dataclass(kw_only=True)
class Measurement:
    """Samples of one arm."""

    arm: str  # Its name
    calls: int = 1  # Executions per sample
    warm_up: int = 0  # Samples before the first that counts
    warm: bool = False  # Whether times were steady when the warm-up ended
    samples: list[Sample] = field(default_factory=list)  # All samples

    @property
    def kept(self) -> list[Sample]:
        """Samples without preempted ones; all of them if nearly all were preempted."""
        clean = [sample for sample in self.samples if not sample.preempted]
        return clean if len(clean) >= min(5, len(self.samples)) else self.samples

    @property
    def times_s(self) -> list[float]:
        """Times of the samples that count [s]."""
        return [sample.time_s for sample in self.kept]

    @property
    def interval(self) -> MedianInterval:
        """Median time and its 90% interval [s]."""
        return median_interval(self.times_s)

    @property
    def dropped(self) -> int:
        """Preempted samples that do not count."""
        return len(self.samples) - len(self.kept)

    @property
    def state(self) -> str:
        """How times changed over the run."""
        return clock_state(self.times_s)


def measure(
    arms: Sequence[Arm], clock: Clock, protocol: Protocol | None = None
) -> list[Measurement]:
    """Return the samples of arms that take turns; every second turn is in reverse order.

    Args:
        arms: Implementations of one case.
        clock: What times them.
        protocol: How they are measured.
    """
    protocol = protocol or Protocol()
    executions = [cycle(arm.calls) for arm in arms]
    measurements = [Measurement(arm=arm.name) for arm in arms]
    shortest_s = 0.0
    for measurement, arm, calls in zip(measurements, arms, executions, strict=True):
        touched = [clock.sample([next(calls)]) for _ in range(max(len(arm.calls), LOOKS))]
        measurement.warm_up = len(touched)
        shortest_s = max(shortest_s, min(sample.time_s for sample in touched))
    calls_per_sample = int(
        np.clip(np.ceil(protocol.sample_s / max(shortest_s, MIN_S)), 1, MAX_CALLS)
    )
    for timed, calls in zip(measurements, executions, strict=True):
        timed.calls = calls_per_sample
        _warm_up(timed, calls, clock, protocol)
    spent = [0.0] * len(arms)
    while waiting := [
        i for i, timed in enumerate(measurements) if _goes_on(timed, spent[i], protocol)
    ]:
        turn = range(len(arms)) if len(waiting) > 1 else waiting
        for index in turn if len(measurements[0].samples) % 2 else reversed(turn):
            sample = clock.sample(list(islice(executions[index], calls_per_sample)))
            measurements[index].samples.append(sample)
            spent[index] += sample.wall_s * calls_per_sample
    return measurements


def _warm_up(
    timed: Measurement, calls: Iterator[Callable[[], object]], clock: Clock, protocol: Protocol
) -> None:
    """Run an arm until two windows of times are equal, or its warm-up is over."""
    spent_s, times = 0.0, []
    while spent_s < protocol.warm_up_s and not timed.warm:
        sample = clock.sample(list(islice(calls, timed.calls)))
        spent_s += sample.wall_s * timed.calls
        times.append(sample.time_s)
        if len(times) >= 2 * WARM_WINDOW:
            before, now = times[-2 * WARM_WINDOW : -WARM_WINDOW], times[-WARM_WINDOW:]
            ratio = float(np.median(now) / np.median(before))
            timed.warm = abs(ratio - 1.0) < protocol.half_width
    timed.warm_up += len(times)


def _goes_on(measurement: Measurement, spent_s: float, protocol: Protocol) -> bool:
    count = len(measurement.samples)
    if count >= protocol.most or (spent_s > protocol.budget_s and count >= MIN_SLOW):
        return False
    enough = count >= protocol.fewest and len(measurement.times_s) >= protocol.fewest
    return not enough or measurement.interval.half_width > protocol.half_width


@contextmanager
def one_thread() -> Iterator[None]:
    """Run the calling thread on one core, and PyTorch on one thread; freed memory is kept."""
    import torch

    _keep_freed_memory()
    threads = torch.get_num_threads()
    cores = os.sched_getaffinity(0)
    torch.set_num_threads(1)
    with suppress(OSError):
        os.sched_setaffinity(0, {_idlest(cores)})
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        with suppress(OSError):
            os.sched_setaffinity(0, cores)


def _keep_freed_memory() -> None:
    """Have the C library keep freed memory, so that no call pays for pages of its output again.

    Source: mallopt(3). Other C libraries than glibc have no such function.
    """
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(M_MMAP_MAX, 0)
        library.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


def _idlest(cores: set[int]) -> int:
    """Return the core that was idle longest since the start of the machine.

    Source: proc_stat(5): the fourth number of a core's line is its idle time.
    """
    idle: dict[int, int] = {}
    with suppress(OSError):
        for line in Path("/proc/stat").read_text("ascii").splitlines():
            words = line.split()
            if words[0].startswith("cpu") and words[0] != "cpu":
                idle[int(words[0][3:])] = int(words[4])
    return max(cores, key=lambda core: idle.get(core, 0))
