"""Kernels of libraries for analytics and scientific computing: passes, accesses, products."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas import operators
from perfatlas.machines.gpu.declarations import KernelShape, OperatorKernels, kernel_time, named
from perfatlas.operators import BOUND_COMPUTE, BOUND_LATENCY, BOUND_MEMORY

if TYPE_CHECKING:
    from perfatlas.machines.gpu.declarations import CalibrationKey, Columns
    from perfatlas.machines.gpu.devices import SiliconRow

HOT_SHARPNESS: Final = 4.0  # of the transition when the data of a pass exceed the cache


class LibraryShape(NamedTuple):
    """Shape columns of a call, as `operators.LibraryKernel` has them."""

    flop: float
    cold_bytes: float
    moved_bytes: float
    items: float
    gathers: float
    table_bytes: float
    launches: float


class LibraryParameters(NamedTuple):
    """Fitted parameters of an algorithm; those that it does not need are 1, 0 or infinite."""

    overhead_launch_s: float  # each kernel that waits for the one before
    efficiency_bandwidth: float  # fraction of the memory bandwidth
    efficiency_compute: float  # fraction of the dense peak
    cycles_per_item: float  # of one SM, for each element of each pass
    cycles_per_byte: float  # of one SM, for what a pass reads and writes
    cycles_per_gather: float  # of one SM, for each random access
    miss_bytes: float  # loaded for an access that misses the cache: a sector, or its share of one


@kernel_time(LibraryShape, LibraryParameters)
def library_time_s(
    shape: LibraryShape, silicon: SiliconRow, parameters: LibraryParameters
) -> tuple[float, int]:
    """Return the time of a call [s] and its bound code.

    Source:
        Own model: kernels that follow each other, and the longest of what memory moves, what SMs
        process and what they multiply. Passes after the first find in the last-level cache what
        fits there, and random accesses miss it as far as their table exceeds it.

    Limits:
        One parameter set for all devices, of keys that are spread evenly: repeated keys collide in
        atomics and hash tables.
    """
    hot = 1.0 / (1.0 + (shape.cold_bytes / silicon.l2) ** HOT_SHARPNESS)
    streamed = shape.cold_bytes + (1.0 - hot) * max(shape.moved_bytes - shape.cold_bytes, 0.0)
    misses = shape.gathers * max(1.0 - silicon.l2 / max(shape.table_bytes, 1.0), 0.0)
    streamed += misses * parameters.miss_bytes
    memory_s = streamed / (parameters.efficiency_bandwidth * silicon.bandwidth)
    cycles = shape.items * parameters.cycles_per_item
    cycles += shape.moved_bytes * parameters.cycles_per_byte
    cycles += shape.gathers * parameters.cycles_per_gather
    processed_s = cycles / (silicon.sm_count * silicon.clock)
    multiplied_s = 0.0
    if shape.flop > 0.0:
        multiplied_s = shape.flop / (parameters.efficiency_compute * silicon.peak)
    launch_s = shape.launches * parameters.overhead_launch_s
    body_s = max(memory_s, processed_s, multiplied_s)
    code = BOUND_MEMORY
    if launch_s > body_s or processed_s == body_s > memory_s:
        code = BOUND_LATENCY
    elif multiplied_s == body_s:
        code = BOUND_COMPUTE
    return launch_s + body_s, code


def _key(operator: operators.LibraryKernel) -> CalibrationKey:
    return "library", (operator.algorithm,)


def _columns(operator: operators.LibraryKernel) -> Columns:
    return named(operator, LibraryShape._fields)


DECLARATIONS: Final = (
    OperatorKernels(
        kind=operators.LibraryKernel,
        calibration_key=_key,
        shape_columns=_columns,
        shapes={"library": KernelShape(split_words="device")},
    ),
)
