"""Prices in tier bound of machines whose memory software manages.

Shape legend: C candidates, O operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfatlas.operators import BOUND_COMPUTE, BOUND_MEMORY
from perfatlas.pricing import PricedOperators, unpriced

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfatlas.machines.contract.devices import DeviceColumns
    from perfatlas.operators import FloatArray, Operator

    Traffic = Callable[[FloatArray, FloatArray, DeviceColumns], FloatArray]


def managed_roofline(
    operators: Sequence[Operator], devices: DeviceColumns, traffic: Traffic
) -> PricedOperators:
    """Return prices in tier bound: memory at its bandwidth, or arithmetic at its peak (C, O).

    Args:
        operators: Columns over candidates (O).
        devices: Device and clock of each candidate (C,).
        traffic: (cold bytes, activation bytes, devices): bytes to and from memory (C, O).

    Raises:
        UnsupportedError: A device does not multiply in a format.

    Source: roofline, Williams, Waterman, Patterson, CACM 52(4), 2009.
    """
    shape = (devices.index_C.size, len(operators))
    flop_CO, cold_CO, activation_CO, compute_s_CO = np.zeros((4, *shape))
    for index, operator in enumerate(operators):
        work = operator.work()
        flop_CO[:, index] = work.flop
        cold_CO[:, index] = work.cold_bytes
        activation_CO[:, index] = work.activation_bytes
        if np.any(work.flop):
            compute_s_CO[:, index] = work.flop / devices.peak_flop_per_s(operator.compute_format)
    memory_bytes_CO = traffic(cold_CO, activation_CO, devices)
    memory_s_CO = memory_bytes_CO / devices.gather("memory_bandwidth")[:, None]
    bound_s_CO = np.maximum(compute_s_CO, memory_s_CO)
    return unpriced(
        PricedOperators,
        shape,
        time_s_CO=bound_s_CO.copy(),
        low_s_CO=bound_s_CO.copy(),
        high_s_CO=bound_s_CO.copy(),
        bound_s_CO=bound_s_CO,
        code_CO=np.where(compute_s_CO >= memory_s_CO, BOUND_COMPUTE, BOUND_MEMORY).astype(np.int8),
        flop_CO=flop_CO,
        memory_bytes_CO=memory_bytes_CO,
        chip_bytes_CO=cold_CO + activation_CO,
    )
