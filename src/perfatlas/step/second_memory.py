"""Times and energies of operators that read a part of their bytes from a second memory.

Shape legend: C candidates, O operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.energy import board_energy
from perfatlas.operators import BOUND_MEMORY, KeyReader, with_fields
from perfatlas.pricing import scaled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.machines import DeviceColumns
    from perfatlas.operators import FloatArray, Operator
    from perfatlas.pricing import PricedOperators


ASSUMED: Final = "the second memory is read in place, at its stated bandwidth and beside the first"
PREFETCHED: Final = (
    "weights are fetched from the second memory while earlier layers run; these copies run at its"
    " stated bandwidth"
)


def offloaded_bytes(
    operators: Sequence[Operator], weight_C: FloatArray, kv_C: FloatArray
) -> FloatArray:
    """Return what one execution of each operator moves in the second memory (C, O) [bytes].

    Attention reads the cached keys and values there, and those of new tokens are written there.

    Args:
        weight_C: Share of the weights that is there.
        kv_C: Share of the KV cache that is there.
    """
    none_C = np.zeros_like(weight_C)
    columns = [
        kv_C * with_fields(op, kv_len=op.kv_len + op.q_len).work().cold_bytes
        if isinstance(op, KeyReader)
        else weight_C * op.work().cold_bytes
        if op.weights()
        else none_C
        for op in operators
    ]
    return np.stack(columns, axis=1)


def with_second_memory(
    prices: PricedOperators, second_CO: FloatArray, devices: DeviceColumns
) -> PricedOperators:
    """Return prices of operators that read both memories at once.

    An operator takes the longer of two times: that of the first memory, from which it reads less,
    and that of the second, its bytes over its bandwidth and the latency of a read.

    Args:
        second_CO: As `offloaded_bytes` returns them.

    Source: vllm-project/vllm, cpu_offload_gb: kernels read weights of the host in place, over the
        link; NVIDIA Grace Hopper tuning guide: a GPU reads LPDDR as its own memory.
    Limits: An operator that the first memory bounds takes time in proportion to what it reads
        there. Writes are as fast as reads, and both reach the stated bandwidth. Nothing is fetched
        ahead of the operator that reads it.
    """
    bandwidth_C = _bandwidth(devices)
    reads_CO = second_CO > 0.0
    second_s_CO = np.where(
        reads_CO,
        second_CO / bandwidth_C[:, None] + devices.gather("second_memory_latency_s")[:, None],
        0.0,
    )
    left_CO = 1.0 - second_CO / np.maximum(prices.memory_bytes_CO, np.maximum(second_CO, 1.0))
    first_CO = np.where(reads_CO & (prices.code_CO == BOUND_MEMORY), left_CO, 1.0)
    taken_CO = np.where(prices.time_s_CO > 0.0, prices.time_s_CO, 1.0)
    slower = scaled(prices, time=np.maximum(first_CO, second_s_CO / taken_CO))
    return with_fields(
        slower,
        notes=(*prices.notes, *([ASSUMED] if reads_CO.any() else [])),
        bound_s_CO=np.maximum(prices.bound_s_CO * first_CO, second_s_CO),
        code_CO=np.where(second_s_CO >= slower.time_s_CO, np.int8(BOUND_MEMORY), prices.code_CO),
        memory_bytes_CO=np.maximum(prices.memory_bytes_CO - second_CO, 0.0),
    )


def with_prefetched_weights(
    prices: PricedOperators,
    count_CO: FloatArray,
    fetched_CO: FloatArray,
    devices: DeviceColumns,
    *,
    contends: bool,
) -> PricedOperators:
    """Return prices of operators that wait for weights which are fetched ahead of them.

    Copies from the second memory run beside a whole step, so that it takes the longer of both;
    operators wait in proportion to what is fetched for them.

    Args:
        count_CO: Executions of each operator of the step.
        fetched_CO: Bytes that are fetched for one execution.
        contends: Whether the copies take a part of the bandwidth of the first memory.

    Source: vllm-project/vllm, model_executor/offloader/prefetch.py: layers ahead are copied on a
        stream of their own while the GPU computes, to buffers of a layer.
    Limits: Copies never wait for buffers, and those of the first layers run at the end of the step
        before.
    """
    total_C = np.maximum((count_CO * fetched_CO).sum(axis=1), 1.0)
    fetch_s_C = np.where(
        fetched_CO.any(axis=1),
        total_C / _bandwidth(devices) + devices.gather("second_memory_latency_s"),
        0.0,
    )
    written_s_C = total_C / devices.gather("memory_bandwidth") * (contends and fetch_s_C > 0.0)

    def waits_of(each_s_CO: FloatArray, least_s_C: FloatArray | float) -> FloatArray:
        left_s_C = np.maximum(fetch_s_C - (count_CO * each_s_CO).sum(axis=1), least_s_C)
        waits: FloatArray = left_s_C[:, None] * fetched_CO / total_C[:, None]
        return waits

    waited_CO = waits_of(prices.time_s_CO, written_s_C)
    taken_CO = np.where(prices.time_s_CO > 0.0, prices.time_s_CO, 1.0)
    slower = scaled(prices, time=1.0 + waited_CO / taken_CO)
    return with_fields(
        slower,
        notes=(*prices.notes, *([PREFETCHED] if fetched_CO.any() else [])),
        bound_s_CO=prices.bound_s_CO + waits_of(prices.bound_s_CO, 0.0),
        code_CO=np.where(waited_CO > taken_CO, np.int8(BOUND_MEMORY), prices.code_CO),
        memory_bytes_CO=prices.memory_bytes_CO + fetched_CO,
    )


def _bandwidth(devices: DeviceColumns) -> FloatArray:
    """Return the bandwidth of the second memory, that of the host link where none is stated."""
    stated_C = devices.gather("second_memory_bandwidth")
    return np.where(stated_C > 0.0, stated_C, devices.gather("host_link_bandwidth"))


def with_second_energy(
    prices: PricedOperators, second_CO: FloatArray, devices: DeviceColumns
) -> PricedOperators:
    """Return prices with the energy of what operators read from the second memory.

    Args:
        prices: With the energy of what they read from the first.
        second_CO: As `offloaded_bytes` returns them.
    """
    stated = devices.gather("second_memory_j_per_byte")
    first_D = np.array([board_energy(device).memory_j_per_byte for device in devices.devices])
    each_C = np.where(stated > 0.0, stated, first_D[devices.index_C])
    return with_fields(
        prices, memory_energy_j_CO=prices.memory_energy_j_CO + each_C[:, None] * second_CO
    )
