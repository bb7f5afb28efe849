"""The clocks of queries for one operator, below locks, power limits and what the GPU draws."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.energy import (
    ZEROS,
    StepEnergy,
    board_energy,
    capped_clock_ratio,
    energy_share,
    energy_width,
    locked_ratio,
    lowest_clock,
    power_columns,
    with_energy,
)
from perfatlas.operators import BOUND_COMPUTE, with_fields
from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.scenario.fields import number_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfatlas.hardware import Device
    from perfatlas.machines import DeviceColumns, GatheredOperators
    from perfatlas.operators import FloatArray, Operator
    from perfatlas.pricing import PricedOperators
    from perfatlas.quantities import PerfatlasError
    from perfatlas.scenario.operator_queries.inputs import OperatorInputs

CLOCKS: Final = ("clock_ratio", "power_cap_w")  # fields that are columns here


def at_clocks(
    inputs: Sequence[OperatorInputs],
    operator: Operator,
    gathered: GatheredOperators,
    devices: DeviceColumns,
    kernels: Callable[[PricedOperators, DeviceColumns], PricedOperators],
) -> tuple[PricedOperators, FloatArray, FloatArray, dict[int, PerfatlasError]]:
    """Return prices with energy at the clocks that locks and limits leave.

    Args:
        inputs: The queries (C).
        operator: Their columns (C).
        devices: The device at its sustained clock (C).

    Returns:
        The prices; the clocks over the sustained one (C); the half-width of ln(energy of the chip)
        by the interval of the voltage curve (C); by query, why its power limit is refused.
    """
    zeros_C = np.array([one.input_distribution == ZEROS for one in inputs])
    sustained = kernels(gathered.full(), devices)
    full = with_energy([operator], sustained, devices, zeros_C)
    calibrated = _step_energy(with_energy([operator], sustained, devices))
    limits_C = limits_w(inputs)
    power, energy = power_columns(devices, limits_C), _step_energy(full)

    def priced(ratio_C: FloatArray) -> PricedOperators:
        at_ratio = replace(devices, clock_ratio_C=ratio_C, gathered={})
        found = kernels(gathered.at(ratio_C[:, None]).fastest(), at_ratio)
        return with_energy([operator], found, devices, zeros_C)

    ratio_C = number_columns(inputs, CLOCKS)["clock_ratio"]
    time_width_C = np.zeros_like(ratio_C)
    problems: dict[int, PerfatlasError] = {}
    measured_C = full.match_CO[:, 0] >= 0
    limited_C = np.isfinite(limits_C)
    if measured_C.any():
        limit_w_C = np.where(measured_C, power.clock_limit_w, np.inf)
        applied = replace(power, clock_limit_w=limit_w_C)
        clock = capped_clock_ratio(
            lambda column: _step_energy(priced(column)), energy, applied, calibrated
        )
        ratio_C = locked_ratio(np.where(measured_C, clock.ratio, 1.0), ratio_C)
        time_width_C = np.where(measured_C & (ratio_C == clock.ratio), clock.time_width, 0.0)
        problems = {
            int(c): _too_low(devices.devices[0], limits_C[c], clock.lowest_w[c])
            for c in np.flatnonzero(np.isfinite(clock.lowest_w))
        }
    board = board_energy(devices.devices[0])
    if np.isnan(board.on_w):
        unknown = UnsupportedError(f"power_cap_w: {board.notes[0]}; omit it")
        problems |= {int(c): unknown for c in np.flatnonzero(limited_C)}
    problems |= {int(c): _unmeasured(limits_C[c]) for c in np.flatnonzero(limited_C & ~measured_C)}
    prices = full if np.all(ratio_C == 1.0) else priced(ratio_C)
    share_C = energy_share(calibrated, ratio_C, power)
    chip_j_CO = prices.chip_energy_j_CO * share_C[:, None]
    found = with_fields(_widened(prices, time_width_C), chip_energy_j_CO=chip_j_CO)
    return found, ratio_C, energy_width(calibrated, ratio_C, power), problems


def _widened(prices: PricedOperators, width_C: FloatArray) -> PricedOperators:
    """Return prices whose interval holds for the clocks that power limits leave.

    Args:
        prices: The prices (C, 1).
    """
    if not width_C.any():
        return prices
    time_s_CO, width_CO = prices.time_s_CO, width_C[:, None]
    return with_fields(
        prices,
        low_s_CO=time_s_CO * np.exp(-np.hypot(np.log(prices.low_s_CO / time_s_CO), width_CO)),
        high_s_CO=time_s_CO * np.exp(np.hypot(np.log(prices.high_s_CO / time_s_CO), width_CO)),
    )


def _step_energy(prices: PricedOperators) -> StepEnergy:
    """Return one execution of each operator as a step."""
    time_s_C = prices.time_s_CO[:, 0]
    computes_C = prices.code_CO[:, 0] == BOUND_COMPUTE
    return StepEnergy(
        time_s_C,
        np.where(computes_C, time_s_C, 0.0),
        np.where(computes_C, prices.bound_s_CO[:, 0], 0.0),
        prices.chip_energy_j_CO[:, 0],
        prices.memory_energy_j_CO[:, 0],
    )


def _too_low(device: Device, limit_w: float, lowest_w: float) -> InvalidSpecError:
    name = "power_cap_w" if limit_w <= device.tdp_w else "device.tdp"
    return InvalidSpecError(
        f"{name} = {min(limit_w, device.tdp_w):g} W cannot be kept: at the lowest clock,"
        f" {lowest_clock():g} of the sustained one, {device.name} draws {lowest_w:.1f} W for this"
        f" kernel; set {name} to {math.ceil(lowest_w)} W or more"
    )


def _unmeasured(limit_w: float) -> InvalidSpecError:
    return InvalidSpecError(
        f"power_cap_w = {limit_w:g} W needs measured kernels: the clock under a power limit follows"
        " from a model, so that a roofline time at that clock is no lower limit; leave power_cap_w"
        " out, or choose a device and a tier with measured kernels"
    )


def limits_w(inputs: Sequence[OperatorInputs]) -> FloatArray:
    """Return the power limits of queries, infinite for none (C,) [W].

    Args:
        inputs: The queries (C).
    """
    limit_w_C = number_columns(inputs, CLOCKS)["power_cap_w"]
    return np.where(np.isnan(limit_w_C), np.inf, limit_w_C)
