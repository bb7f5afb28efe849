"""Bandwidth-limited passes: norm, activation, quantize, embedding, rope, copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas import operators
from perfatlas.machines.gpu.declarations import KernelShape, OperatorKernels, kernel_time
from perfatlas.operators import BOUND_LATENCY, BOUND_MEMORY

if TYPE_CHECKING:
    from perfatlas.machines.gpu.declarations import CalibrationKey, Columns
    from perfatlas.machines.gpu.devices import SiliconRow


class StreamingShape(NamedTuple):
    """Shape columns of a pass."""

    bytes: float  # read and written, including the cold ones
    cold_bytes: float  # tables and cache rows that are never in the last-level cache
    tokens: float  # rows; a thread block processes one row at a time


class StreamingParameters(NamedTuple):
    """Fitted parameters of a pass."""

    overhead_launch_s: float
    efficiency_bandwidth: float  # fraction of the memory bandwidth
    cache_speedup: float  # last-level cache bandwidth relative to memory bandwidth
    l2_fraction: float  # fraction of the L2 in which a pass finds its data
    row_bytes_per_cycle: float  # bandwidth of one SM for one row


HOT_SHARPNESS: Final = 4.0  # sharpness of the transition when a pass exceeds the cache


@kernel_time(StreamingShape, StreamingParameters)
def streaming_time_s(
    shape: StreamingShape, silicon: SiliconRow, parameters: StreamingParameters
) -> tuple[float, int]:
    """Return the time of a pass [s] and its bound code.

    Source:
        Own model: launch time, plus the longer of the memory traffic (activations that fit the
        last-level cache come from there) and the rows of one SM; fitted on measured
        quantization passes.

    Limits:
        One parameter set for all passes of a kernel family: a norm is priced like the measured
        elementwise pass.
    """
    launch_s = parameters.overhead_launch_s
    activation_bytes = shape.bytes - shape.cold_bytes
    ratio = activation_bytes / (parameters.l2_fraction * silicon.l2)
    hot = 1.0 / (1.0 + ratio**HOT_SHARPNESS)
    rate = parameters.efficiency_bandwidth * silicon.bandwidth
    warm_bytes = activation_bytes * (1.0 - hot + hot / parameters.cache_speedup)
    memory_s = (shape.cold_bytes + warm_bytes) / rate
    rows_per_sm = max(shape.tokens / silicon.sm_count, 1.0)
    row_bytes = shape.bytes / max(shape.tokens, 1.0)
    row_s = rows_per_sm * row_bytes / (parameters.row_bytes_per_cycle * silicon.clock)
    body_s = max(memory_s, row_s)
    return launch_s + body_s, BOUND_LATENCY if launch_s > body_s else BOUND_MEMORY


def _key(_: operators.Streaming) -> CalibrationKey:
    return "streaming", ("bf16",)


def _columns(operator: operators.Streaming) -> Columns:
    return {
        "bytes": operator.read_bytes + operator.write_bytes + operator.cold_read_bytes,
        "cold_bytes": operator.cold_read_bytes,
        "tokens": operator.tokens,
    }


DECLARATIONS: Final = (
    OperatorKernels(
        kind=operators.Streaming,
        calibration_key=_key,
        shape_columns=_columns,
        shapes={"streaming": KernelShape(split_words="row length")},
    ),
)
