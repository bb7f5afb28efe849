"""Sums of a step over its operators: time, interval, spread and energy, in one pass.

Shape legend: C candidates, O operators, M calibrations, G groups of calibrations that deviate
together, K classes of operators, S sums.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.compiled import compiled, inlined, part
from perfatlas.engines import operator_class, operator_spreads
from perfatlas.measurements.calibrations import USER_PROTOCOL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.measurements.calibrations import CalibrationMatch
    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.pricing import PricedOperators

MIN_FLOAT: Final = float(np.finfo(np.float64).tiny)  # keeps 0 over 0 at 0
TOTALS: Final = 6  # sums that are plain totals: the first fields of `OperatorSums`
LANES: Final = 8  # partial sums that numpy adds in parallel


class StepClock(NamedTuple):
    """The clock of a step, each (C,)."""

    ratio: FloatArray  # Over the clock that the device sustains at its TDP
    energy_share: FloatArray  # Energy of the chip over that at the voltage of the highest clock
    # Power at the lowest clock where no clock keeps the power limit, else NaN [W]
    lowest_w: FloatArray
    # Part of `energy_share` that the TDP leaves at the sustained clock, 1 where a lock is below it
    limit_share: FloatArray
    # Power without kernels between steps, less that at the clock of the step [W]
    saved_w: FloatArray
    # Half-width of ln(energy of the chip) by the interval of the voltage curve
    energy_width: FloatArray
    # Half-width of ln(time) by the same, where a power limit leaves the clock
    time_width: FloatArray

    @classmethod
    def sustained(cls, time_s: FloatArray) -> StepClock:
        """Return the sustained clock, at which energies are those at the highest voltage.

        Args:
            time_s: Times of steps (C,) [s], of which only the shape is read.
        """
        ones, zeros = np.ones_like(time_s), np.zeros_like(time_s)
        return cls(ones, ones, np.full_like(ones, np.nan), ones, zeros, zeros, zeros)


class OperatorSums(NamedTuple):
    """Sums of a step over the executions of its operators, without host time, each (C,)."""

    time_s: FloatArray  # Time [s]
    bound_s: FloatArray  # Roofline time [s]
    at_bound_s: FloatArray  # Time priced at the roofline for lack of calibrations [s]
    chip_j: FloatArray  # Dynamic energy that scales with the squared voltage [J]
    memory_j: FloatArray  # Dynamic energy of memory and links [J]
    unlimited_j: FloatArray  # Dynamic energy where the TDP lowers no voltage [J]
    below_s: FloatArray  # How much less the time is where kernels are at their 5% quantile [s]
    above_s: FloatArray  # How much more it is where they are at their 95% quantile [s]
    laboratory_s: FloatArray  # Its standard deviation by operators on other machines [s]

    def at_voltage(self, clock: StepClock) -> OperatorSums:
        """Return the sums with the energy of the chip at the voltage of a clock."""
        chip_j = self.chip_j * clock.energy_share
        unlimited_j = chip_j * unlimited_share(clock) + self.memory_j
        return self._replace(chip_j=chip_j, unlimited_j=unlimited_j)


def operator_sums(count_CO: FloatArray, prices: PricedOperators, clock: StepClock) -> OperatorSums:
    """Return the sums of a step.

    Operators of one calibration deviate together, and so do all that borrow a calibration.
    Calibrations of different measurements deviate independently: their parts add in quadrature.
    Between laboratories, operators of one class deviate together, those of different classes
    independently; time at the bound has no part in that, nor do operators that were calibrated on
    the machine of the user.
    """
    return sums_by_group(count_CO, prices, clock).whole


class GroupedSums(NamedTuple):
    """Sums of a step, and the deviations of each group and class."""

    whole: OperatorSums  # Sums over all operators
    # How much less and more time each group takes at both ends (2, G, C) [s]
    away_s_2GC: FloatArray
    laboratory_s_KC: FloatArray  # Standard deviation of each class on other machines (K, C) [s]


def sums_by_group(count_CO: FloatArray, prices: PricedOperators, clock: StepClock) -> GroupedSums:
    """Return the sums of a step as `operator_sums`, with those of each group and class."""
    groups = deviating_groups(prices)
    candidates, classes = count_CO.shape[0], groups.deviation_K.size
    sums_SC = np.empty((len(OperatorSums._fields), candidates))
    scratch = np.empty((TOTALS + classes, count_CO.shape[1])), np.empty(groups.group_M.size)
    sums = np.empty((2, groups.group_M.size, candidates)), np.empty((classes, candidates))
    _sum(
        count_CO.reshape(-1),
        _Columns(
            *(np.require(getattr(prices, n), requirements=["C", "W"]) for n in _Columns._fields)
        ),
        groups,
        unlimited_share(clock),
        _Parts(*scratch, *sums),
        sums_SC,
    )
    return GroupedSums(OperatorSums(*sums_SC), *sums)


def deviating_groups(prices: PricedOperators) -> DeviatingGroups:
    """Return what deviates together among priced operators."""
    classes = list(operator_spreads())
    own_M = np.array([match.own for match in prices.matches], np.bool_)
    # the last stands for no calibration
    group_M = np.append(np.where(own_M, np.arange(own_M.size), own_M.size), own_M.size)
    class_M = np.full(group_M.size, len(classes))
    class_M[: len(prices.matches)] = [_class(match, classes) for match in prices.matches]
    deviation_K = np.array([spread.deviation for spread in operator_spreads().values()])
    return DeviatingGroups(group_M, class_M, deviation_K)


def _class(match: CalibrationMatch, classes: Sequence[str]) -> int:
    """Return the class of a calibrated operator, their number for one of the user's machine."""
    if match.calibration.protocol.startswith(USER_PROTOCOL):
        return len(classes)
    return classes.index(operator_class(match.calibration.operator))


