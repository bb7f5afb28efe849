"""Power smoothing of boards: a floor while jobs wait, limits of ramps, and energy storage.

Shape legend: T samples, B boards.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.compiled import compiled, part
from perfatlas.files import shipped_table
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from perfatlas.hardware import Device
    from perfatlas.operators import FloatArray

SETTLING: Final = 1000  # times that the demand repeats until a board is in steady state, at most
SETTLED_W: Final = 1e-6
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


class SmoothedPower(NamedTuple):
    """Power of boards with smoothing, and what it costs."""

    grid_w_TB: FloatArray  # Power that the boards take from their supply (T, B) [W]
    added_share: float  # Energy of the floor and of slow ramps down over that of the demand
    withheld_share: float  # Dynamic energy that ramps up withhold over that of the demand


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


def smoothed_power(
    demand_w_TB: FloatArray,
    resolution_s: float,
    smoothing: Smoothing,
    on_w: float,
    cap_w: float,
    repeats: int | None = None,
) -> SmoothedPower:
    """Return the power of boards with smoothing.

    A board that ran a kernel within `hold_s` draws at least the floor; its power rises and falls at
    most at the limits of ramps: p[t+dt] = clamp(max(demand, floor), p[t] - down dt, p[t] + up dt).
    The job ran before: boards and storage start as they are after the first `repeats` samples have
    repeated until they no longer change. Storage of E lets the supply follow as a low pass of
    E / (limit - idle power), which is the longest that no step between these powers empties.

    Args:
        demand_w_TB: Power without smoothing (T, B) [W].
        on_w: Power of a board without kernels; it is active above [W].
        cap_w: Power limit of a board [W].
        repeats: Samples after which the demand repeats; None for all of them.

    Source: NVIDIA NVML API reference, power smoothing profiles; the low pass is derived.
    Limits: Secondary floors and activation windows are left out. Steps do not become longer where
        ramps withhold a share w of dynamic energy; they would at least by 1 / (1 - w). Storage has
        no losses.

    Example:
        >>> import numpy as np
        >>> from perfatlas.energy import Smoothing, smoothed_power
        >>> demand = np.array([[700.0], [100.0], [100.0], [700.0]])
        >>> found = smoothed_power(demand, 1.0, Smoothing(floor_w=400.0), 100.0, 700.0)
        >>> found.grid_w_TB[:, 0].tolist(), found.added_share
        ([700.0, 400.0, 400.0, 700.0], 0.375)
    """
    board_w_TB, grid_w_TB = np.empty_like(demand_w_TB), np.empty_like(demand_w_TB)
    count = min(repeats or demand_w_TB.shape[0], demand_w_TB.shape[0])
    per_s = (cap_w - on_w) / smoothing.storage_j if smoothing.storage_j else math.inf
    follows, settled = (-math.expm1(-time * resolution_s * per_s) for time in (1, count))
    active_w = on_w * (1.0 + 1e-6)
    settings = (follows, settled, smoothing.floor_w, smoothing.hold_s / resolution_s, active_w)
    ramps = (smoothing.up_w_per_s * resolution_s, smoothing.down_w_per_s * resolution_s)
    _smooth(demand_w_TB, board_w_TB, grid_w_TB, np.array([*settings, *ramps]), count)
    change_w = board_w_TB - demand_w_TB
    dynamic_w = float((demand_w_TB - on_w).sum())
    return SmoothedPower(
        grid_w_TB,
        float(np.maximum(change_w, 0.0).sum() / demand_w_TB.sum()),
        float(np.maximum(-change_w, 0.0).sum()) / dynamic_w if dynamic_w else 0.0,
    )


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
