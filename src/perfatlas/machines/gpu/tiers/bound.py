"""Tier `bound`: the roofline time of an operator on a device.

Shape legend: C candidates, O operators, X operators with arithmetic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfatlas.operators import BOUND_COMPUTE, BOUND_MEMORY
from perfatlas.pricing import PricedOperators, unpriced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.machines.contract import DeviceColumns
    from perfatlas.operators import FloatArray, Operator


def price_at_bound(operators: Sequence[Operator], devices: DeviceColumns) -> PricedOperators:
    """Return the tier-bound prices of operators: no implementation is faster.

    Weights and KV cache are read once from device memory, and activations too where they do not
    fit the caches; all bytes pass these, at the highest clock. Arithmetic runs at the dense peak
    of the format, at the highest clock where kernels run above the clock of the datasheet's peak.

    Source: roofline, Williams, Waterman, Patterson, CACM 52(4), 2009, extended by cache residency.

    Limits: No launch time, tiles or exponentials; no cold measurement is faster.
    """
    shape = (devices.index_C.size, len(operators))
    flop_CO, cold_bytes_CO, activation_bytes_CO = np.empty((3, *shape))
    for index, operator in enumerate(operators):
        work = operator.work()
        flop_CO[:, index] = work.flop
        cold_bytes_CO[:, index] = work.cold_bytes
        activation_bytes_CO[:, index] = work.activation_bytes
    cache_C = devices.gather("l2_bytes") + devices.gather("side_cache_bytes")
    spills_CO = activation_bytes_CO > cache_C[:, None]
    memory_bytes_CO = cold_bytes_CO + np.where(spills_CO, activation_bytes_CO, 0.0)
    chip_bytes_CO = cold_bytes_CO + activation_bytes_CO
    memory_s_CO = _memory_s(devices, memory_bytes_CO, chip_bytes_CO)
    bound_CO, code_CO = _roofline(operators, devices, flop_CO, memory_s_CO)
    return unpriced(
        PricedOperators,
        shape,
        time_s_CO=bound_CO.copy(),
        low_s_CO=bound_CO.copy(),
        high_s_CO=bound_CO.copy(),
        bound_s_CO=bound_CO,
        code_CO=code_CO,
        match_CO=np.full(shape, -1, np.int64),
        measured_CO=np.zeros(shape, np.bool_),
        outside_CO=np.zeros(shape),
        flop_CO=flop_CO,
        memory_bytes_CO=memory_bytes_CO,
        chip_bytes_CO=chip_bytes_CO,
    )


def bound_at_clock(
    operators: Sequence[Operator],
    devices: DeviceColumns,
    full: PricedOperators,
    ratio_CO: FloatArray,
) -> tuple[FloatArray, NDArray[np.int8]]:
    """Return the roofline time of operators at other clocks (C, O) [s], and the bounds' codes."""
    memory_s_CO = _memory_s(devices, full.memory_bytes_CO, full.chip_bytes_CO)
    return _roofline(operators, devices, full.flop_CO, memory_s_CO, ratio_CO)


def _memory_s(
    devices: DeviceColumns, memory_bytes_CO: FloatArray, chip_bytes_CO: FloatArray
) -> FloatArray:
    """Return the longer of the times of bytes in memory and in the caches (C, O) [s]."""
    per_clock_C = devices.gather("sm_count") * devices.gather("l2_bytes_per_clock")
    cache_C = per_clock_C * devices.gather("boost_clock_hz")
    memory_s_CO = memory_bytes_CO / devices.gather("memory_bandwidth")[:, None]
    return np.maximum(memory_s_CO, chip_bytes_CO / cache_C[:, None])


def _roofline(
    operators: Sequence[Operator],
    devices: DeviceColumns,
    flop_CO: FloatArray,
    memory_s_CO: FloatArray,
    ratio_CO: FloatArray | None = None,
) -> tuple[FloatArray, NDArray[np.int8]]:
    """Return the roofline time of operators (C, O) [s], and the bounds' codes."""
    bound_CO = memory_s_CO.copy()
    code_CO = np.full(bound_CO.shape, BOUND_MEMORY, np.int8)
    computing = np.flatnonzero(flop_CO.any(axis=0))  # the others need no tensor cores
    if computing.size:
        formats = [operators[index].compute_format for index in computing.tolist()]
        peak_CX = np.stack([devices.peak_flop_per_s(name) for name in formats], axis=1)
        ratio_D = np.array([device.peak_ratio for device in devices.devices])
        peak_CX *= ratio_D[devices.index_C, None]
        if ratio_CO is not None:
            peak_CX = peak_CX * ratio_CO[:, computing]
        compute_s_CX, memory_s_CX = flop_CO[:, computing] / peak_CX, bound_CO[:, computing]
        bound_CO[:, computing] = np.maximum(compute_s_CX, memory_s_CX)
        code_CO[:, computing] = np.where(compute_s_CX >= memory_s_CX, BOUND_COMPUTE, BOUND_MEMORY)
    return bound_CO, code_CO
