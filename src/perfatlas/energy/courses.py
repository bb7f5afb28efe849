"""Power over time: step functions that repeat, interrupted by checkpoints and failures.

Shape legend: N steps of a course, T samples, U periods in which a job runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray

# Band in which utilities limit the energy of fluctuations: lines between areas, plants, shafts.
# Source: arXiv 2508.14318, section on specifications of utilities.
CRITICAL_HZ: Final = (0.1, 20.0)
CRITICAL_S: Final = 0.5 / CRITICAL_HZ[1]  # longest sample that resolves it [s]


@dataclass(frozen=True)
class PowerCourse:
    """Power as a step function of time, which starts at 0."""

    edge_s: FloatArray  # Times at which it changes, with both ends (N + 1,) [s]
    watts_N: FloatArray  # Power between them (N,) [W]

    @classmethod
    def of_changes(cls, time_s: FloatArray, change_w: FloatArray, end_s: float) -> PowerCourse:
        """Return a course that starts at 0 W and changes by some power at some times.

        Args:
            time_s: Times in any order (N,) [s].
            change_w: Changes (N,) [W].
        """
        order = np.argsort(time_s, kind="stable")
        edge_s = np.clip(np.concatenate([[0.0], time_s[order], [end_s]]), 0.0, end_s)
        return cls(edge_s, np.concatenate([[0.0], np.cumsum(change_w[order])]))

    @property
    def duration_s(self) -> float:
        """End of the course [s]."""
        return float(self.edge_s[-1])

    @cached_property
    def _until_j(self) -> FloatArray:
        until_j: FloatArray = np.concatenate(
            [[0.0], np.cumsum(self.watts_N * np.diff(self.edge_s))]
        )
        return until_j

    def energy_j(self, time_s: FloatArray) -> FloatArray:
        """Return the energy from the start until some times (T,) [J]."""
        found: FloatArray = np.interp(time_s, self.edge_s, self._until_j)
        return found


@dataclass(frozen=True, kw_only=True)
class JobCourse:
    """A course that repeats while a job runs; the job draws a constant power while it waits."""

    step: PowerCourse
    waiting_w: float  # Power in checkpoint stalls, detection and restarts [W]
    steps_per_checkpoint: float  # Steps between two checkpoints, infinite without
    stall_s: float  # Time in which no step runs for a checkpoint [s]
    start_s_U: FloatArray  # When it starts to run, the first time at 0 or before (U,) [s]
    end_s_U: FloatArray  # When a failure stops it (U,) [s]

    @property
    def cycle_s(self) -> float:
        """Time after which the course repeats: of a step, or from checkpoint to checkpoint [s]."""
        if np.isinf(self.steps_per_checkpoint):
            return self.step.duration_s
        return self.steps_per_checkpoint * self.step.duration_s + self.stall_s

    def sampled_w(self, count: int, resolution_s: float) -> FloatArray:
        """Return the mean power of equal samples from time 0 on (T,) [W].

        Example:
            >>> import numpy as np
            >>> from perfatlas.energy import JobCourse, PowerCourse
            >>> step = PowerCourse(np.array([0.0, 3.0, 4.0]), np.array([700.0, 100.0]))
            >>> job = JobCourse(step=step, waiting_w=100.0, steps_per_checkpoint=np.inf,
            ...     stall_s=0.0, start_s_U=np.array([0.0]), end_s_U=np.array([np.inf]))
            >>> job.sampled_w(4, 2.0).tolist()
            [700.0, 400.0, 700.0, 400.0]
        """
        time_s = resolution_s * np.arange(count + 1)
        lasts_U = self.end_s_U - self.start_s_U
        gap_U = self.start_s_U[1:] - self.end_s_U[:-1]
        each_U = self._running_j(lasts_U[:-1]) + self.waiting_w * gap_U
        before_U = np.concatenate([[0.0], np.cumsum(each_U)])
        at = np.searchsorted(self.start_s_U, time_s, side="right") - 1
        since_s = time_s - self.start_s_U[at]
        ran_s = np.minimum(since_s, lasts_U[at])
        energy_j = before_U[at] + self._running_j(ran_s) + self.waiting_w * (since_s - ran_s)
        sampled: FloatArray = np.diff(energy_j) / resolution_s
        return sampled

    def _running_j(self, time_s: FloatArray) -> FloatArray:
        """Return the energy of steps and checkpoints over times without a failure (T,) [J]."""
        step_s, run_s, saved_s, stalled_s = self.step.duration_s, time_s, 0.0 * time_s, 0.0 * time_s
        if np.isfinite(self.steps_per_checkpoint):
            steps_s = self.steps_per_checkpoint * step_s
            saves, rest_s = np.divmod(time_s, self.cycle_s)
            run_s = np.minimum(rest_s, steps_s)
            saved_s, stalled_s = saves * steps_s, saves * self.stall_s + rest_s - run_s
        steps, part_s = np.divmod(run_s, step_s)
        steps_j = (saved_s / step_s + steps) * self.step.energy_j(np.array(step_s))
        energy_j: FloatArray = steps_j + self.step.energy_j(part_s) + self.waiting_w * stalled_s
        return energy_j


def running_periods(
    horizon_s: float, mtti_s: float, down_s: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Return the periods in which a job runs between exponential failures: starts, ends (U,) [s].

    Args:
        mtti_s: Mean time to an interruption, infinite for none [s].
        down_s: Time from a failure until steps run again [s].

    Limits: No failure during a restart.
    """
    if np.isinf(mtti_s):
        return np.zeros(1), np.full(1, np.inf)
    lasts: list[FloatArray] = []
    total_s = 0.0
    while total_s <= horizon_s:
        lasts.append(rng.exponential(mtti_s, 1 + int(1.2 * horizon_s / (mtti_s + down_s))))
        total_s += float(lasts[-1].sum() + down_s * lasts[-1].size)
    lasts_U = np.concatenate(lasts)
    end_s_U = np.cumsum(lasts_U + down_s) - down_s
    start_s_U = end_s_U - lasts_U
    kept = start_s_U <= horizon_s
    return start_s_U[kept], end_s_U[kept]


