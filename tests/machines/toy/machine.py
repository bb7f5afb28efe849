"""A statically scheduled machine: the compiler places every instruction, and nothing is cached.

An operator takes the cycles that issuing it takes, and then those of its slower stream: operands
through the arrays, or tensors from and to the on-chip memory.

Shape legend: C candidates, O operators.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfatlas.hardware import Device
from perfatlas.machines import DeviceColumns, Machine, repriced
from perfatlas.operators import (
    BOUND_COMPUTE,
    BOUND_LATENCY,
    BOUND_MEMORY,
    FloatArray,
    Gemm,
    Operator,
)
from perfatlas.pricing import PricedOperators, unpriced

NOTE = (
    "statically scheduled: times are cycles of a schedule without stalls, never compared with"
    " measurements"
)


def price(operators: Sequence[Operator], devices: DeviceColumns) -> PricedOperators:
    """Return the prices of operators at the clock of each candidate (C, O)."""
    shape = (devices.index_C.size, len(operators))
    flop_CO, bytes_CO, compute_s_CO, peak_s_CO = np.zeros((4, *shape))
    clock_C = devices.gather("sustained_clock_hz") * devices.clock_ratio()
    for place, operator in enumerate(operators):
        work = operator.work()
        flop_CO[:, place] = work.flop
        bytes_CO[:, place] = work.cold_bytes + work.activation_bytes
        if np.any(work.flop):
            peak_C = devices.peak_flop_per_s(operator.compute_format)
            peak_s_CO[:, place] = work.flop / peak_C
            compute_s_CO[:, place] = array_cycles(operator, devices) / clock_C
    stream_s_CO = bytes_CO / devices.gather("memory_bandwidth")[:, None]
    issue_s_CO = np.broadcast_to((devices.gather("issue_cycles") / clock_C)[:, None], shape)
    time_s_CO = issue_s_CO + np.maximum(compute_s_CO, stream_s_CO)
    slowest = np.argmax([compute_s_CO, stream_s_CO, issue_s_CO], axis=0)
    codes = np.array([BOUND_COMPUTE, BOUND_MEMORY, BOUND_LATENCY], np.int8)
    return unpriced(
        PricedOperators,
        shape,
        time_s_CO=time_s_CO,
        low_s_CO=np.maximum(peak_s_CO, stream_s_CO),
        high_s_CO=time_s_CO.copy(),
        bound_s_CO=np.maximum(peak_s_CO, stream_s_CO),
        code_CO=codes[slowest],
        flop_CO=flop_CO,
        memory_bytes_CO=bytes_CO,
        chip_bytes_CO=bytes_CO,
        notes=(NOTE,),
    )


def array_cycles(operator: Operator, devices: DeviceColumns) -> FloatArray:
    """Return the cycles in which operands stream through the arrays (C,).

    A product is cut into blocks of weights as wide as an array. Each pass loads one block into
    every array, then streams all rows through it; a format at twice the peak streams two rows per
    cycle. Other arithmetic fills all arrays.
    """
    native_C = devices.gather("array_count") * devices.gather("flop_per_clock_per_array")
    if not isinstance(operator, Gemm):
        return operator.work().flop / (native_C * _rate(operator, devices))
    width_C = devices.gather("array_width")
    blocks_C = np.ceil(operator.k / width_C) * np.ceil(operator.n / width_C)
    passes_C = np.ceil(blocks_C / devices.gather("array_count"))
    cycles_C: FloatArray = passes_C * (width_C + operator.m / _rate(operator, devices))
    return cycles_C


def _rate(operator: Operator, devices: DeviceColumns) -> FloatArray:
    """Return the peak of a format relative to bf16 (C,)."""
    rate_C: FloatArray = devices.peak_flop_per_s(operator.compute_format) / devices.peak_flop_per_s(
        "bf16"
    )
    return rate_C


def communication_share(devices: DeviceColumns, multiprocessors: float) -> FloatArray:
    """Return no share (C,): links are scheduled beside the arrays."""
    del multiprocessors
    return np.zeros(devices.index_C.size)


def issuing_units(device: Device) -> float:
    """Return the arrays of a device."""
    return device.number("array_count")


MACHINE = Machine(
    name="toy",
    gather=repriced(price, price),
    communication_share=communication_share,
    issuing_units=issuing_units,
)
