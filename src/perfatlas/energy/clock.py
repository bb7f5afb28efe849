"""The clock that a power limit leaves to an operator.

Shape legend: C candidates, K clocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.energy.boards import board_energy
from perfatlas.energy.operators import voltage, with_energy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.energy.boards import BoardEnergy
    from perfatlas.kernels.devices import DeviceColumns
    from perfatlas.operators import FloatArray, Operator
    from perfatlas.pricing import PricedOperators

LOWEST: Final = 0.2  # of the sustained clock; devices do not go far below
CLOCK_RATIOS: Final = tuple(float(one) for one in np.linspace(1.0, LOWEST, 33))


def capped_clock_ratio(
    operator: Operator,
    prices_K: Sequence[PricedOperators],
    devices: DeviceColumns,
    cap_w_C: FloatArray,
) -> FloatArray:
    """Return the highest clock at which an operator draws at most a limit (C,).

    The limit acts relative to the calibrated state: times were measured at the clock that the
    device sustains at its TDP, so a limit of the TDP or above gives 1. A lower limit lowers the
    clock, and with it the squared voltage and the rate of compute, until P(f) is the limit.

    Args:
        operator: The operator (C).
        prices_K: Its prices (C, 1) at each of `CLOCK_RATIOS` (K).
        devices: Device of each candidate, at full clock.
        cap_w_C: Power limit (C,) [W].

    Returns:
        Clock over the sustained clock, at least `LOWEST`.

    Limits: One clock per operator, as if it ran again and again; a limit below the power at
        `LOWEST` is exceeded.
    """
    boards = [board_energy(device) for device in devices.devices]
    power_KC = _power(operator, prices_K, devices, boards)
    fits_KC = power_KC <= np.minimum(cap_w_C, power_KC[0])
    first_C = np.where(fits_KC.any(axis=0), fits_KC.argmax(axis=0), len(CLOCK_RATIOS) - 1)
    above_C = np.maximum(first_C - 1, 0)
    ratios, rows = np.array(CLOCK_RATIOS), np.arange(first_C.size)
    over_w, under_w = power_KC[above_C, rows], power_KC[first_C, rows]
    binds_C = cap_w_C < over_w
    excess_w, gap_w = np.where(binds_C, over_w - cap_w_C, 0.0), over_w - under_w
    share_C = np.clip(excess_w / np.where(gap_w > 0.0, gap_w, 1.0), 0.0, 1.0)
    found_C: FloatArray = ratios[above_C] + share_C * (ratios[first_C] - ratios[above_C])
    return np.where(cap_w_C >= power_KC[0], 1.0, found_C)


def _power(
    operator: Operator,
    prices_K: Sequence[PricedOperators],
    devices: DeviceColumns,
    boards: Sequence[BoardEnergy],
) -> FloatArray:
    """Return the power at each clock relative to the sustained one (K, C) [W]."""

    def of_device(name: str) -> FloatArray:
        column: FloatArray = np.array([getattr(board, name) for board in boards])[devices.index_C]
        return column

    on_w, slope, floor = (of_device(name) for name in ("on_w", "voltage_slope", "voltage_floor"))
    found = [with_energy([operator], prices, devices) for prices in prices_K]
    chip_w_KC, memory_w_KC = (
        np.stack([getattr(one, name)[:, 0] / one.time_s_CO[:, 0] for one in found])
        for name in ("chip_energy_j_CO", "memory_energy_j_CO")
    )
    room_w = np.maximum(of_device("cap_w") - on_w - memory_w_KC[0], 0.0)
    share = np.minimum(room_w / np.maximum(chip_w_KC[0], np.finfo(np.float64).tiny), 1.0)
    relative = np.maximum(np.sqrt(share), floor)  # voltage sustained at the TDP
    clock = 1.0 - (1.0 - relative) / slope
    voltage_KC = voltage(np.array(CLOCK_RATIOS)[:, None] * clock, slope, floor)
    power_KC: FloatArray = on_w + memory_w_KC + chip_w_KC * voltage_KC**2
    return np.minimum(power_KC, of_device("cap_w"))
