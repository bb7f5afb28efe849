"""Time of a bandwidth-limited pass: norm, activation, quantize, embedding, rope, copy.

Shape legend: U unique shapes, D shape dimensions, S silicon fields, P parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.compiled import compiled
from perfatlas.machines.gpu.devices import BANDWIDTH, CLOCK, L2, SM_COUNT
from perfatlas.operators import BOUND_LATENCY, BOUND_MEMORY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray

STREAMING_SHAPE: Final = (
    "bytes",  # read and written, including the cold ones
    "cold_bytes",  # tables and cache rows that are never in the last-level cache
    "tokens",  # rows; a thread block processes one row at a time
)

STREAMING_PARAMETERS: Final = (
    "overhead_launch_s",
    "efficiency_bandwidth",  # fraction of the memory bandwidth
    "cache_speedup",  # last-level cache bandwidth relative to memory bandwidth
    "l2_fraction",  # fraction of the L2 in which a pass finds its data
    "row_bytes_per_cycle",  # bandwidth of one SM for one row
)
HOT_SHARPNESS: Final = 4.0  # sharpness of the transition when a pass exceeds the cache


def streaming_time_s(
    shape_UD: FloatArray, silicon_US: FloatArray, parameters_UP: FloatArray
) -> tuple[FloatArray, NDArray[np.int8]]:
    """Return the time of each pass and its bound code.

    Args:
        shape_UD: Columns of STREAMING_SHAPE (U, D).
        silicon_US: Columns of `machines.gpu.devices.silicon` (U, S).
        parameters_UP: Columns of STREAMING_PARAMETERS (U, P).

    Returns:
        time_s (U,) and bound codes (U,).

    Source:
        Own model: launch time, plus the longer of the memory traffic (activations that fit the
        last-level cache come from there) and the rows of one SM; fitted on measured
        quantization passes.

    Limits:
        One parameter set for all passes of a kernel family: a norm is priced like the measured
        elementwise pass.
    """
    count = shape_UD.shape[0]
    time_s, bound = np.empty(count), np.empty(count, np.int8)
    _streaming(shape_UD, silicon_US, parameters_UP, time_s, bound)
    return time_s, bound


@compiled
def _streaming(
    shape_UD: FloatArray,
    silicon_US: FloatArray,
    parameters_UP: FloatArray,
    time_s: FloatArray,
    bound: NDArray[np.int8],
) -> None:
    for unit in range(shape_UD.shape[0]):
        shape, silicon, parameters = shape_UD[unit], silicon_US[unit], parameters_UP[unit]
        activation = shape[0] - shape[1]
        ratio = activation / (parameters[3] * silicon[L2])
        hot = 1.0 / (1.0 + ratio**HOT_SHARPNESS)
        rate = parameters[1] * silicon[BANDWIDTH]
        memory_s = (shape[1] + activation * (1.0 - hot + hot / parameters[2])) / rate
        rows_per_sm = max(shape[2] / silicon[SM_COUNT], 1.0)
        row_bytes = shape[0] / max(shape[2], 1.0)
        row_s = rows_per_sm * row_bytes / (parameters[4] * silicon[CLOCK])
        body_s = max(memory_s, row_s)
        time_s[unit] = parameters[0] + body_s
        bound[unit] = BOUND_LATENCY if parameters[0] > body_s else BOUND_MEMORY
