"""What is known of one kernel on one target; None where it is not known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Counts = Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Instructions:
    """Instructions of a kernel, or of one of its loops.

    Args:
        count: All of them.
        mix: Number of each operation, without modifiers.
        mma: Number of each matrix instruction, with its shape and types where the assembly has
            them.
        local_loads: Loads from local memory, where spills are.
        local_stores: Stores to local memory.
    """

    count: int = 0
    mix: Counts = field(default_factory=dict)
    mma: Counts = field(default_factory=dict)
    local_loads: int = 0
    local_stores: int = 0


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One kernel.

    Args:
        function: Its name.
        target: Such as sm_90 or gfx942.
        registers: Vector registers of a thread; with accumulation registers on AMD GPUs.
        accumulation_registers: Part of `registers` (AGPRs) on AMD GPUs.
        stack_bytes: Local memory of a thread [bytes].
        spills_bytes: Bytes that a thread spills; where only the stack is known, that of the stack,
            which also holds local arrays.
        shared_memory_bytes: Shared memory of a block [bytes].
        shared_is_static: Whether dynamic shared memory is not in it.
        tensor_memory_columns: Columns of tensor memory of a block.
        threads: Threads of a block, or the most that it may have.
        parameter_bytes: Parameters [bytes].
        instructions: All instructions.
        main_loop: Those of the loop with the most matrix instructions, or else the longest.
        loops: Number of loops.
        tma: Copies of tensors by TMA.
        setmaxnreg: Instructions that move registers between warps.
        asks_specialization: Whether the source asks for warp specialization.
        asks_scaled_mma: Whether the source multiplies block-scaled formats.
        asks_mma: Whether the source multiplies matrices.
    """

    function: str
    target: str
    registers: int | None = None
    accumulation_registers: int | None = None
    stack_bytes: int | None = None
    spills_bytes: int | None = None
    shared_memory_bytes: int | None = None
    shared_is_static: bool = True
    tensor_memory_columns: int | None = None
    threads: int | None = None
    parameter_bytes: int | None = None
    instructions: Instructions | None = None
    main_loop: Instructions | None = None
    loops: int | None = None
    tma: int | None = None
    setmaxnreg: int | None = None
    asks_specialization: bool = False
    asks_scaled_mma: bool = False
    asks_mma: bool = False
