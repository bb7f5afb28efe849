"""Kernels of an engine that runs graphs, which an SM limits where memory bandwidth would not.

Shape legend: C candidates, O operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfatlas.operators import Attention, Streaming
from perfatlas.pricing import scaled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.engines import EngineProfile
    from perfatlas.machines import DeviceColumns
    from perfatlas.operators import FloatArray, Operator
    from perfatlas.pricing import PricedOperators


def with_graph_kernels(
    prices: PricedOperators,
    operators: Sequence[Operator],
    profile: EngineProfile,
    devices: DeviceColumns,
) -> PricedOperators:
    """Return prices with the times that the engine's norms, pooling and attention take.

    Args:
        operators: Operators of a step (O).
        profile: `graph_kernels` names its source.
        devices: Device of each candidate.

    Limits: A rate for all shapes: short rows of a norm take longer.
    """
    if profile.graph_kernels is None:
        return prices
    cycles_per_s = [one.number("sm_count") * one.boost_clock_hz for one in devices.devices]
    cycles_per_s_C = np.array(cycles_per_s)[devices.index_C] * devices.clock_ratio()
    least_s_CO = np.zeros_like(prices.time_s_CO)
    for place, operator in enumerate(operators):
        if isinstance(operator, Streaming):
            rate = _rate(operator, profile.graph_kernels.bytes_per_cycle)
            least_s_CO[:, place] = _moved_bytes(operator) / rate / cycles_per_s_C
        elif isinstance(operator, Attention):
            padded = _padded(operator.head_dim, profile.graph_kernels.head_dims)
            least_s_CO[:, place] = prices.time_s_CO[:, place] * padded
    slower_CO = np.fmax(least_s_CO / prices.time_s_CO, 1.0)
    return scaled(prices, time=np.where(prices.match_CO >= 0, slower_CO, 1.0))


def _rate(operator: Streaming, rates: Mapping[str, float]) -> float:
    """Return the most bytes of an operator per clock and SM, infinite where none is known."""
    label = operator.name.rstrip("0123456789").removesuffix("_")
    return rates.get(label, rates.get(operator.stream, np.inf))


def _padded(width_C: FloatArray, widths: Sequence[int]) -> FloatArray:
    """Return the width of the kernel over that of the heads (C,)."""
    places_C = np.searchsorted(widths, width_C)
    return np.append(widths, width_C.max())[places_C] / width_C


def _moved_bytes(operator: Streaming) -> FloatArray:
    """Return what passes through the SMs (C,) [bytes]."""
    once = operator.read_bytes + operator.write_bytes
    return np.maximum(once, operator.taps * operator.write_bytes)