def largest_ramp_w_per_s(watts_T: FloatArray, resolution_s: float, window_s: float) -> float:
    """Return the largest change of power over a window, up or down, per second [W/s].

    Args:
        window_s: A whole number of samples [s].
    """
    samples = max(round(window_s / resolution_s), 1)
    if watts_T.size <= samples:
        return 0.0
    change_w = np.abs(watts_T[samples:] - watts_T[:-samples])
    return float(change_w.max()) / (samples * resolution_s)


def critical_share(watts_T: FloatArray, resolution_s: float) -> float | None:
    """Return the share of the energy of fluctuations in `CRITICAL_HZ`, 0 for a constant power.

    It is None where samples do not resolve the whole band.

    Example:
        >>> import numpy as np
        >>> from perfatlas.energy import critical_share
        >>> time_s = np.arange(0.0, 100.0, 0.01)
        >>> slow, fast = np.sin(2 * np.pi * 0.05 * time_s), np.sin(2 * np.pi * time_s)
        >>> round(critical_share(3.0 * slow + fast, 0.01), 3)
        0.1
    """
    if resolution_s > CRITICAL_S * (1.0 + 1e-9):
        return None
    energy = np.abs(np.fft.rfft(watts_T - watts_T.mean())) ** 2
    hertz = np.fft.rfftfreq(watts_T.size, resolution_s)
    total = float(energy.sum())
    if total <= np.finfo(np.float64).eps * float((watts_T**2).sum()) * watts_T.size:
        return 0.0
    inside = (hertz >= CRITICAL_HZ[0]) & (hertz <= CRITICAL_HZ[1])
    return float(energy[inside].sum()) / total
