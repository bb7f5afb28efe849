"""What is known of one kernel on one target, and what a compiler made; None is not known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    Counts = Mapping[str, int]


class Line(NamedTuple):
    """An instruction: whether it has a condition, its operation, operands, labels before it."""

    conditional: bool
    operation: str
    operands: str
    labels: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Instructions:
    """Instructions of a kernel, or of one of its loops."""

    count: int = 0
    mix: Counts = field(default_factory=dict)  # by operation, without modifiers
    mma: Counts = field(default_factory=dict)  # matrix instructions, with shape and types
    local_loads: int = 0  # from local memory, where spills are
    local_stores: int = 0
    # by kind: bytes of a thread of loads and stores, of a block of tensor copies; else instructions
    work: Counts = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One kernel on one target."""

    function: str
    target: str  # such as sm_90 or gfx942
    registers: int | None = None  # vector registers of a thread; with AGPRs on AMD GPUs
    accumulation_registers: int | None = None  # AGPRs
    stack_bytes: int | None = None  # local memory of a thread
    spills_bytes: int | None = None  # of a thread; the stack where compilers do not state it
    shared_memory_bytes: int | None = None  # of a block
    shared_memory_is_static: bool = True  # dynamic shared memory is not in it
    tensor_memory_columns: int | None = None  # of a block
    threads: int | None = None  # of a block, or the most it may have
    parameter_bytes: int | None = None
    instructions: Instructions | None = None
    main_loop: Instructions | None = None
    loops: tuple[Instructions, ...] | None = None  # the largest first
    around: Instructions | None = None  # the loop next around the main loop; None without one
    tma: int | None = None  # copies of tensors
    setmaxnreg: int | None = None  # instructions that move registers between warps
    asks_specialization: bool = False  # the source asks for warp specialization,
    asks_scaled_mma: bool = False  # multiplies block-scaled formats,
    asks_mma: bool = False  # multiplies matrices


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """Products of one compilation, or a file that was one; kernels lack instructions of cubins."""

    kernels: list[Kernel]
    command: str = ""  # or call
    versions: Mapping[str, str] = field(default_factory=dict)
    cubins: tuple[bytes, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)  # ptx, ttir, ttgir, amdgcn
    problem: str = ""  # Why it does not compile
