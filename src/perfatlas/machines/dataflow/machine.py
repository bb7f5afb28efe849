"""A statically scheduled machine: the compiler places every datum and instruction.

Nothing is cached and nothing waits for another, so that an operator takes its slowest stream: all
its bytes from SRAM, all its bytes over the streams, weights and keys into the matrix units,
arithmetic, or elements through the vector units. It begins when the one before has left its last
result, and fills the pipeline first.

Shape legend: C candidates, O operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.machines import contract
from perfatlas.measurements.calibrations import SYNCHRONISATION, find_schedules
from perfatlas.operators import (
    ACTIVATION_BYTES,
    BOUND_COMPUTE,
    BOUND_LATENCY,
    BOUND_MEMORY,
    with_fields,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.hardware import Device
    from perfatlas.operators import FloatArray, Operator
    from perfatlas.pricing import PricedOperators

NOTE: Final = (
    "statically scheduled: an operator takes the slowest of SRAM, streams, weight feed (bound:"
    " memory) and arithmetic, after its pipeline fills and chips synchronise (bound: latency);"
    " embedding and head are spread over the chips of all stages"
)


def at_roofline(operators: Sequence[Operator], devices: contract.DeviceColumns) -> PricedOperators:
    """Return prices in tier bound, with SRAM as memory (C, O)."""
    return contract.managed_roofline(
        operators, devices, lambda cold_CO, activation_CO, _: cold_CO + activation_CO
    )


def scheduled(operators: Sequence[Operator], devices: contract.DeviceColumns) -> PricedOperators:
    """Return prices by streams, pipeline fill and synchronisation (C, O).

    A device without a calibration has no synchronisation time, and no upper end.

    Source:
        Abts et al., Think Fast, ISCA 2020, and A software-defined tensor streaming multiprocessor,
        ISCA 2022.

    Limits: One operator runs at a time on a chip: what a compiler overlaps is not modelled.
    """
    prices = at_roofline(operators, devices)
    clock_C1 = (devices.gather("sustained_clock_hz") * devices.clock_ratio())[:, None]
    streams_CO = (
        np.stack([stream_cycles(operator, devices) for operator in operators], axis=1) / clock_C1
    )
    vector_CO = (
        np.stack([vector_cycles(operator, devices) for operator in operators], axis=1) / clock_C1
    )
    moving_CO = np.maximum(np.maximum(prices.bound_s_CO, streams_CO), vector_CO)
    code_CO = np.where(streams_CO > prices.bound_s_CO, BOUND_MEMORY, prices.code_CO)
    code_CO = np.where(vector_CO == moving_CO, BOUND_COMPUTE, code_CO)
    fitted = find_schedules(devices.devices)
    point_s_M = [
        calibration_match.calibration.parameters[SYNCHRONISATION]
        for calibration_match in fitted.matches
    ]
    point_s_D = np.array([*point_s_M, 0.0])[fitted.match_D]  # the last one without a calibration
    points_O = np.array([contract.synchronisations(operator) for operator in operators])
    fill_CO = np.broadcast_to(devices.gather("fill_cycles")[:, None] / clock_C1, moving_CO.shape)
    waits_CO = fill_CO + point_s_D[devices.index_C][:, None] * points_O
    return contract.with_step_errors(
        with_fields(
            prices,
            time_s_CO=waits_CO + moving_CO,
            code_CO=np.where(waits_CO > moving_CO, BOUND_LATENCY, code_CO).astype(np.int8),
            notes=(NOTE,),
        ),
        fitted,
        devices.index_C,
    )


def stream_cycles(operator: Operator, devices: contract.DeviceColumns) -> FloatArray:
    """Return the clocks in which operands pass the streams and the weight feed (C,).

    Everything passes the streams; weights and cached keys and values of products enter the matrix
    units, once for all rows.
    """
    work = operator.work()
    moved_C = (work.cold_bytes + work.activation_bytes) / devices.gather("stream_bytes_per_clock")
    fed_C = work.cold_bytes / devices.gather("feed_bytes_per_clock")
    return np.where(work.flop > 0.0, np.maximum(moved_C, fed_C), moved_C)


def vector_cycles(operator: Operator, devices: contract.DeviceColumns) -> FloatArray:
    """Return the clocks in which elements pass the vector units, 0 for products (C,)."""
    work = operator.work()
    lanes_C = devices.gather("vector_lanes")
    elements_C = work.activation_bytes / ACTIVATION_BYTES
    return np.where(work.flop > 0.0, 0.0, elements_C / lanes_C)


def _communication_share(devices: contract.DeviceColumns, multiprocessors: float) -> FloatArray:
    """Return no share (C,): links are scheduled beside the matrix units."""
    del multiprocessors
    return np.zeros(devices.index_C.size)


def _issuing_units(device: Device) -> float:
    """Return the matrix units of a device."""
    return device.number("matrix_units")


MACHINE: Final = contract.Machine(
    name="dataflow",
    gather=contract.repriced(scheduled, at_roofline),
    communication_share=_communication_share,
    issuing_units=_issuing_units,
    spreads_weights=True,
)
