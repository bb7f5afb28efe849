"""A GPU as a tuner sees it: what a block may hold, and the rates of one multiprocessor."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import shipped_table
from perfatlas.lab.static import limits_of
from perfatlas.quantities import UnsupportedError

if TYPE_CHECKING:
    from perfatlas.formats import Format
    from perfatlas.hardware import Device

DATA: Final = "data/tuning.toml"
SIXTEEN_BITS: Final = 2.0  # bytes


@dataclass(frozen=True, kw_only=True)
class Chip:
    """One device in one number format; rates are per cycle of an SM (CU of AMD GPUs)."""

    name: str
    target: str  # of compilers
    sm_count: int
    clock_hz: float  # Clock that kernels hold
    mma_flop: float  # FLOP per cycle of its fastest MMA instructions in the format
    warp_mma_flop: float  # The same of the instructions of one warp
    asynchronous_rows: int  # Least rows of wgmma or tcgen05; 0 without them
    converts: bool  # Whether tiles of few rows convert the format to 16 bits first
    tensor_memory_columns: int
    exponentials: float
    l2_bytes: float  # Bytes from L2 per cycle of an SM
    l2_capacity_bytes: float
    shared_bytes: int  # Shared memory of an SM
    reserved_bytes: int  # Of it, for each block
    max_warps: int
    max_blocks: int
    lanes: int
    registers: int  # of an SM, 32 bits each
    thread_registers: int  # Largest number of a thread
    memory_bytes_per_s: float
    loop: dict[str, float]  # Constants of main loops

    @property
    def block_shared_bytes(self) -> int:
        """Shared memory that one block may have."""
        return self.shared_bytes - self.reserved_bytes


@cache
def constants() -> dict[str, float]:
    """Return the constants of main loops, by name."""
    return {name: float(row["value"]) for name, row in shipped_table(DATA)["loop"].items()}


@cache
def rank_error(kernel: str, target: str) -> dict[str, float] | None:
    """Return the standard deviations of ln(time) between designs: of tiles, and within one.

    None for a kernel whose ranks were not scored.

    Args:
        kernel: As `kernel tune` names it.
        target: Such as sm_90.
    """
    row = shipped_table(DATA)["rank_error"].get(kernel)
    if row is None:
        return None
    tile = row["tile_gfx" if target.startswith("gfx") else "tile"]
    return {"tile": float(tile["value"]), "within": float(row["within"]["value"])}


def target_of(device: Device) -> str:
    """Return the compiler's target of a device.

    Raises:
        UnsupportedError: No target has the architecture.
    """
    if device.kind != "gpu":
        raise UnsupportedError(
            f"kernel tune tunes kernels of GPUs, and {device.name} is none; use kernel gemm or"
            " kernel op"
        )
    rows: list[dict[str, Any]] = [
        row
        for row in shipped_table(DATA)["architecture"]
        if device.architecture in row["architectures"]
    ]
    if not rows:
        known = sorted(
            {one for row in shipped_table(DATA)["architecture"] for one in row["architectures"]}
        )
        raise UnsupportedError(
            f"kernel tune knows the kernels of {', '.join(known)}, and {device.name} is"
            f" {device.architecture}; use a GPU of these"
        )
    shared = device.number("shared_memory_bytes")
    shared_of = {
        row["target"]: getattr(limits_of(row["target"]), "shared_bytes", 0) for row in rows
    }
    nearest = min(rows, key=lambda row: abs(shared_of[row["target"]] - shared))
    return str(nearest["target"])


def chip_of(device: Device, number_format: Format, loop: dict[str, float] | None = None) -> Chip:
    """Return a device in a format.

    Args:
        device: A GPU, real or on a data sheet: its own SMs, clocks and memories count.
        number_format: Format of the products.
        loop: Constants of main loops, by default those that ship.

    Raises:
        UnsupportedError: The device has no peak of the format, or its kernels are not known.
    """
    target = target_of(device)
    row = next(row for row in shipped_table(DATA)["architecture"] if row["target"] == target)
    limits: Any = limits_of(target)  # which the table has for all targets
    loop = loop or constants() | row.get("loop", {})
    peaks = device.peak_flop_per_s
    name = number_format.tensor_peak
    if name not in peaks and not number_format.substitute_peak:
        raise UnsupportedError(
            f"{device.name} has no {name} tensor cores; use one of {', '.join(peaks)}"
        )
    peak = peaks.get(name) or peaks[number_format.substitute_peak]
    half = peaks.get("bf16") or peaks.get("fp16")
    if not half:
        raise UnsupportedError(
            f"{device.name} has no peak of bf16 or fp16, which kernels of tensor cores need; set"
            " device.peak.bf16, or use kernel gemm"
        )
    per_cycle, rows = device.number("flop_per_clock_per_sm"), row["asynchronous_rows"]
    own = per_cycle * peak / half
    return Chip(
        name=device.name,
        target=target,
        sm_count=int(device.number("sm_count")),
        clock_hz=min(device.sustained_clock_hz, device.boost_clock_hz) * loop["clock_share"],
        mma_flop=own,
        warp_mma_flop=min(row["warp_mma_flop"], per_cycle) if rows else own,
        asynchronous_rows=rows,
        converts=bool(rows) and number_format.activation_bytes < SIXTEEN_BITS,
        tensor_memory_columns=limits.tensor_memory_columns,
        exponentials=device.number("exponentials_per_sm_clock"),
        l2_bytes=device.number("l2_bytes_per_clock") * loop["l2_efficiency"],
        l2_capacity_bytes=device.number("l2_bytes") + device.number("side_cache_bytes"),
        shared_bytes=int(device.number("shared_memory_bytes")),
        reserved_bytes=limits.reserved_bytes,
        max_warps=limits.warps,
        max_blocks=limits.blocks,
        lanes=limits.lanes,
        registers=limits.registers * limits.partitions * limits.lanes,
        thread_registers=min(limits.registers, row["thread_registers"]),
        memory_bytes_per_s=device.memory_bandwidth,
        loop=loop,
    )
