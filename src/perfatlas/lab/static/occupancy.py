"""How many blocks of a kernel a multiprocessor holds, from the limits of its target."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import shipped_table
from perfatlas.quantities import InvalidSpecError, did_you_mean, repr_for_error

if TYPE_CHECKING:
    from perfatlas.lab.static.kernel import Kernel

LIMITS: Final = "data/kernel_limits.toml"
MAX_THREADS: Final = 1024  # of a block, on every target


@dataclass(frozen=True, kw_only=True)
class TargetLimits:
    """What one multiprocessor holds; registers are those of a lane of a partition."""

    warps: int
    blocks: int
    shared_bytes: int
    shared_unit: int
    partitions: int
    registers: int
    register_unit: int
    lanes: int = 32
    reserved_bytes: int = 0
    tensor_memory_columns: int = 0
    own_mma: str = ""
    older_mma: tuple[str, ...] = ()


def target_names() -> tuple[str, ...]:
    """Return the targets whose limits are known."""
    return tuple(shipped_table(LIMITS)["target"])


def plain_target(target: str) -> str:
    """Return a target without the suffix of its own instructions.

    Args:
        target: One that perfatlas knows.

    Raises:
        InvalidSpecError: The target is unknown.

    Example:
        >>> from perfatlas.lab.static.occupancy import plain_target
        >>> plain_target("sm_90a"), plain_target("gfx942")
        ('sm_90', 'gfx942')
    """
    name = target.rstrip("af") if target.startswith("sm_") else target
    if name in target_names():
        return name
    raise InvalidSpecError(
        f"unknown target {repr_for_error(target)}{did_you_mean(name, target_names())} (known:"
        f" {', '.join(target_names())})"
    )


@cache
def limits_of(target: str) -> TargetLimits | None:
    """Return the limits of a target; None if they are not known.

    Args:
        target: Such as sm_90.
    """
    table = shipped_table(LIMITS)
    if target not in table["target"]:
        return None
    row: dict[str, Any] = table["shared"] | table["target"][target]
    return TargetLimits(**row | {"older_mma": tuple(row.get("older_mma", ()))})


def occupancy_of(kernel: Kernel) -> dict[str, Any] | None:
    """Return the blocks and warps that a multiprocessor holds; None if a figure is missing.

    Registers are given to warps in units, each partition to its own; shared memory to blocks.

    Source:
        cuda_occupancy.h, cudaOccMaxBlocksPerSMRegsLimit and the functions beside it.

    Limits:
        clusters and named barriers are not limits here.

    Example:
        >>> from perfatlas.lab.static.kernel import Kernel
        >>> from perfatlas.lab.static.occupancy import occupancy_of
        >>> facts = {"registers": 128, "threads": 256, "shared_memory_bytes": 98304}
        >>> found = occupancy_of(Kernel(function="gemm", target="sm_90", **facts))
        >>> found["blocks_per_sm"], found["warps_per_sm"], found["limited_by"]
        (2, 16, ['registers', 'shared memory'])
    """
    limits, shared = limits_of(kernel.target), kernel.shared_memory_bytes
    if limits is None or kernel.registers is None or not kernel.threads or shared is None:
        return None
    warps = -(-kernel.threads // limits.lanes)
    lane = -(-max(kernel.registers, 1) // limits.register_unit) * limits.register_unit
    block = -(-(shared + limits.reserved_bytes) // limits.shared_unit) * limits.shared_unit
    blocks_of = {
        "warps": limits.warps // warps,
        "blocks": limits.blocks,
        "registers": limits.registers // lane * limits.partitions // warps,
        "shared memory": limits.shared_bytes // block if block else limits.blocks,
    }
    if kernel.tensor_memory_columns:
        blocks_of["tensor memory"] = limits.tensor_memory_columns // kernel.tensor_memory_columns
    blocks = min(blocks_of.values())
    return {
        "blocks_per_sm": blocks,
        "warps_per_sm": blocks * warps,
        "max_warps_per_sm": limits.warps,
        "share": blocks * warps / limits.warps,
        "limited_by": [name for name, most in blocks_of.items() if most == blocks],
        "upper_limit": kernel.shared_memory_is_static,
    }


def launch_problem(kernel: Kernel) -> str:
    """Return why no multiprocessor holds a block of the kernel; "" where nothing known forbids it.

    Example:
        >>> from perfatlas.lab.static.kernel import Kernel
        >>> from perfatlas.lab.static.occupancy import launch_problem
        >>> launch_problem(Kernel(function="gemm", target="sm_90", threads=2048))
        'does not launch on sm_90: needs 2,048 threads, and a block has at most 1,024'
    """
    limits, threads = limits_of(kernel.target), kernel.threads or 0
    if limits is None:
        return ""
    registers = kernel.registers or 0
    lane = -(-max(registers, 1) // limits.register_unit) * limits.register_unit
    per_thread = f"threads of {registers} registers"
    needs = {
        "threads": (threads, MAX_THREADS),
        per_thread: (threads, limits.registers // lane * limits.partitions * limits.lanes),
        "bytes of shared memory": (
            kernel.shared_memory_bytes or 0,
            limits.shared_bytes - limits.reserved_bytes,
        ),
        "columns of tensor memory": (
            kernel.tensor_memory_columns or 0,
            limits.tensor_memory_columns,
        ),
    }
    above = {thing: pair for thing, pair in needs.items() if pair[0] > pair[1]}
    needed = " and ".join(f"{pair[0]:,} {thing}" for thing, pair in above.items())
    most = " and ".join(f"{pair[1]:,}" for pair in above.values())
    where = f"does not launch on {kernel.target}"
    return f"{where}: needs {needed}, and a block has at most {most}" if above else ""
