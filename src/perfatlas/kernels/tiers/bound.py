"""Tier `bound`: the roofline time of an operator on a device.

Shape legend: C candidates, O operators, R rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfatlas.operators import BOUND_COMPUTE, BOUND_LATENCY, BOUND_MEMORY
from perfatlas.pricing import PricedOperators, unpriced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.kernels.devices import DeviceColumns
    from perfatlas.operators import FloatArray, Operator


class BoundTime(NamedTuple):
    """Roofline time of one execution (C,) [s], its limiting resource and the work.

    Args:
        time_s_C: Roofline time (C,) [s].
        code_C: Bound code (C,).
        flop_C: Arithmetic (C,) [FLOP].
        memory_bytes_C: Device memory traffic (C,) [bytes].
        chip_bytes_C: Traffic between last-level cache and SMs (C,) [bytes].
    """

    time_s_C: FloatArray
    code_C: NDArray[np.int8]
    flop_C: FloatArray
    memory_bytes_C: FloatArray
    chip_bytes_C: FloatArray


def bound_time(operator: Operator, devices: DeviceColumns) -> BoundTime:
    """Return a lower bound on the time of any implementation, per candidate.

    Weights and KV cache are read once from device memory; activations take memory time only
    where they do not fit the last-level cache. Arithmetic runs at the dense peak of the format.

    Args:
        operator: Columns over candidates (C,).
        devices: Device and clock of each candidate (C,).

    Returns:
        Time [s], bound code and work, each (C,).

    Source: roofline, Williams, Waterman, Patterson, CACM 52(4), 2009, extended by cache residency.

    Limits: No launch time, tiles or exponentials; no cold measurement is faster.
    """
    work = operator.work()
    spilled = np.where(
        work.activation_bytes > devices.gather("l2_bytes"), work.activation_bytes, 0.0
    )
    memory_bytes = work.cold_bytes + spilled
    chip_bytes = work.cold_bytes + work.activation_bytes
    memory_s = memory_bytes / devices.gather("memory_bandwidth")
    if not np.any(work.flop):
        code = np.full(memory_s.shape, BOUND_MEMORY, np.int8)
        return BoundTime(memory_s, code, work.flop, memory_bytes, chip_bytes)
    compute_s = work.flop / devices.peak_flop_per_s(operator.compute_format)
    code = np.where(compute_s >= memory_s, BOUND_COMPUTE, BOUND_MEMORY).astype(np.int8)
    time_s = np.maximum(compute_s, memory_s)
    return BoundTime(time_s, code, work.flop, memory_bytes, chip_bytes)


def price_at_bound(operators: Sequence[Operator], devices: DeviceColumns) -> PricedOperators:
    """Return the tier-bound prices of operators.

    Args:
        operators: Columns over candidates.
        devices: Device and clock of each candidate (C,).
    """
    bounds = [bound_time(operator, devices) for operator in operators]
    shape = (devices.index_C.size, len(operators))
    bound_CO = np.stack([one.time_s_C for one in bounds], axis=1)
    prices = replace(
        unpriced(PricedOperators, shape),
        time_s_CO=bound_CO.copy(),
        low_s_CO=bound_CO.copy(),
        high_s_CO=bound_CO.copy(),
        bound_s_CO=bound_CO,
        code_CO=np.stack([one.code_C for one in bounds], axis=1),
    )
    for place, one in enumerate(bounds):
        prices.flop_CO[:, place] = one.flop_C
        prices.memory_bytes_CO[:, place] = one.memory_bytes_C
        prices.chip_bytes_CO[:, place] = one.chip_bytes_C
    return prices


def resource_code(code_R: NDArray[np.int8], bound_R: NDArray[np.int8]) -> NDArray[np.int8]:
    """Return the limiting resource of each row, with memory-bound issue time counted as latency.

    A product whose roofline is memory-bound, but which is limited by issuing its tiles, does not
    fill the device: it is latency-bound.

    Args:
        code_R: Limiting resource by the physics, a code of `BOUND_NAMES` (R,).
        bound_R: Limiting resource by the roofline (R,).
    """
    underfilled_R = (code_R == BOUND_COMPUTE) & (bound_R == BOUND_MEMORY)
    return np.where(underfilled_R, BOUND_LATENCY, code_R).astype(np.int8)