def unlimited_share(clock: StepClock) -> FloatArray:
    """Return the energy of the chip without the TDP over that with it (C,)."""
    limit_C, share_C = (
        np.maximum(column, MIN_FLOAT) for column in (clock.limit_share, clock.energy_share)
    )
    more_C: FloatArray = np.minimum(share_C / limit_C, 1.0) / share_C
    return more_C


class _Columns(NamedTuple):
    """Columns of `PricedOperators` that are added up, each (C, O)."""

    time_s_CO: FloatArray
    low_s_CO: FloatArray
    high_s_CO: FloatArray
    bound_s_CO: FloatArray
    chip_energy_j_CO: FloatArray
    memory_energy_j_CO: FloatArray
    match_CO: IntArray


class DeviatingGroups(NamedTuple):
    """What deviates together."""

    group_M: IntArray  # Group of each calibration; the last is that of no calibration (M + 1,)
    class_M: IntArray  # Class of operators of each, K for none (M + 1,)
    deviation_K: FloatArray  # Deviation of each class between laboratories


class _Parts(NamedTuple):
    """What is added up of each candidate."""

    each_SO: FloatArray  # Plain sums, then times by class, of one candidate (S + K, O)
    squares_G: FloatArray  # Squared deviations of groups of one candidate at one end (G,)
    away_2GC: FloatArray  # Deviations of groups at both ends (2, G, C)
    laboratory_KC: FloatArray  # Deviations of classes (K, C)


@compiled
def _sum(
    count_F: FloatArray,
    columns: _Columns,
    groups: DeviatingGroups,
    more_C: FloatArray,
    parts: _Parts,
    sums_SC: FloatArray,
) -> None:
    """Write the sums of `OperatorSums` in the order of its fields."""
    classes = groups.deviation_K.shape[0]
    for c in range(more_C.shape[0]):
        _collect(count_F, columns, groups, more_C, parts, c)
        for index in range(TOTALS):
            sums_SC[index, c] = _pairwise(parts.each_SO[index])
        for end in range(2):
            for group in range(parts.squares_G.shape[0]):
                away_s = parts.away_2GC[end, group, c]
                parts.squares_G[group] = away_s * away_s
            sums_SC[TOTALS + end, c] = math.sqrt(_pairwise(parts.squares_G))
        variance = 0.0
        for position in range(classes):
            deviation_s = groups.deviation_K[position] * _pairwise(parts.each_SO[TOTALS + position])
            parts.laboratory_KC[position, c] = deviation_s
            variance += deviation_s * deviation_s
        sums_SC[TOTALS + 2, c] = math.sqrt(variance)


@inlined
def _collect(
    count_F: FloatArray,
    columns: _Columns,
    groups: DeviatingGroups,
    more_C: FloatArray,
    parts: _Parts,
    c: int,
) -> None:
    """Write what is added up of one candidate."""
    parts.each_SO[:, :] = 0.0
    parts.away_2GC[:, :, c] = 0.0
    operators, none = columns.time_s_CO.shape[1], groups.group_M.shape[0] - 1
    for o in range(operators):
        count, match = count_F[c * operators + o], columns.match_CO[c, o]
        time_s = columns.time_s_CO[c, o]
        chip_j, memory_j = columns.chip_energy_j_CO[c, o], columns.memory_energy_j_CO[c, o]
        parts.each_SO[0, o] = count * time_s
        parts.each_SO[1, o] = count * columns.bound_s_CO[c, o]
        parts.each_SO[2, o] = count * time_s if match < 0 else 0.0
        parts.each_SO[3, o] = count * chip_j
        parts.each_SO[4, o] = count * memory_j
        parts.each_SO[5, o] = count * (chip_j * more_C[c] + memory_j)
        index = none if match < 0 else match
        if groups.class_M[index] < groups.deviation_K.shape[0]:
            parts.each_SO[TOTALS + groups.class_M[index], o] = count * time_s
        group = groups.group_M[index]
        parts.away_2GC[0, group, c] += count * abs(columns.low_s_CO[c, o] - time_s)
        parts.away_2GC[1, group, c] += count * abs(columns.high_s_CO[c, o] - time_s)


@part
def _pairwise(values: FloatArray) -> float:
    """Return the sum of values in the order in which numpy adds up to 128 contiguous ones."""
    size, total = values.shape[0], 0.0
    if size < LANES:
        for i in range(size):
            total += values[i]
        return float(total)
    a, b, c, d = values[0], values[1], values[2], values[3]
    e, f, g, h = values[4], values[5], values[6], values[7]
    index = LANES
    while index + LANES <= size:
        a, b, c, d = (
            a + values[index],
            b + values[index + 1],
            c + values[index + 2],
            d + values[index + 3],
        )
        e, f, g, h = (
            e + values[index + 4],
            f + values[index + 5],
            g + values[index + 6],
            h + values[index + 7],
        )
        index += LANES
    total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    while index < size:
        total += values[index]
        index += 1
    return float(total)
