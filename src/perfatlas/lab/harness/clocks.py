"""Clocks of the harness: one execution of a kernel timed on a CPU or on a GPU."""

from __future__ import annotations

import resource
import time
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PREEMPTED_GAP: Final = 0.05  # of the wall time of a sample that was spent off the CPU
MIN_GAP_S: Final = 20e-6  # below it, a gap is the resolution of the clocks


class Sample(NamedTuple):
    """Time of one execution, the mean of those between two readings of the clock."""

    time_s: float  # What statistics are made of: CPU time of the thread, or time between GPU events
    wall_s: float  # Wall time
    preempted: bool = False  # Whether another process ran meanwhile


class Clock(Protocol):
    """What times executions.

    Args:
        name: What its times are, as records state it.
        unmeasured: What it cannot measure, as records state it.
    """

    name: str
    unmeasured: tuple[str, ...]

    def sample(self, calls: Sequence[Callable[[], object]]) -> Sample:
        """Return the mean time of calls that run one after another."""


class CpuClock:
    """CPU time of the calling thread beside wall time.

    CPU time does not count while another process runs. A sample is preempted if the kernel counted
    an involuntary context switch or wall time is ahead of CPU time.

    Source: getrusage(2), RUSAGE_THREAD and ru_nivcsw; clock_gettime(2), CLOCK_THREAD_CPUTIME_ID.
    Limits: Work on other threads is not counted: `wall` takes the wall time instead.
    """

    def __init__(self, *, wall: bool = False) -> None:
        """Make a clock.

        Args:
            wall: Take wall time, for work on several threads or processes.
        """
        self.wall = wall
        self.name = "wall time" if wall else "thread CPU time"
        self.unmeasured: tuple[str, ...] = ()

    def sample(self, calls: Sequence[Callable[[], object]]) -> Sample:
        """Return the mean time of calls that run one after another.

        Args:
            calls: Executions.
        """
        switches = resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw
        wall_ns, cpu_ns = time.perf_counter_ns(), time.thread_time_ns()
        for call in calls:
            call()
        cpu_ns = time.thread_time_ns() - cpu_ns
        wall_ns = time.perf_counter_ns() - wall_ns
        switches = resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw - switches
        gap_s = (wall_ns - cpu_ns) * 1e-9
        late = gap_s > max(MIN_GAP_S, PREEMPTED_GAP * wall_ns * 1e-9)
        taken_ns = wall_ns if self.wall else cpu_ns
        return Sample(
            time_s=taken_ns * 1e-9 / len(calls),
            wall_s=wall_ns * 1e-9 / len(calls),
            preempted=not self.wall and (switches > 0 or late),
        )


class GpuTimer(Protocol):
    """Graphs and events of a GPU."""

    def captured(self, run: Callable[[], object]) -> Callable[[], object]:
        """Return the replay of a graph of what a function launches."""

    def elapsed_s(self, run: Callable[[], object]) -> float:
        """Return the time between events before and after what a function launches [s]."""


class TorchTimer:
    """Graphs and events of the current GPU through PyTorch."""

    def captured(self, run: Callable[[], object]) -> Callable[[], object]:
        """Return the replay of a graph of what a function launches."""
        from torch import cuda

        run()
        cuda.synchronize()
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            run()
        replay: Callable[[], object] = graph.replay
        return replay

    def elapsed_s(self, run: Callable[[], object]) -> float:
        """Return the time between events before and after what a function launches [s]."""
        from torch import cuda

        first, last = (cuda.Event(enable_timing=True) for _ in range(2))
        cuda.synchronize()
        first.record()
        run()
        last.record()
        cuda.synchronize()
        return float(first.elapsed_time(last)) * 1e-3  # events count milliseconds


class GpuClock:
    """Time between two events around a graph of the calls.

    A graph is captured at the first sample of the same calls and replayed from then on, so that
    launches by the host are not in the time.
    """

    name = "CUDA events around a graph"
    unmeasured: tuple[str, ...] = ()

    def __init__(self, timer: GpuTimer) -> None:
        """Make a clock."""
        self.timer = timer
        self._replays: dict[tuple[int, ...], tuple[Callable[[], object], object]] = {}

    def sample(self, calls: Sequence[Callable[[], object]]) -> Sample:
        """Return the mean time of calls that run one after another.

        Args:
            calls: Executions.
        """
        key = tuple(map(id, calls))
        if key not in self._replays:  # calls are kept, so that no id is used again
            self._replays[key] = (self.timer.captured(_in_order(calls)), list(calls))
        run = self._replays[key][0]
        start_s = time.perf_counter()
        time_s = self.timer.elapsed_s(run)
        wall_s = time.perf_counter() - start_s
        return Sample(time_s / len(calls), wall_s / len(calls))


def _in_order(calls: Sequence[Callable[[], object]]) -> Callable[[], object]:
    def run() -> None:
        for call in calls:
            call()

    return run
