"""The clock that a power limit leaves to steps, and the voltage at that clock.

Clock ratios are relative to the sustained clock, voltages to that of the highest clock.
Shape legend: C candidates; arrays of steps have steps before candidates and broadcast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.energy.boards import lowest_clock, voltage

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfatlas.energy.boards import PowerColumns
    from perfatlas.operators import FloatArray

    Ends = tuple[FloatArray, FloatArray]

TOLERANCE: Final = 1e-3  # a limit that binds is reached from below within this share
MAX_EVALUATIONS: Final = 12
LIMIT_ROUNDING: Final = 1e-9  # above which a limit binds
HALVINGS: Final = 12  # of the interval of clocks, in closed form between evaluations
_MIN_FLOAT: Final = float(np.finfo(np.float64).tiny)


class StepEnergy(NamedTuple):
    """Totals of steps, each (..., C)."""

    time_s: FloatArray  # Time of the step [s]
    compute_s: FloatArray  # Its part in which arithmetic limits [s]
    peak_s: FloatArray  # That part at the peak of the datasheet [s]
    chip_j: FloatArray  # Dynamic energy of the chip at the voltage of the highest clock [J]
    memory_j: FloatArray  # Dynamic energy of memory and links [J]


class CappedClock(NamedTuple):
    """The clocks that power limits leave, each (..., C)."""

    ratio: FloatArray  # Highest at which the limit is kept; the lowest where it cannot be kept
    lowest_w: FloatArray  # Power at the lowest clock where the limit cannot be kept, else NaN [W]
    time_width: FloatArray  # Half-width of ln(time) by the voltage curve; 0 where no limit binds


class _State(NamedTuple):
    """The state in which steps were measured, each (..., C)."""

    clock: FloatArray  # Sustained clock over the highest
    volts: FloatArray  # Voltage at the sustained clock
    share: FloatArray  # Energy of the chip over that at the voltage of the highest clock

    def energy_share(self, ratio: FloatArray, power: PowerColumns) -> FloatArray:
        here = voltage(ratio * self.clock, power.voltage_slope, power.voltage_floor)
        relative = here / self.volts
        share: FloatArray = self.share * relative * relative
        return share

    def power_w(self, totals: StepEnergy, ratio: FloatArray, power: PowerColumns) -> FloatArray:
        """Return the mean power of steps at a clock (..., C) [W]."""
        dynamic_j = self.energy_share(ratio, power) * totals.chip_j + totals.memory_j
        on_w = power.on_w - power.saved_w(ratio)
        watts: FloatArray = on_w + dynamic_j / np.maximum(totals.time_s, _MIN_FLOAT)
        return watts


def _measured_state(full: StepEnergy, power: PowerColumns) -> _State:
    """Return the state of the devices on which the kernels of steps were measured.

    Its voltage leaves the power of the TDP to the chip; its clock is no lower than that at which
    tensor cores that never pause would need the time of the arithmetic.
    """
    computing_s = power.compute_size * full.compute_s
    measured_s = computing_s + power.memory_size * (full.time_s - full.compute_s)
    room_j = np.maximum(
        (power.calibrated_w - power.sustained_on_w) * measured_s - full.memory_j, 0.0
    )
    share: FloatArray = np.minimum(room_j / np.maximum(full.chip_j, _MIN_FLOAT), 1.0)
    relative = np.maximum(np.sqrt(share), power.voltage_floor)
    needed = full.peak_s / np.maximum(full.compute_s, _MIN_FLOAT) * power.peak_clock
    clock: FloatArray = np.maximum(1.0 - (1.0 - relative) / power.voltage_slope, needed)
    clock = np.minimum(clock, 1.0)
    return _State(clock, voltage(clock, power.voltage_slope, power.voltage_floor), share)


def sustained_clock(full: StepEnergy, power: PowerColumns) -> FloatArray:
    """Return the clock that steps sustain at the TDP over the highest clock (..., C)."""
    return _measured_state(full, power).clock


def energy_share(full: StepEnergy, ratio: FloatArray, power: PowerColumns) -> FloatArray:
    """Return the energy of the chip over that at the highest voltage (..., C).

    At the sustained clock it is what the TDP leaves to the chip, elsewhere it follows V^2.

    Args:
        full: Totals at the sustained clock, with the energies of random values.
    """
    state = _measured_state(full, power)
    if not np.any(ratio != 1.0):
        return state.share
    return np.where(ratio == 1.0, state.share, state.energy_share(ratio, power))


def energy_width(full: StepEnergy, ratio: FloatArray, power: PowerColumns) -> FloatArray:
    """Return the half-width of ln(`energy_share`) by the voltage curve, 0 at ratio 1 (..., C)."""
    if not np.any(ratio != 1.0):
        return np.zeros_like(ratio)
    predicted, *ends = (
        np.log(np.maximum(energy_share(full, ratio, curve), _MIN_FLOAT))
        for curve in (power, *power.voltage_curves())
    )
    width: FloatArray = np.max([np.abs(end - predicted) for end in ends], axis=0)
    return width


def capped_clock_ratio(
    at_ratio: Callable[[FloatArray], StepEnergy],
    full: StepEnergy,
    power: PowerColumns,
    calibrated: StepEnergy | None = None,
) -> CappedClock:
    """Return the highest clocks at which steps draw at most the limit of their device.

    The limit acts relative to the measured state: times were measured at the clock that a device
    sustains at its TDP, so a limit that is not below the power of that state gives 1. A lower limit
    lowers the clock, and with it the squared voltage and the rate of compute, until the mean power
    of the step is the limit. The clock rises above that state where the values of the tensors or
    the limit of the device leave more power than it had.

    The clock is found by evaluating the step at a few clocks. Between evaluations its time and the
    energy of its chip are linear in the period of the clock.

    Args:
        at_ratio: Totals of the steps at clocks over the sustained clock (..., C).
        full: Totals at the sustained clock.
        calibrated: Totals with the energies of random values, `full` by default.

    Limits: One clock per step, as if the step ran again and again. The power at the clock found is
        within 0.1% of a limit that binds.
    """
    random = full if calibrated is None else calibrated
    state = _measured_state(random, power)
    less = (full.chip_j < random.chip_j) | (power.clock_limit_w > power.calibrated_w)
    most = np.where(less, np.fmax(power.highest_clock / state.clock, 1.0), 1.0)
    start = full if np.all(most == 1.0) else at_ratio(most)
    watts = state.power_w(start, most, power)
    binds = watts > power.clock_limit_w * (1.0 + LIMIT_ROUNDING)
    ratio, lowest_w = most.copy(), np.full_like(most, np.nan)
    if not binds.any():
        return CappedClock(ratio, lowest_w, np.zeros_like(most))
    aim_w = np.broadcast_to(power.clock_limit_w * (1.0 - 0.5 * TOLERANCE), ratio.shape)
    line = _Line(1.0 / most, start, start.compute_s * most, np.zeros_like(ratio))
    slow, fast, open_ = np.full_like(ratio, lowest_clock()), most.copy(), binds
    for _ in range(MAX_EVALUATIONS):
        ratio = np.where(open_, line.ratio_at(aim_w, state, power, (slow, fast)), ratio)
        energy = at_ratio(ratio)
        watts = state.power_w(energy, ratio, power)
        above = watts > aim_w
        short = open_ & above & (ratio <= lowest_clock())
        lowest_w = np.where(short, watts, lowest_w)
        near = np.abs(watts - aim_w) <= 0.5 * TOLERANCE * power.clock_limit_w
        fast, slow = np.where(above, ratio, fast), np.where(above, slow, ratio)
        open_ = open_ & ~near & ~short & (fast - slow > _MIN_FLOAT)
        if not open_.any():
            break
        line = line.through(1.0 / ratio, energy)
    line, widths = line.through(1.0 / ratio, energy), []
    for curve in power.voltage_curves():
        ends = (np.full_like(ratio, lowest_clock()), most)
        reached = line.crossing(aim_w, _measured_state(random, curve), curve, ends)
        later_s = line.time_slope * (1.0 / reached - 1.0 / ratio)
        longer = 1.0 + later_s / np.maximum(energy.time_s, _MIN_FLOAT)
        widths.append(np.abs(np.log(np.maximum(longer, _MIN_FLOAT))))
    return CappedClock(ratio, lowest_w, np.where(binds, np.max(widths, axis=0), 0.0))


class _Line(NamedTuple):
    """Time and chip energy of steps as lines over the period of the clock."""

    period: FloatArray  # Period at which `totals` hold, over that of the sustained clock
    totals: StepEnergy
    time_slope: FloatArray  # Time per relative period [s]
    chip_slope: FloatArray  # Energy of the chip per relative period [J]

    def through(self, period: FloatArray, totals: StepEnergy) -> _Line:
        """Return the lines through the last point and a new one."""
        distance = period - self.period
        moved = np.abs(distance) > 1e-9
        step = np.where(moved, distance, 1.0)
        time_slope = np.where(moved, (totals.time_s - self.totals.time_s) / step, self.time_slope)
        chip_slope = np.where(moved, (totals.chip_j - self.totals.chip_j) / step, self.chip_slope)
        return _Line(period, totals, time_slope, chip_slope)

    def ratio_at(
        self, aim_w: FloatArray, state: _State, power: PowerColumns, ends: Ends
    ) -> FloatArray:
        """Return the clocks between two ends at which the lines draw a power."""
        above_slow = self._power_w(ends[0], state, power) > aim_w
        fast, lowest = self.crossing(aim_w, state, power, ends), lowest_clock()
        outside = above_slow | (fast >= ends[1])
        inside = np.where(above_slow & (ends[0] <= lowest), lowest, 0.5 * (ends[0] + ends[1]))
        return np.where(outside, inside, fast)

    def crossing(
        self, aim_w: FloatArray, state: _State, power: PowerColumns, ends: Ends
    ) -> FloatArray:
        """Return the highest clocks between two ends at which the lines draw no more (..., C)."""
        slow, fast = ends
        for _ in range(HALVINGS):
            middle = 0.5 * (slow + fast)
            above = self._power_w(middle, state, power) > aim_w
            slow, fast = np.where(above, slow, middle), np.where(above, middle, fast)
        return fast

    def _power_w(self, ratio: FloatArray, state: _State, power: PowerColumns) -> FloatArray:
        later = 1.0 / ratio - self.period
        totals = self.totals._replace(
            time_s=np.maximum(self.totals.time_s + later * self.time_slope, _MIN_FLOAT),
            chip_j=self.totals.chip_j + later * self.chip_slope,
        )
        return state.power_w(totals, ratio, power)


def locked_ratio(ratio: FloatArray, locked: FloatArray) -> FloatArray:
    """Return the clocks of steps, of which power leaves some, with a lock; 1 locks none (..., C).

    Example:
        >>> import numpy as np
        >>> from perfatlas.energy import locked_ratio
        >>> left = np.array([0.8, 0.8, 1.0, 1.1, 1.1])
        >>> locked_ratio(left, np.array([1.0, 0.7, 1.2, 1.0, 0.9])).tolist()
        [0.8, 0.7, 1.2, 1.1, 0.9]
    """
    both = np.where(ratio == 1.0, locked, np.minimum(ratio, locked))
    return np.where(locked == 1.0, ratio, both)
