"""Power of the racks and of the job over time: samples, their statistics and what they rest on.

Shape legend: T samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas import energy
from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.training.step import rank_courses

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.operators import FloatArray
    from perfatlas.scenario.training_steps.priced_step import TrainingStep
    from perfatlas.training.step import StepTimeline

MAX_SAMPLES: Final = 2e7  # of all jobs together
MAX_FAILURES: Final = 1e6
RACK, JOB, SITE = "rack", "job", "site"
FIRST: Final = 3.0  # steps of a picture
OF_TRACE: Final = (
    "power over time: boards follow their work at once, a job draws the power of boards without"
    " kernels in checkpoint stalls, detection and restarts; the rest of a node draws the same at"
    " any load; the rack is the first one, which holds GPUs in the order tp, cp, dp, pp"
)


@dataclass(frozen=True)
class PowerOverTime:
    """AC power of the racks, the job and the site over time."""

    resolution_s: float  # Time between two samples [s]
    watts: Mapping[str, FloatArray]  # Mean power of each sample by scale (T,) [W]
    step_s: float  # Time of a step [s]
    rows: Sequence[Mapping[str, Any]]  # Statistics by scale, as `train` answers them

    def columns(self) -> dict[str, list[float]]:
        """Return the samples as columns: start [s], and power by scale [W]."""
        size = next(iter(self.watts.values())).size
        columns = {"time_s": (self.resolution_s * np.arange(size)).round(6).tolist()}
        return columns | {f"{name}_power_w": w.round(1).tolist() for name, w in self.watts.items()}

    def first_steps(self, scale: str, most: int) -> tuple[list[float], list[float]]:
        """Return starts [s] and powers [W] of the samples of the first three steps."""
        watts_T = self.watts[scale]
        count = min(watts_T.size, most, max(math.ceil(FIRST * self.step_s / self.resolution_s), 2))
        return (self.resolution_s * np.arange(count)).tolist(), watts_T[:count].tolist()

    def spread(self, scale: str, most: int) -> dict[str, tuple[list[float], list[float]]]:
        """Return peak, mean and least power of equal parts of the horizon, with their starts."""
        parts = np.array_split(self.watts[scale], min(self.watts[scale].size, most))
        start_s = self.resolution_s * np.cumsum([0, *(part.size for part in parts[:-1])])
        named = {"peak": np.max, "mean": np.mean, "least": np.min}
        return {
            name: (start_s.tolist(), [float(of(part)) for part in parts])
            for name, of in named.items()
        }


@dataclass(frozen=True)
class _Meter:
    """AC power of some boards from the power of a mean one, with the ends of its interval."""

    step: TrainingStep
    gpus: float

    def watts(self, board_w: FloatArray | float, end: str = "value") -> Any:  # noqa: ANN401 - as given
        """Return the AC power [W], or an end of its interval."""
        node = self._node(end)
        return self.gpus / node.devices * node.node_w(self._board(board_w, end))  # type: ignore[arg-type]

    def change_w(self, board_w: float, end: str = "value") -> float:
        """Return the change of AC power by one of the boards [W]."""
        return self.gpus * self._node(end).factor * float(self._board(board_w, end))

    def _node(self, end: str) -> energy.NodePower:
        return energy.node_power(self.step.question.systems[0].node, end)

    def _board(self, board_w: FloatArray | float, end: str) -> FloatArray | float:
        power = self.step.steps.power
        limits, width = power.power, power.width_j_C / power.step_j()
        low, high = energy.power_interval(limits.low, limits.high, width)
        factor = {"value": 1.0, "low": float(low[0]), "high": float(high[0])}[end]
        return np.minimum(factor * board_w, float(limits.cap_w[0]))


def power_over_time(step: TrainingStep, timeline: StepTimeline) -> PowerOverTime:
    """Return the power of a training job over time.

    Args:
        step: A step whose `trace_duration_s` is set.
        timeline: Its course.

    Raises:
        InvalidSpecError: Samples, window, rack or failures do not suit each other.
        UnsupportedError: The power of the device or of its nodes is not known.
    """
    inputs, system = step.inputs, step.question.systems[0]
    resolution_s, count = _samples(step)
    if math.isnan(float(step.steps.power.on_w_C[0]) * energy.node_power(system.node).factor):
        raise UnsupportedError(
            f"trace_duration_s: the power of {system.name} over time is not predicted: no energies"
            " of its device or no power of its nodes are known; leave out trace_duration_s"
        )
    gpus, ranks = int(step.question.layouts.gpus[0]), int(step.question.layouts.pp[0])
    rack_gpus = inputs.rack_gpus or min(int(system.device.scale_up.domain_size), gpus)
    if rack_gpus > gpus:
        raise InvalidSpecError(
            f"rack_gpus = {rack_gpus:,} exceeds the {gpus:,} GPUs of the job; set rack_gpus ="
            f" {gpus} or less, or raise gpus"
        )
    held = range(math.ceil(rack_gpus * ranks / gpus))
    of_rack, of_job = rank_courses(step.steps, timeline, [held, range(ranks)])
    rng = np.random.default_rng(inputs.seed)
    first = _periods(step, rng)
    boards = {
        RACK: _job(step, of_rack, first).sampled_w(count, resolution_s),
        JOB: _job(step, of_job, first).sampled_w(count, resolution_s),
    }
    gpus_of = {RACK: rack_gpus, JOB: gpus}
    if inputs.equal_jobs > 1:
        total_T = boards[JOB].copy()
        for _ in range(inputs.equal_jobs - 1):
            periods = _periods(step, rng, phase_s=rng.random() * of_job.duration_s)
            total_T += _job(step, of_job, periods).sampled_w(count, resolution_s)
        boards[SITE], gpus_of[SITE] = total_T / inputs.equal_jobs, inputs.equal_jobs * gpus
    meters = {name: _Meter(step, size) for name, size in gpus_of.items()}
    watts = {name: meters[name].watts(board_T) for name, board_T in boards.items()}
    rows = [_row(step, name, meters[name], board_T) for name, board_T in boards.items()]
    if inputs.trace_limit_w is not None:
        largest = rows[-1]["scale"]
        rows[-1]["above_limit_share"] = float((watts[largest] > inputs.trace_limit_w).mean())
    return PowerOverTime(resolution_s, watts, of_job.duration_s, rows)


def _samples(step: TrainingStep) -> tuple[float, int]:
    """Return the time between samples [s] and their number."""
    inputs = step.inputs
    duration_s, resolution_s = float(inputs.trace_duration_s or 0.0), inputs.trace_resolution_s
    count = round(duration_s / resolution_s)
    most = MAX_SAMPLES / inputs.equal_jobs
    if not 2 <= count <= most:
        raise InvalidSpecError(
            f"trace_duration_s = {duration_s:g} has {count:,} samples of trace_resolution_s ="
            f" {resolution_s:g}"
            + (" of each job" if inputs.equal_jobs > 1 else "")
            + f"; 2 to {most:,.0f} are answered: "
            + ("lower" if count < most else "raise")
            + " trace_resolution_s"
        )
    windows = inputs.ramp_window_s / resolution_s
    if abs(windows - round(windows)) > 1e-6 * windows or not 1 <= round(windows) < count:
        raise InvalidSpecError(
            f"ramp_window_s = {inputs.ramp_window_s:g} must be a multiple of trace_resolution_s ="
            f" {resolution_s:g}, and shorter than trace_duration_s = {duration_s:g}; set"
            f" ramp_window_s = {resolution_s:g}"
        )
    return resolution_s, count


def _periods(
    step: TrainingStep, rng: np.random.Generator, phase_s: float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Return when a job runs, having started some time before 0."""
    inputs = step.inputs
    horizon_s, down_s = float(inputs.trace_duration_s or 0.0), inputs.detection_s + inputs.restart_s
    mtti_s = math.inf if inputs.mtti_s is None else inputs.mtti_s
    if horizon_s / (mtti_s + down_s) > MAX_FAILURES:
        raise InvalidSpecError(
            f"mtti_s = {mtti_s:g} makes {horizon_s / (mtti_s + down_s):,.0f} failures within"
            f" trace_duration_s = {horizon_s:g}, and at most {MAX_FAILURES:,.0f} are answered;"
            " raise mtti_s, or lower trace_duration_s"
        )
    start_s_U, end_s_U = energy.running_periods(horizon_s + phase_s, mtti_s, down_s, rng)
    return start_s_U - phase_s, end_s_U - phase_s


