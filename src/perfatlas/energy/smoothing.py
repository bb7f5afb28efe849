"""Power smoothing of boards: a floor while jobs wait, limits of ramps, and energy storage.

Shape legend: T samples, B boards.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.compiled import compiled, part
from perfatlas.energy.courses import PowerCourse
from perfatlas.files import shipped_table
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.hardware import Device
    from perfatlas.operators import FloatArray

SETTLING: Final = 1000  # times that the demand repeats until a board is in steady state, at most
SETTLED_W: Final = 1e-6
ACTIVE: Final = 1e-6  # share of the power without kernels above which a board is active
SMOOTHED_S: Final = 0.01  # longest sample of boards that are smoothed [s]
LONGEST: Final = 10.0  # times as long that ramps may make a step
DONE: Final = 1e-9  # rounding of samples that are worked off
# Filler kernels in place of firmware cost up to this share of a step.
# Source: arXiv 2508.14318.
FILLER_COST: Final = 0.05


class Smoothing(NamedTuple):
    """Settings of power smoothing of a board."""

    floor_w: float = 0.0  # Power that it draws at least while active [W]
    hold_s: float = math.inf  # Time for which the floor holds after its last kernel [s]
    up_w_per_s: float = math.inf  # Largest rise of its power [W/s]
    down_w_per_s: float = math.inf  # Largest fall of its power [W/s]
    storage_j: float = 0.0  # Energy that its share of the power shelves stores [J]

    @property
    def is_set(self) -> bool:
        """Whether anything is smoothed."""
        return self != Smoothing()


class SmoothedStep(NamedTuple):
    """A step of a board whose power is smoothed."""

    course: PowerCourse  # Power of its work; work that ramps hold back takes longer
    added_j: float  # Energy of the floor and of slow ramps down beyond that of its work [J]


def check_smoothing(device: Device, smoothing: Smoothing, on_w: float, cap_w: float) -> str:
    """Return what the smoothing of a device rests on.

    Args:
        on_w: Power of a board without kernels [W].
        cap_w: Its power limit [W].

    Raises:
        InvalidSpecError: The floor is not between these, or not one that firmware accepts.
    """
    data, floor_w = shipped_table("data/energy/smoothing.toml"), smoothing.floor_w
    firmware = data["architectures"].get(device.architecture)
    least, most = on_w, cap_w
    if firmware:
        least = max(least, data["floor"]["least"]["value"] * device.tdp_w)
        most = min(most, data["floor"]["most"]["value"] * device.tdp_w)
    if floor_w and not least <= floor_w <= most:
        raise InvalidSpecError(
            f"power_floor_w = {floor_w:g} is not between the {least:.4g} W and {most:.4g} W that a"
            f" floor of {device.name} may have (idle power {on_w:.4g} W, limit {cap_w:.4g} W"
            + (f"; {data['floor']['least']['ref']}" if firmware else "")
            + f"); set power_floor_w = {min(max(floor_w, math.ceil(least)), math.floor(most)):g}"
        )
    if firmware:
        return f"power smoothing of the firmware of {device.name}: {firmware}"
    return (
        f"no firmware smoothing of {device.name} is known: floor and ramps are those of filler"
        f" kernels, which take up to {FILLER_COST:.0%} of a step (arXiv 2508.14318), not counted"
    )


def smoothed_steps(
    courses: Sequence[PowerCourse], smoothing: Smoothing, on_w: float
) -> list[SmoothedStep]:
    """Return the steps of boards that wait for the slowest of them, with smoothing.

    Where a limit of ramps leaves p of the power d that work would draw, work is done at the share
    (p - on) / (d - on) of its rate: a step takes the integral of 1 less that share longer. Steps
    repeat until they no longer change.

    Args:
        courses: A step of each board, of equal duration, without smoothing.
        on_w: Power of a board without kernels [W].

    Raises:
        InvalidSpecError: A step would take more than `LONGEST` times as long.

    Source: derived; the state machine is that of NVML (`smoothed_power`).
    Limits: The energy of work is that at full rate, while a lower clock needs less voltage. Gaps
        shorter than 10 ms are averaged, as by the capacitors of power supplies.

    Example:
        >>> import numpy as np
        >>> from perfatlas.energy import PowerCourse, Smoothing, smoothed_steps
        >>> course = PowerCourse(np.array([0.0, 3.0, 4.0]), np.array([700.0, 100.0]))
        >>> ramps = Smoothing(up_w_per_s=600.0)  # 1 s from 100 to 700 W, at half of the rate
        >>> (step,) = smoothed_steps([course], ramps, 100.0)
        >>> round(step.course.duration_s, 9)
        4.5
    """
    step_s = courses[0].duration_s
    count = math.ceil(step_s / SMOOTHED_S)
    sample_s, room = step_s / count, math.ceil(LONGEST * count)
    time_s = np.arange(room + 1.0)  # in samples
    settings = np.array(
        [
            *(smoothing.floor_w, smoothing.hold_s / sample_s, on_w * (1.0 + ACTIVE)),
            *(smoothing.up_w_per_s * sample_s, smoothing.down_w_per_s * sample_s, on_w),
        ]
    )
    demands = [
        np.diff(course.energy_j(sample_s * time_s[: count + 1])) / sample_s for course in courses
    ]
    work_w_BT, board_w_BT = (np.empty((len(courses), room)) for _ in range(2))
    least, before, taken = float(count), 0.0, np.zeros(1)
    while least > before * (1.0 + DONE):  # boards that wait for others may fall further
        before = least
        for demand_w_T, work_w_T, board_w_T in zip(demands, work_w_BT, board_w_BT, strict=True):
            last = _work_off(demand_w_T, settings, before, work_w_T, board_w_T, taken)
            if last > room:
                raise InvalidSpecError(
                    f"ramp_up_w_per_s = {smoothing.up_w_per_s:g} makes steps of {step_s:.3g} s more"
                    f" than {LONGEST:g} times as long; raise ramp_up_w_per_s, or set power_floor_w"
                    " or ramp_down_w_per_s, so that power falls less between passes"
                )
            least = max(least, float(taken[0]))
    edge_s = np.minimum(time_s[: math.ceil(least) + 1], least) * sample_s
    board_w_BT, work_w_BT = (w_BT[:, : edge_s.size - 1] for w_BT in (board_w_BT, work_w_BT))
    added_j = np.maximum(board_w_BT - work_w_BT, 0.0) @ np.diff(edge_s)
    if least == count:  # as exact as they were
        return [SmoothedStep(*pair) for pair in zip(courses, added_j.tolist(), strict=True)]
    return [
        SmoothedStep(PowerCourse(edge_s, work_w_T.copy()), float(more_j))
        for work_w_T, more_j in zip(work_w_BT, added_j, strict=True)
    ]


def smoothed_power(
    demand_w_TB: FloatArray,
    resolution_s: float,
    smoothing: Smoothing,
    on_w: float,
    cap_w: float,
    repeats: int | None = None,
) -> FloatArray:
    """Return the power that boards with smoothing take from their supply (T, B) [W].

    A board that ran a kernel within `hold_s` draws at least the floor; its power rises and falls at
    most at the limits of ramps: p[t+dt] = clamp(max(demand, floor), p[t] - down dt, p[t] + up dt).
    The job ran before: boards and storage start as they are after the first `repeats` samples have
    repeated until they no longer change. Storage of E lets the supply follow as a low pass of
    E / (limit - idle power), which is the longest that no step between these powers empties.

    Args:
        demand_w_TB: Power without smoothing, but of steps of `smoothed_steps` (T, B) [W].
        on_w: Power of a board without kernels; it is active above [W].
        cap_w: Power limit of a board [W].
        repeats: Samples after which the demand repeats; None for all of them.

    Source: NVIDIA NVML API reference, power smoothing profiles; the low pass is derived.
    Limits: Secondary floors and activation windows are left out. After stalls and failures, ramps
        take no time. Storage has no losses.

    Example:
        >>> import numpy as np
        >>> from perfatlas.energy import Smoothing, smoothed_power
        >>> demand = np.array([[700.0], [100.0], [100.0], [700.0]])
        >>> smoothed_power(demand, 1.0, Smoothing(floor_w=400.0), 100.0, 700.0)[:, 0].tolist()
        [700.0, 400.0, 400.0, 700.0]
    """
    board_w_TB, grid_w_TB = np.empty_like(demand_w_TB), np.empty_like(demand_w_TB)
    count = min(repeats or demand_w_TB.shape[0], demand_w_TB.shape[0])
    per_s = (cap_w - on_w) / smoothing.storage_j if smoothing.storage_j else math.inf
    follows, settled = (-math.expm1(-time * resolution_s * per_s) for time in (1, count))
    active_w = on_w * (1.0 + ACTIVE)
    settings = (follows, settled, smoothing.floor_w, smoothing.hold_s / resolution_s, active_w)
    ramps = (smoothing.up_w_per_s * resolution_s, smoothing.down_w_per_s * resolution_s)
    _smooth(demand_w_TB, board_w_TB, grid_w_TB, np.array([*settings, *ramps]), count)
    return grid_w_TB


@compiled
def _work_off(
    demand_w_T: Any,  # noqa: ANN401 - arrays, as the compiler takes them
    settings: Any,  # noqa: ANN401
    least: float,
    work_w_T: Any,  # noqa: ANN401
    board_w_T: Any,  # noqa: ANN401
    taken: Any,  # noqa: ANN401
) -> int:
    """Write the power of work and of a board in a step of steady state; return its last sample.

    `taken` receives the time of the step in samples.
    """
    floor_w, hold, active_w, up_w, down_w, on_w = settings
    idle, before_w, power_w, repeat = 0.0, -1.0, max(demand_w_T[0], floor_w), 0
    count, over = 0, 0.0
    while repeat < SETTLING and abs(power_w - before_w) > SETTLED_W:
        before_w, repeat, count, done, over = power_w, repeat + 1, 0, 0.0, 0.0
        while done < demand_w_T.size - DONE or count < least:
            if count == work_w_T.size:
                return count + 1
            at = int(done + DONE)
            wanted_w = demand_w_T[at] if at < demand_w_T.size else on_w
            idle = 0.0 if wanted_w > active_w else idle + 1.0
            held_w = max(wanted_w, floor_w) if idle <= hold else wanted_w
            lacking_w = held_w - power_w
            power_w = min(max(held_w, power_w - down_w), power_w + up_w)
            mean_w, share = power_w, 1.0
            if lacking_w > 0.0 and up_w < np.inf:  # it rises evenly, at most up to what is wanted
                reached = min(lacking_w / up_w, 1.0)
                mean_w -= 0.5 * reached * min(lacking_w, up_w)
            if mean_w < wanted_w:
                share = max(mean_w - on_w, 0.0) / (wanted_w - on_w)
            done += share
            if done > demand_w_T.size and over == 0.0:
                over = min((done - demand_w_T.size) / share, 1.0)
            work_w_T[count], board_w_T[count] = min(wanted_w, mean_w), mean_w
            count += 1
    taken[0] = max(count - over, least)
    return count


@compiled
def _smooth(demand_w_TB: Any, board_w_TB: Any, grid_w_TB: Any, settings: Any, count: int) -> None:  # noqa: ANN401 - arrays, as the compiler takes them
    """Write the power of boards, and that of their supply, sample after sample."""
    follows, settled = settings[0], settings[1]
    for board in range(demand_w_TB.shape[1]):
        demand_w_T, board_w_T = demand_w_TB[:, board], board_w_TB[:, board]
        idle, before_w, power_w, repeat = 0.0, -1.0, max(demand_w_T[0], settings[2]), 0
        while repeat < SETTLING and abs(power_w - before_w) > SETTLED_W:
            before_w, repeat = power_w, repeat + 1
            idle, power_w = _follow(demand_w_T[:count], board_w_T, settings, idle, power_w)
        _follow(demand_w_T, board_w_T, settings, idle, power_w)
        grid_w = 0.0
        for sample in range(count):
            grid_w += follows * (board_w_T[sample] - grid_w)
        grid_w /= settled
        for sample in range(demand_w_T.size):
            grid_w += follows * (board_w_T[sample] - grid_w)
            grid_w_TB[sample, board] = grid_w


@part
def _follow(demand_w_T: Any, board_w_T: Any, settings: Any, idle: float, power_w: float) -> Any:  # noqa: ANN401 - as above
    """Write the power of a board, and return its samples without kernels and its last power."""
    floor_w, hold, active_w = settings[2], settings[3], settings[4]
    up_w, down_w = settings[5], settings[6]
    for sample in range(demand_w_T.size):
        wanted_w = demand_w_T[sample]
        idle = 0.0 if wanted_w > active_w else idle + 1.0
        if idle <= hold:
            wanted_w = max(wanted_w, floor_w)
        power_w = min(max(wanted_w, power_w - down_w), power_w + up_w)
        board_w_T[sample] = power_w
    return idle, power_w
