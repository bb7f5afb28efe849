"""The clock that a power limit leaves to an operator.

Shape legend: C candidates, K clocks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.energy.boards import board_energy
from perfatlas.energy.operators import with_energy
from perfatlas.energy.power import power_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.kernels.devices import DeviceColumns
    from perfatlas.operators import FloatArray, Operator
    from perfatlas.pricing import PricedOperators

LOWEST: Final = 0.2  # of the sustained clock; devices do not go far below
CLOCK_RATIOS: Final = tuple(float(one) for one in np.linspace(1.0, LOWEST, 81))


class CappedClock(NamedTuple):
    """The clocks that power limits leave, each (C,).

    Args:
        ratio: Highest clock over the sustained clock at which the limit is kept; `LOWEST` where it
            cannot be kept.
        lowest_w: Power at `LOWEST` [W]; no lower limit can be kept.
    """

    ratio: FloatArray
    lowest_w: FloatArray


def capped_clock_ratio(
    operator: Operator,
    prices_K: Sequence[PricedOperators],
    devices: DeviceColumns,
    cap_w_C: FloatArray,
) -> CappedClock:
    """Return the highest clock at which an operator draws at most a limit.

    The limit acts relative to the calibrated state: times were measured at the clock that the
    device sustains at its TDP, so a limit of the TDP or above gives 1. A lower limit lowers the
    clock, and with it the squared voltage and the rate of compute, until P(f) is the limit.

    Args:
        operator: The operator (C).
        prices_K: Its prices (C, 1) at each of `CLOCK_RATIOS` (K).
        devices: Device of each candidate, at full clock.
        cap_w_C: Power limit (C,) [W].

    Limits: One clock per operator, as if it ran again and again. P is linear between two
        `CLOCK_RATIOS`, so the operator draws up to 0.1% less than a limit that binds.
    """
    power_KC = _power(operator, prices_K, devices)
    fits_KC = power_KC <= np.minimum(cap_w_C, power_KC[0])
    first_C = np.where(fits_KC.any(axis=0), fits_KC.argmax(axis=0), len(CLOCK_RATIOS) - 1)
    above_C = np.maximum(first_C - 1, 0)
    ratios, rows = np.array(CLOCK_RATIOS), np.arange(first_C.size)
    over_w, under_w = power_KC[above_C, rows], power_KC[first_C, rows]
    binds_C = cap_w_C < over_w
    excess_w, gap_w = np.where(binds_C, over_w - cap_w_C, 0.0), over_w - under_w
    share_C = np.clip(excess_w / np.where(gap_w > 0.0, gap_w, 1.0), 0.0, 1.0)
    found_C: FloatArray = ratios[above_C] + share_C * (ratios[first_C] - ratios[above_C])
    return CappedClock(np.where(cap_w_C >= power_KC[0], 1.0, found_C), power_KC[-1])


def sustained_clock(
    operator: Operator, full: PricedOperators, devices: DeviceColumns
) -> FloatArray:
    """Return the clock that an operator sustains at the TDP over the highest clock (C,).

    Clock ratios are relative to the sustained clock, voltages to the highest.

    Args:
        operator: The operator (C).
        full: Its prices (C, 1) at clock ratio 1.
        devices: Device of each candidate; clocks are not read.
    """
    devices = replace(devices, clock_ratio_C=None, gathered={})
    found = with_energy([operator], full, devices)
    power = power_columns(devices)
    slope, floor = (
        np.array([getattr(board_energy(device), name) for device in devices.devices])[
            devices.index_C
        ]
        for name in ("voltage_slope", "voltage_floor")
    )
    time_s_C = full.time_s_CO[:, 0]
    chip_w, memory_w = (
        energy_CO[:, 0] / time_s_C
        for energy_CO in (found.chip_energy_j_CO, found.memory_energy_j_CO)
    )
    room_w = np.maximum(power.cap_w - power.on_w - memory_w, 0.0)
    share = np.minimum(room_w / np.maximum(chip_w, np.finfo(np.float64).tiny), 1.0)
    relative = np.maximum(np.sqrt(share), floor)  # voltage sustained at the TDP
    clock: FloatArray = 1.0 - (1.0 - relative) / slope
    return clock


def _power(
    operator: Operator, prices_K: Sequence[PricedOperators], devices: DeviceColumns
) -> FloatArray:
    """Return the power at each clock relative to the sustained one (K, C) [W]."""
    power, sustained_C = power_columns(devices), sustained_clock(operator, prices_K[0], devices)
    found = [
        with_energy([operator], prices, devices.at_clock(ratio), sustained_C)
        for prices, ratio in zip(prices_K, CLOCK_RATIOS, strict=True)
    ]
    return np.stack(
        [
            power.mean_w(
                one.chip_energy_j_CO[:, 0] + one.memory_energy_j_CO[:, 0], one.time_s_CO[:, 0]
            )
            for one in found
        ]
    )
