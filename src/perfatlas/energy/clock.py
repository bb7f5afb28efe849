"""The clock that a power limit leaves to steps, and the voltage at that clock.

Shape legend: C candidates; arrays of steps have steps before candidates and broadcast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.energy.operators import voltage

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from perfatlas.energy.power import PowerColumns
    from perfatlas.operators import FloatArray

LOWEST: Final = 0.2  # of the sustained clock; devices do not go far below
TOLERANCE: Final = 1e-3  # a limit that binds is reached from below within this share
MOST_EVALUATIONS: Final = 12
HALVINGS: Final = 20  # of the interval of clocks, in closed form between evaluations
_TINY: Final = float(np.finfo(np.float64).tiny)


class StepEnergy(NamedTuple):
    """Totals of steps, each (..., C).

    Args:
        time_s: Time of the step [s].
        compute_s: Its part in which arithmetic limits [s].
        chip_j: Dynamic energy of the chip at the voltage of the highest clock [J].
        memory_j: Dynamic energy of memory and links [J].
    """

    time_s: FloatArray
    compute_s: FloatArray
    chip_j: FloatArray
    memory_j: FloatArray


class CappedClock(NamedTuple):
    """The clocks that power limits leave, each (..., C).

    Args:
        ratio: Highest clock over the sustained clock at which the limit is kept; `LOWEST` where it
            cannot be kept.
        lowest_w: Power at `LOWEST` where the limit cannot be kept, else NaN [W].
    """

    ratio: FloatArray
    lowest_w: FloatArray


def capped_clock_ratio(
    at: Callable[[FloatArray], StepEnergy], full: StepEnergy, power: PowerColumns
) -> CappedClock:
    """Return the highest clocks at which steps draw at most the limit of their device.

    The limit acts relative to the calibrated state: times were measured at the clock that the
    device sustains at its TDP, so a limit that is not below the power of that state gives 1. A
    lower limit lowers the clock, and with it the squared voltage and the rate of compute, until
    the mean power of the step is the limit.

    The clock is found by evaluating the step at a few clocks. Between evaluations its time and the
    energy of its chip are linear in the period of the clock.

    Args:
        at: Totals of the steps at clocks over the sustained clock (..., C); 1 where unlimited.
        full: Totals at the sustained clock.
        power: Power of the devices, with their limits.

    Limits: One clock per step, as if the step ran again and again. The power at the clock found is
        within 0.1% of a limit that binds.
    """
    steady = sustained_clock(full, power)
    binds = _power_w(full, np.ones_like(steady), steady, power) > power.cap_w * (1.0 + 1e-9)
    ratio, lowest_w = np.ones_like(steady), np.full_like(steady, np.nan)
    if not binds.any():
        return CappedClock(ratio, lowest_w)
    aim_w = np.broadcast_to(power.cap_w * (1.0 - 0.5 * TOLERANCE), ratio.shape)
    model = _Line(np.ones_like(ratio), full, full.compute_s, np.zeros_like(ratio))
    slow, fast, open_ = np.full_like(ratio, LOWEST), np.ones_like(ratio), binds
    for _ in range(MOST_EVALUATIONS):
        tried = model.ratio_at(aim_w, steady, power, (slow, fast))
        ratio = np.where(open_, tried, ratio)
        found = at(ratio)
        watts = _power_w(found, ratio, steady, power)
        above = watts > aim_w
        short = open_ & above & (ratio <= LOWEST)
        lowest_w = np.where(short, watts, lowest_w)
        near = np.abs(watts - aim_w) <= 0.5 * TOLERANCE * power.cap_w
        fast, slow = np.where(above, ratio, fast), np.where(above, slow, ratio)
        open_ = open_ & ~near & ~short & (fast - slow > _TINY)
        if not open_.any():
            break
        model = model.through(1.0 / ratio, found)
    return CappedClock(ratio, lowest_w)


def sustained_clock(full: StepEnergy, power: PowerColumns) -> FloatArray:
    """Return the clock that steps sustain at the TDP over the highest clock (..., C).

    Clock ratios are relative to the sustained clock, voltages to the highest.

    Args:
        full: Totals at the sustained clock.
        power: Power of the devices.
    """
    relative = np.maximum(np.sqrt(_share(full, power)), power.voltage_floor)
    clock: FloatArray = 1.0 - (1.0 - relative) / power.voltage_slope
    return clock


def energy_share(full: StepEnergy, ratio: FloatArray, power: PowerColumns) -> FloatArray:
    """Return the energy of the chip relative to that at the highest voltage (..., C).

    At the sustained clock it is what the TDP leaves to the chip; below, the squared voltage.

    Args:
        full: Totals at the sustained clock.
        ratio: Clock over the sustained clock (..., C).
        power: Power of the devices.
    """
    share = _share(full, power)
    if not np.any(ratio != 1.0):
        return share
    return np.where(ratio == 1.0, share, _squared(ratio, sustained_clock(full, power), power))


class _Line(NamedTuple):
    """Time and chip energy of steps as lines over the period of the clock.

    Args:
        period: Period at which `totals` hold, relative to that of the sustained clock.
        totals: Totals at that period.
        time_slope: Time per relative period [s].
        chip_slope: Energy of the chip per relative period [J].
    """

    period: FloatArray
    totals: StepEnergy
    time_slope: FloatArray
    chip_slope: FloatArray

    def through(self, period: FloatArray, totals: StepEnergy) -> _Line:
        """Return the lines through the last point and a new one."""
        apart = period - self.period
        moved: NDArray[np.bool_] = np.abs(apart) > 1e-9
        step = np.where(moved, apart, 1.0)
        time_slope = (totals.time_s - self.totals.time_s) / step
        chip_slope = (totals.chip_j - self.totals.chip_j) / step
        return _Line(
            period,
            totals,
            np.where(moved, time_slope, self.time_slope),
            np.where(moved, chip_slope, self.chip_slope),
        )

    def ratio_at(
        self,
        aim_w: FloatArray,
        steady: FloatArray,
        power: PowerColumns,
        ends: tuple[FloatArray, FloatArray],
    ) -> FloatArray:
        """Return the clocks between two ends at which the lines draw a power."""
        slow, fast = ends
        above_slow = self._power_w(slow, steady, power) > aim_w
        for _ in range(HALVINGS):
            middle = 0.5 * (slow + fast)
            above = self._power_w(middle, steady, power) > aim_w
            slow, fast = np.where(above, slow, middle), np.where(above, middle, fast)
        outside = above_slow | (fast >= ends[1])
        inside = np.where(above_slow & (ends[0] <= LOWEST), LOWEST, 0.5 * (ends[0] + ends[1]))
        return np.where(outside, inside, fast)

    def _power_w(self, ratio: FloatArray, steady: FloatArray, power: PowerColumns) -> FloatArray:
        later = 1.0 / ratio - self.period
        totals = self.totals._replace(
            time_s=np.maximum(self.totals.time_s + later * self.time_slope, _TINY),
            chip_j=self.totals.chip_j + later * self.chip_slope,
        )
        return _power_w(totals, ratio, steady, power)


def _share(full: StepEnergy, power: PowerColumns) -> FloatArray:
    """Return the share of the chip's full energy that fits under the TDP (..., C)."""
    room_j = np.maximum((power.calibrated_w - power.on_w) * full.time_s - full.memory_j, 0.0)
    share: FloatArray = np.minimum(room_j / np.maximum(full.chip_j, _TINY), 1.0)
    return share


def _squared(ratio: FloatArray, steady: FloatArray, power: PowerColumns) -> FloatArray:
    """Return the squared voltage relative to that of the highest clock (..., C)."""
    relative = voltage(ratio * steady, power.voltage_slope, power.voltage_floor)
    squared: FloatArray = relative * relative
    return squared


def _power_w(
    totals: StepEnergy, ratio: FloatArray, steady: FloatArray, power: PowerColumns
) -> FloatArray:
    """Return the mean power of steps at a clock, at most the TDP (..., C) [W]."""
    dynamic_j = _squared(ratio, steady, power) * totals.chip_j + totals.memory_j
    watts = power.on_w + dynamic_j / np.maximum(totals.time_s, _TINY)
    return np.minimum(watts, power.calibrated_w)