def _job(
    step: TrainingStep, course: energy.PowerCourse, periods: tuple[FloatArray, FloatArray]
) -> energy.JobCourse:
    """Return a job of steps of a course, with its checkpoints and failures."""
    interval_s, steps = step.inputs.checkpoint_interval_s, math.inf
    if interval_s is not None:
        steps = max(round(interval_s / course.duration_s), 1)
    return energy.JobCourse(
        step=course,
        waiting_w=float(step.steps.power.on_w_C[0]),
        steps_per_checkpoint=steps,
        stall_s=step.results.get("checkpoint_stall_s", 0.0),
        start_s_U=periods[0],
        end_s_U=periods[1],
    )


def _row(step: TrainingStep, scale: str, meter: _Meter, board_T: FloatArray) -> dict[str, Any]:
    """Return the statistics of the power of a scale."""
    inputs = step.inputs
    resolution_s = inputs.trace_resolution_s
    levels = {"mean": board_T.mean(), "peak": board_T.max(), "least": board_T.min()}
    ramp = energy.largest_ramp_w_per_s(board_T, resolution_s, inputs.ramp_window_s)
    row: dict[str, Any] = {"scale": scale, "gpus": int(meter.gpus)}
    for suffix, end in (("", "value"), ("_low", "low"), ("_high", "high")):
        for name, board_w in levels.items():
            row[f"{name}_power_w{suffix}"] = float(meter.watts(float(board_w), end))
        row[f"ramp_w_per_s{suffix}"] = meter.change_w(ramp, end)
    row["critical_band_share"] = energy.critical_share(board_T, resolution_s)
    return row | {"above_limit_share": None}
