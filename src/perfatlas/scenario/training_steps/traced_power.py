"""Power of the racks and of the job over time: samples, their statistics and what they rest on.

Shape legend: T samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas import energy
from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.training.step import rank_courses

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.operators import FloatArray
    from perfatlas.scenario.training_steps.priced_step import TrainingStep
    from perfatlas.scenario.training_steps.recipe import TrainInputs
    from perfatlas.training.step import StepTimeline

MAX_SAMPLES: Final = 1e7  # of all jobs together
MAX_FAILURES: Final = 1e6
STEADY_S: Final = 1.0  # least time of whole steps that repeat before a smoothed trace [s]
ROUNDING: Final = 1e-6
RACK, JOB, SITE = "rack", "job", "site"
FIRST: Final = 3.0  # steps of a picture
OF_TRACE: Final = (
    "power over time: boards follow their work at once, a job draws the power of boards without"
    " kernels in checkpoint stalls, detection and restarts; the rest of a node draws the same at"
    " any load; the rack is the first one, which holds GPUs in the order tp, cp, dp, pp, and whole"
    " pipeline ranks where it holds more than one"
)


@dataclass(frozen=True)
class PowerOverTime:
    """AC power of the racks, the job and the site over time."""

    step: TrainingStep  # With power smoothing, where it is set
    resolution_s: float  # Time between two samples [s]
    watts: Mapping[str, FloatArray]  # Mean power of each sample by scale (T,) [W]
    step_s: float  # Time of a step [s]
    results: Mapping[
        str, Any
    ]  # Statistics by scale and costs of smoothing, as `train` answers them
    notes: tuple[str, ...]  # What it rests on
    warnings: tuple[str, ...]  # What it does not answer

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
        named: dict[str, Any] = {"peak": np.max, "mean": np.mean, "least": np.min}
        return {
            name: (start_s.tolist(), [float(of(part)) for part in parts])
            for name, of in named.items()
        }


class _Meter(NamedTuple):
    """AC power of some boards as a line over that of a mean one."""

    gpus: int
    fixed_w: float  # Power that does not depend on the boards [W]
    per_board: float  # Change by a watt of each board
    factor: float  # Power of boards over the predicted one
    idle_w: float  # Their idle power [W]
    cap_w: float  # Their power limit [W]

    @classmethod
    def of(cls, step: TrainingStep, gpus: int, end: str = "value") -> _Meter:
        """Return the meter of some GPUs of a job, or of an end of its interval."""
        steps, node = step.steps, energy.node_power(step.question.systems[0].node, end)
        power, limits = steps.power, steps.power.power
        low, high = energy.power_interval(limits.low, limits.high, power.width_j_C / power.step_j())
        # as that of the answer: a shorter step has more power, and a longer one less
        slow_w, step_w, fast_w = (
            power.power_w(time_s_C) for time_s_C in (steps.high_s_C, steps.step_s_C, steps.low_s_C)
        )
        ends = {"low": low * slow_w / step_w, "high": np.maximum(high * fast_w / step_w, 1.0)}
        factor = float(ends[end][0]) if end in ends else 1.0
        fixed_w, whole_w = (gpus / node.devices * node.node_w(watts) for watts in (0.0, 1.0))
        ends_w = float(limits.idle_w[0]), float(limits.cap_w[0])
        return cls(gpus, fixed_w, whole_w - fixed_w, factor, *ends_w)

    def watts(self, board_w: FloatArray) -> FloatArray:
        """Return the AC power [W]."""
        return self.fixed_w + self.per_board * np.clip(
            self.factor * board_w, self.idle_w, self.cap_w
        )

    def at_limit(self, peak_w: float) -> _Meter:
        """Return it with the largest factor at which a power of boards keeps the limit."""
        return self._replace(factor=max(min(self.factor, self.cap_w / peak_w), 1.0))


def power_over_time(step: TrainingStep, timeline: StepTimeline) -> PowerOverTime:
    """Return the power of a training job over time.

    Args:
        step: A step whose `trace_duration_s` is set.
        timeline: Its course.

    Raises:
        InvalidSpecError: Samples, window, rack, failures or floor do not suit each other.
        UnsupportedError: The power of the device or of its nodes is not known.
    """
    inputs, system = step.inputs, step.question.systems[0]
    on_w = float(step.steps.power.on_w_C[0])
    if math.isnan(on_w * energy.node_power(system.node).factor):
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
    held = math.ceil(rack_gpus * ranks / gpus)
    smoothing, cap_w = _smoothing(inputs), float(step.steps.power.power.cap_w[0])
    notes, results = [OF_TRACE], dict[str, float]()
    groups: list[Sequence[int]] = [range(held), range(ranks)]
    if smoothing.is_set:  # which every board does by itself
        if smoothing._replace(storage_j=0.0).is_set:
            notes.append(energy.check_smoothing(system.device, smoothing, on_w, cap_w))
        groups = [[rank] for rank in range(ranks)]
    count, fine, resolution_s = _samples(step, len(groups) if smoothing.is_set else 1)
    courses = rank_courses(step.steps, timeline, groups)
    if smoothing.is_set:
        step, courses, results = _smoothed(step, courses, smoothing, timeline.step_s)
    step_s = courses[0].duration_s
    whole_s = step_s * math.ceil(STEADY_S / step_s)
    repeats = round(whole_s * fine / resolution_s)
    rng, boards = np.random.default_rng(inputs.seed), {}
    always = np.zeros(1), np.full(1, np.inf)
    for number in range(inputs.equal_jobs):
        phase_s = rng.random() * _job(step, courses[0], always).cycle_s if number else 0.0
        periods = _periods(step, rng, phase_s)
        drawn_TB = np.stack(
            [
                _job(step, one, periods).sampled_w(count * fine, resolution_s / fine)
                for one in courses
            ],
            axis=1,
        )
        if smoothing.is_set:
            drawn_TB = energy.smoothed_power(
                drawn_TB, resolution_s / fine, smoothing, on_w, cap_w, repeats
            )
            drawn_TB = np.stack([drawn_TB[:, :held].mean(axis=1), drawn_TB.mean(axis=1)], axis=1)
        drawn_TB = drawn_TB.reshape(count, fine, 2).mean(axis=1)
        if not number:
            boards = {RACK: drawn_TB[:, 0], JOB: drawn_TB[:, 1]}
        if inputs.equal_jobs > 1:
            boards[SITE] = boards.get(SITE, 0.0) + drawn_TB[:, 1] / inputs.equal_jobs
    gpus_of = {RACK: rack_gpus, JOB: gpus, SITE: inputs.equal_jobs * gpus}
    rows = [_row(step, name, gpus_of[name], board_T) for name, board_T in boards.items()]
    watts = {
        name: _Meter.of(step, gpus_of[name]).watts(board_T) for name, board_T in boards.items()
    }
    if inputs.trace_limit_w is not None:
        largest = rows[-1]["scale"]
        rows[-1]["above_limit_share"] = float((watts[largest] > inputs.trace_limit_w).mean())
    warnings = []
    if rows[0]["critical_band_share"] is None:
        warnings.append(
            f"critical_band_share is not answered: samples of {resolution_s:g} s do"
            f" not resolve {energy.CRITICAL_HZ[1]:g} Hz; set trace_resolution_s ="
            f" {energy.CRITICAL_S:g} or less"
        )
    return PowerOverTime(
        step,
        resolution_s,
        watts,
        step_s,
        results | {"power_over_time": rows},
        tuple(notes),
        tuple(warnings),
    )


def _smoothed(
    step: TrainingStep,
    courses: Sequence[energy.PowerCourse],
    smoothing: energy.Smoothing,
    step_s: float,
) -> tuple[TrainingStep, list[energy.PowerCourse], dict[str, float]]:
    """Return the step and the courses of its ranks with power smoothing, and what it costs."""
    power = step.steps.power
    on_w = float(power.on_w_C[0])
    smoothed = energy.smoothed_steps(courses, smoothing, on_w)
    longer_s = smoothed[0].course.duration_s - step_s
    added_j = float(np.mean([one.added_j for one in smoothed]))
    costs = {
        "smoothing_energy_share": added_j / float(power.step_j()[0]),
        "smoothing_time_share": longer_s / step_s,
    }
    if smoothing.floor_w and math.isfinite(smoothing.up_w_per_s):
        costs["floor_reached_s"] = (smoothing.floor_w - on_w) / smoothing.up_w_per_s
    return step.smoothed(longer_s, added_j), [one.course for one in smoothed], costs


def _smoothing(inputs: TrainInputs) -> energy.Smoothing:
    """Return the settings of power smoothing that are given."""
    given = {
        "floor_w": inputs.power_floor_w,
        "hold_s": inputs.floor_hold_s,
        "up_w_per_s": inputs.ramp_up_w_per_s,
        "down_w_per_s": inputs.ramp_down_w_per_s,
        "storage_j": inputs.storage_j,
    }
    return energy.Smoothing(**{name: value for name, value in given.items() if value is not None})


def _samples(step: TrainingStep, boards: int) -> tuple[int, int, float]:
    """Return the number of samples, the parts of each, and the time between them [s].

    Args:
        boards: Boards that are smoothed one by one.
    """
    inputs = step.inputs
    duration_s, resolution_s = float(inputs.trace_duration_s or 0.0), inputs.trace_resolution_s
    count, fine = round(duration_s / resolution_s), 1
    if _smoothing(inputs).is_set:
        fine = max(math.ceil(resolution_s / energy.SMOOTHED_S - ROUNDING), 1)
    most = MAX_SAMPLES / inputs.equal_jobs / boards / fine
    if not 2 <= count <= most:
        change = "lower" if count < 2 else "raise"
        other = "raise trace_duration_s" if count < 2 else "lower trace_duration_s or equal_jobs"
        raise InvalidSpecError(
            f"trace_duration_s = {duration_s:g} has {count:,} samples of trace_resolution_s ="
            f" {resolution_s:g}; 2 to {most:,.0f} of this job are answered: {change}"
            f" trace_resolution_s, or {other}"
        )
    windows = inputs.ramp_window_s / resolution_s
    if abs(windows - round(windows)) > ROUNDING * windows or not 1 <= round(windows) < count:
        raise InvalidSpecError(
            f"ramp_window_s = {inputs.ramp_window_s:g} must be a multiple of trace_resolution_s ="
            f" {resolution_s:g}, and shorter than trace_duration_s = {duration_s:g}; set"
            f" ramp_window_s = {resolution_s:g}"
        )
    return count, fine, resolution_s


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


def _row(step: TrainingStep, scale: str, gpus: int, board_T: FloatArray) -> dict[str, Any]:
    """Return the statistics of the power of a scale."""
    inputs, row = step.inputs, {"scale": scale, "gpus": gpus}
    resolution_s = inputs.trace_resolution_s
    levels = np.array([board_T.mean(), board_T.max(), board_T.min()])
    meters = {end: _Meter.of(step, gpus, end) for end in ("value", "low", "high")}
    for suffix, end in (("", "value"), ("_low", "low"), ("_high", "high")):
        for name, watts in zip(("mean", "peak", "least"), meters[end].watts(levels), strict=True):
            row[f"{name}_power_w{suffix}"] = float(watts)
    # boards at their limit swing less again: between the ends, a ramp is largest just below it
    meters["limit"] = meters["high"].at_limit(float(levels[1]))
    ramps = {
        end: energy.largest_ramp_w_per_s(meter.watts(board_T), resolution_s, inputs.ramp_window_s)
        for end, meter in meters.items()
    }
    row |= {"ramp_w_per_s": ramps["value"], "ramp_w_per_s_low": np.min([*ramps.values()]).item()}
    row["ramp_w_per_s_high"] = np.max([*ramps.values()]).item()
    row["critical_band_share"] = energy.critical_share(board_T, resolution_s)
    return row | {"above_limit_share": None}
