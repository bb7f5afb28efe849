"""Demand of a compiled kernel, counted from its instructions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.formats import get_format
from perfatlas.lab.static import Instructions, limits_of, mma_shape
from perfatlas.lab.tune import loop
from perfatlas.lab.tune.chip import Chip, chip_of, target_of
from perfatlas.lab.tune.products import LANES, WARPGROUP
from perfatlas.quantities import InvalidSpecError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.hardware import Device
    from perfatlas.lab.static import Kernel

WGMMA_ROWS, WGMMA_BYTES = 64, 32  # of operands of wgmma: rows of A, and K of one row
REGISTER_BYTES: Final = 4
# Formats by parts of the names of matrix instructions; 16 bits otherwise
MMA_FORMATS: Final = {
    "nvfp4": ("UTCOMMA", "OMMA", "mxf4"),
    "int8": ("IMMA", "IGMMA", ".s8", ".u8", "i8"),
    "fp8_static": ("QMMA", "QGMMA", "E4M3", "E5M2", "e4m3", "e5m2", "kind::f8", "fp8", "bf8"),
}
WARPGROUP_MMA: Final = ("HGMMA", "QGMMA", "IGMMA", "wgmma")
BLOCK_MMA: Final = ("UTC", "tcgen05")
# Families of kernels, whose times have an interval each
PRODUCTS, SCALED, ATTENTION, STREAMING = (
    *("products", "products with scaled partial sums", "attention", "without matrix instructions"),
)


@dataclass(frozen=True, kw_only=True)
class Launch:
    """What a compiled file does not state of a launch."""

    grid: int  # blocks
    trips: tuple[int, ...] = (1,)  # of the loops around the main loop, outermost first, and its own
    flop: float | None = None  # of the launch, where instructions do not state it (tcgen05)
    memory_bytes: float | None = None  # of device memory


def object_chip(kernel: Kernel, device: Device) -> Chip:
    """Return a device in the format of the matrix instructions of a kernel.

    Raises:
        UnsupportedError: The device runs code of another target.
    """
    target = target_of(device)
    if kernel.target != target:
        raise UnsupportedError(
            f"{kernel.function} is code for {kernel.target}, and {device.name} runs {target}: set a"
            f" system that runs {kernel.target}, or compile the source for {target}"
        )
    names = " ".join((kernel.instructions or Instructions()).mma)
    found = (name for name, parts in MMA_FORMATS.items() if any(part in names for part in parts))
    return chip_of(device, get_format(next(found, "bf16")))


def family_of(kernel: Kernel) -> str:
    """Return the family of a kernel, by the instructions of its main loop."""
    main = kernel.main_loop or Instructions()
    if not main.mma:
        return STREAMING
    if main.work.get("special"):
        return ATTENTION
    return SCALED if main.work.get("fp32") else PRODUCTS


def counted_demand(
    kernel: Kernel, chip: Chip, launch: Launch, *, filled: float = 1.0
) -> loop.Demand:
    """Return what a compiled kernel asks of a chip.

    A step is an iteration of the main loop. A tile is what lies between two runs of that loop: an
    iteration of the loop around it, or a block. Without a loop the whole kernel is one step.

    Args:
        kernel: With its instructions.
        chip: Where.
        launch: Blocks and trips.
        filled: Share of the rows of a tile that are not masked: masked lanes load nothing.

    Raises:
        InvalidSpecError: Instructions, threads or FLOP are not known.

    Source:
        Rates of a multiprocessor are those of designs; PTX ISA (wgmma reads 64 rows of A and all
        of B from shared memory), CUDA Binary Utilities and AMD ISA guides for instructions.

    Limits:
        Branches count as taken. Bank conflicts, uncoalesced accesses and hits in L1 are not seen.
        Loops beside the main loop run once, but copies of warps with another role run along; their
        other work is not counted. TF32 counts at the rate of 16 bits.
    """
    c, everything, limits = chip.loop, kernel.instructions, limits_of(kernel.target)
    if everything is None or limits is None or not kernel.threads:
        missing = (
            "instructions: install nvdisasm" if everything is None else "threads: set --threads"
        )
        raise InvalidSpecError(f"the time of {kernel.function} needs its {missing}")
    main, around = kernel.main_loop or everything, kernel.around or everything
    warps, work = kernel.threads / chip.lanes, dict(main.work)
    rest = {name: around.work[name] - main.work.get(name, 0) for name in around.work}
    if kernel.setmaxnreg and main.mma:  # warps have roles: groups of warps with an equal loop each
        loops = kernel.loops or ()
        equal = sum(one.mma == main.mma and one.count == main.count for one in loops)
        warps = min(warps, WARPGROUP * max(equal, 1))
        copies = [one.work.get("tensor_copy", 0) for one in loops if not one.mma]
        work.setdefault("tensor_copy", max(copies, default=0))
    threads = warps * chip.lanes
    tiles, steps = launch.grid * math.prod(launch.trips[:-1]), launch.trips[-1]

    flop = operands = 0.0
    for name, count in main.mma.items():
        shape, by_group = mma_shape(name), name.startswith(WARPGROUP_MMA)
        if shape is None and launch.flop is None:
            raise InvalidSpecError(
                f"{name} of {kernel.function} does not state its shape; set --flop"
            )
        issued = count * (warps / WARPGROUP if by_group else warps)
        flop += issued * 2.0 * math.prod(shape or (0,))
        if shape and by_group:
            operands += issued * (WGMMA_ROWS + shape[1]) * WGMMA_BYTES / 2
    flop = launch.flop / (tiles * steps) if launch.flop is not None else flop
    own = any(name.startswith((*WARPGROUP_MMA, *BLOCK_MMA)) for name in main.mma)
    efficiency = c["scaled_efficiency"] if family_of(kernel) == SCALED else 1.0
    rate = (chip.mma_flop if own else chip.warp_mma_flop) * c["mma_efficiency"] * efficiency
    tensor = flop / rate

    copied, by_threads = work.get("tensor_copy", 0), work.get("copy_to_shared", 0) * threads
    moved = (work.get("shared_load", 0) + work.get("shared_store", 0)) * threads
    shared = (operands + moved + copied + by_threads) / LANES
    vector = _vector_cycles(work, threads, chip)
    loaded = (by_threads + work.get("global_load", 0) * threads) * filled
    loaded += (main.local_loads + main.local_stores) * REGISTER_BYTES * threads
    copy_rate = c["tensor_copy_bytes"] if chip.asynchronous_rows else chip.l2_bytes
    from_l2 = loaded / chip.l2_bytes + copied / copy_rate

    few_warps, special = WARPGROUP / min(warps, WARPGROUP), work.get("special", 0)
    power, waits = c["overlap_power"], c["sync_cycles"] + c["warp_cycles"] * warps
    if not main.mma:
        chain = c["sync_cycles"] * work.get("barrier", 0) + vector * few_warps
    elif not own:  # operands pass registers before each product
        chain = waits + (shared / 2 + vector + tensor) * few_warps
    elif special:  # exponentials between products; groups of warps take turns
        together = (tensor**power + vector**power) ** (1 / power)
        chain = waits + (together if kernel.setmaxnreg else tensor + vector) * few_warps
    else:  # asynchronous instructions run while their block waits at barriers
        chain = (tensor**power + waits**power) ** (1 / power) + vector * few_warps
    if kernel.main_loop is None:
        stored = main.work.get("global_store", 0) * threads
    else:  # tensor copies store what threads wrote to shared memory
        stored = (rest.get("global_store", 0) or rest.get("shared_store", 0)) * threads * filled
        stored += _vector_cycles(rest, threads, chip) * c["store_bytes_per_cycle"]
    cycles = {
        loop.TENSOR: tensor,
        loop.SHARED: shared,
        loop.VECTOR: vector,
        loop.ISSUE: main.count * warps / limits.partitions,
        loop.L2: from_l2,
    }
    return loop.Demand(
        tiles_D=np.array([float(tiles)]),
        steps_D=np.array([float(steps)]),
        unit_cycles_D={unit: np.array([one]) for unit, one in cycles.items()},
        chain_cycles_D=np.array([chain]),
        ahead_D=np.array([_steps_ahead(kernel, main, rest, copied + by_threads)]),
        tile_cycles_D=np.array([c["tile_cycles"] if main.mma else c["block_cycles"]]),
        store_bytes_D=np.array([stored]),
        memory_bytes_D=np.array([launch.memory_bytes or 0.0]),
        threads_D=np.array([float(kernel.threads)]),
        registers_D=np.array([float(kernel.registers or 1)]),
        shared_bytes_D=np.array([float(kernel.shared_memory_bytes or 0)]),
        hides_loads_D=np.array([own and copied > 0 and by_threads == 0 and not special]),
        alternates=bool(special) and bool(main.mma) and steps > 1,
        fixed_s=c["launch_s"],
    )


def _vector_cycles(work: Mapping[str, int], threads: float, chip: Chip) -> float:
    """Return the cycles of an SM that FP32, conversions and special functions of threads take."""
    return threads * (
        work.get("fp32", 0) / LANES
        + work.get("conversion", 0) / chip.loop["conversions_per_cycle"]
        + work.get("special", 0) / chip.exponentials
    )


def _steps_ahead(
    kernel: Kernel, main: Instructions, rest: Mapping[str, int], step_bytes: float
) -> float:
    """Return the steps for which operands are on their way: copies ahead of the loop over its own.

    Warps of another role copy as far ahead as shared memory holds. What passes registers on its
    way to shared memory is on its way for a step less.
    """
    copies = [name for name in ("copy_to_shared", "tensor_copy") if main.work.get(name)]
    if copies:
        return float(min(rest.get(name, 0) // main.work[name] for name in copies))
    if kernel.setmaxnreg and step_bytes and kernel.instructions:
        kept = kernel.instructions.work.get("tensor_copy", 0) - step_bytes  # once, such as queries
        stages = ((kernel.shared_memory_bytes or 0) - max(kept, 0)) // step_bytes
        return float(max(stages - 1, 1))
    if main.work.get("global_load") and main.work.get("shared_store"):
        return float(max(rest.get("global_load", 0) // main.work["global_load"] - 1, 0))
    return 0.0 if main.mma else 1.0
