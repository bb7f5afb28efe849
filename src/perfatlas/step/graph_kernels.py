"""Kernels of an engine that runs graphs, which an SM limits where memory bandwidth would not.

Attention kernels, of vision encoders too, pad heads to the widths for which they are compiled.

Shape legend: C candidates, O operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.networks import ENCODER, graphs
from perfatlas.operators import ACTIVATION_BYTES, Attention, Gemm, Streaming, with_fields
from perfatlas.pricing import scaled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.engines import EngineProfile, GraphKernels
    from perfatlas.machines import DeviceColumns
    from perfatlas.operators import FloatArray, Operator
    from perfatlas.pricing import PricedOperators


_EFFICIENCY: Final = "efficiency_bandwidth"
_GRADIENT: Final = "_gradient"
_BLOCKS: Final = 2.0  # thread blocks of an SM that reduce rows at once
# Head widths of FlashAttention, with which engines run vision encoders
# Source: Dao-AILab/flash-attention hopper/flash_api.cpp, round_up_headdim; from 64 to 128,
# csrc/flash_attn/src has the same
_FLASH_ATTENTION: Final = (64, 96, 128, 192, 256)


def with_product_kernels(
    operators: Sequence[Operator], profile: EngineProfile
) -> tuple[Operator, ...]:
    """Return the operators, with the format whose kernels run products of others.

    Args:
        profile: `product_kernels` names its source.
    """
    lent = profile.product_kernels
    return tuple(
        with_fields(op, kernel_format=lent[op.format].value)
        if isinstance(op, Gemm) and op.format in lent
        else op
        for op in operators
    )


def with_graph_kernels(
    prices: PricedOperators,
    operators: Sequence[Operator],
    profile: EngineProfile,
    devices: DeviceColumns,
    *,
    alone: bool = False,
) -> PricedOperators:
    """Return prices with the times that the engine's norms, pooling and attention take.

    Args:
        operators: Operators of a step (O).
        profile: `graph_kernels` names its source.
        devices: Device of each candidate.
        alone: Whether each runs again and again, and not in a pass.

    Limits: Rates are of all shapes. Rows of a graph that were not stated take no clocks of their
        own.
    """
    kernels = profile.graph_kernels
    if kernels is None:
        return prices
    clock_hz_C = np.array([device.boost_clock_hz for device in devices.devices])[devices.index_C]
    clock_hz_C = clock_hz_C * devices.clock_ratio()
    cycles_per_s_C = devices.gather("sm_count") * clock_hz_C
    least_s_CO = np.zeros_like(prices.time_s_CO)
    for index, operator in enumerate(operators):
        time_s_C = prices.time_s_CO[:, index]
        if isinstance(operator, Streaming):
            moved_C, each_C = _moved_bytes(operator), np.maximum(operator.row_bytes, 1.0)
            own_C = np.where(
                operator.row_bytes > 0.0, _rate(operator, kernels.row_cycles, 0.0), 0.0
            )
            rates, rows_C = kernels.bytes_per_cycle, operator.row_bytes
            without = _rate(operator, rates)  # such as a batch norm after a convolution
            forward = operator.stream.removesuffix(_GRADIENT)
            long = rates.get(operator.stream, rates.get(forward, without))
            short = kernels.short_row_bytes_per_cycle.get(forward, long)
            longest = kernels.short_row.get(forward, 0) * graphs.ROW_PASSES * ACTIVATION_BYTES
            rate_C: FloatArray = np.where(
                rows_C > 0.0, np.where(rows_C <= longest, short, long), without
            )
            cycles_C = moved_C / rate_C + own_C * moved_C / each_C
            row_s_C = operator.row_bytes / _rate(operator, kernels.row_bytes_per_cycle) / clock_hz_C
            looked_up = operator.gathers / _rate(operator, kernels.gathers_per_cycle)
            block_s_C = _block_s(operator, kernels, devices.gather("sm_count"), clock_hz_C)
            again_s_C = _repeated_s(operator, prices, index, devices)
            least_s_CO[:, index] = np.maximum.reduce(
                [
                    cycles_C / cycles_per_s_C,
                    looked_up / cycles_per_s_C,
                    block_s_C,
                    time_s_C + row_s_C + again_s_C,
                ]
            )
        elif isinstance(operator, Attention):
            padded = _padded(operator.head_dim, kernels.head_dims)
            least_s_CO[:, index] = time_s_C * padded
    taken_CO = np.where(prices.time_s_CO > 0.0, prices.time_s_CO, 1.0)  # ranks of one exchange none
    slower_CO = np.fmax(least_s_CO / taken_CO, 1.0)
    if not alone:
        speed_S = np.array([kernels.pass_speed.get(d.architecture, 1.0) for d in devices.devices])
        in_pass_O = np.array([isinstance(op, (Attention, Gemm, Streaming)) for op in operators])
        slower_CO /= np.where(in_pass_O, speed_S[devices.index_C, None], 1.0)
    return scaled(prices, time=np.where(prices.match_CO >= 0, slower_CO, 1.0))


def with_encoder_attention(
    prices: PricedOperators, operators: Sequence[Operator], devices: DeviceColumns
) -> PricedOperators:
    """Return prices with the times of attention in a vision encoder, whose heads GPUs pad.

    Args:
        operators: Operators of a step (O).

    Limits: Kernels of all engines pad as FlashAttention does. Triton kernels pad to powers of two.
    """
    if not any(operator.name.startswith(ENCODER) for operator in operators):
        return prices
    padded_CO = np.ones_like(prices.time_s_CO)
    for index, operator in enumerate(operators):
        if isinstance(operator, Attention) and operator.name.startswith(ENCODER):
            padded_CO[:, index] = _padded(operator.head_dim, _FLASH_ATTENTION)
    on_gpu_S = np.array([device.kind == "gpu" for device in devices.devices])
    padded = (prices.match_CO >= 0) & on_gpu_S[devices.index_C, None]
    return scaled(prices, time=np.where(padded, padded_CO, 1.0))


def _rate(operator: Streaming, rates: Mapping[str, float], unknown: float = np.inf) -> float:
    """Return the rate of a kind and what it follows, of a kind, or a value where none is known.

    A gradient without a rate of its own has that of the forward pass.
    """
    forward = operator.stream.removesuffix(_GRADIENT)
    label = operator.name.rstrip("0123456789").removesuffix("_")
    first = label if forward == operator.stream else operator.stream
    return rates.get(first, rates.get(forward, unknown))


def _block_s(
    operator: Streaming, kernels: GraphKernels, sms_C: FloatArray, clock_hz_C: FloatArray
) -> FloatArray:
    """Return the time of the SM that has most thread blocks of one row each (C,) [s]."""
    rate = _rate(operator, kernels.block_bytes_per_cycle)
    rows_C = _moved_bytes(operator) / np.maximum(operator.row_bytes, 1.0)
    turns_C = np.maximum(np.ceil(rows_C / sms_C) / _BLOCKS, 1.0)
    seconds_C: FloatArray = turns_C * operator.row_bytes / rate / clock_hz_C
    return seconds_C


def _repeated_s(
    operator: Streaming, prices: PricedOperators, column: int, devices: DeviceColumns
) -> FloatArray:
    """Return the time of rows that memory reads again (C,) [s].

    None where all rows that are looked up fit in the L2 cache, which sends them again.
    """
    again_C: FloatArray = operator.gathers * operator.row_bytes - operator.cold_read_bytes
    again_C = np.where(operator.cold_read_bytes > devices.gather("l2_bytes"), again_C, 0.0)
    if not np.any(again_C):
        return again_C
    fitted = [
        calibration_match.calibration.parameters.get(_EFFICIENCY, 1.0)
        for calibration_match in prices.matches
    ]
    efficiency_C = np.array([*fitted, 1.0])[prices.match_CO[:, column]]
    bandwidth_C = np.array([device.memory_bandwidth for device in devices.devices])[devices.index_C]
    seconds_C: FloatArray = again_C / (efficiency_C * bandwidth_C)
    return seconds_C


def _padded(width_C: FloatArray, widths: Sequence[int]) -> FloatArray:
    """Return the width of the kernel over that of the heads (C,)."""
    places_C = np.searchsorted(widths, width_C)
    return np.append(widths, width_C.max())[places_C] / width_C


def _moved_bytes(operator: Streaming) -> FloatArray:
    """Return what passes through the SMs (C,) [bytes]."""
    once = operator.read_bytes + operator.write_bytes
    inputs = operator.taps * operator.write_bytes + operator.gathers * operator.row_bytes
    return np.maximum(once, inputs)
