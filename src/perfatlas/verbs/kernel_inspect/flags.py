"""Flags of `perfatlas kernel inspect`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Parameter

from perfatlas.commands.flags import SWITCH, WITHOUT_NEGATIVE_FLAG, Count, File, changed_flags


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class InspectFlags:
    """What a kernel is compiled for and compared with, and how the answer is written.

    Args:
        target: Target to compile for, such as sm_90 or gfx942; repeat it to compare targets. A
            kernel of perfatlas is compiled for all of its targets by default.
        function: The only kernel to inspect; a part of its name is enough.
        num_warps: Warps per block of a Triton kernel, instead of those its file states.
        num_stages: Pipeline stages of a Triton kernel, instead of those its file states.
        threads: Threads per block, for the occupancy of files that do not state them.
        shared_memory_bytes: Dynamic shared memory per block [bytes], for the occupancy.
        against: Another file whose kernels are shown beside these.
        time: Add the time on a system, from the instructions.
        system: System whose GPU runs the kernel.
        grid: Blocks of the launch.
        trips: Iterations of the main loop, after those of the loops around it, outermost first,
            such as 4,64.
        shape: Sizes of a kernel of perfatlas, such as m=4096,n=4096,k=4096, instead of grid and
            trips: adds the time of its design, and what the compiler loses.
        bytes: Bytes that the launch moves to and from device memory [bytes].
        flop: FLOP of the launch, where its matrix instructions do not state their shape (tcgen05).
        reproducer: Folder to write source, PTX, cubin, commands and versions into.
        verbose: Print all kernels and all instructions.
        json: Print one JSON object.
    """

    target: Annotated[list[str] | None, WITHOUT_NEGATIVE_FLAG] = None
    function: str | None = None
    num_warps: Count | None = None
    num_stages: Count | None = None
    threads: Count | None = None
    shared_memory_bytes: Count | None = None
    against: File | None = None
    time: Annotated[bool, SWITCH] = False
    system: str | None = None
    grid: Count | None = None
    trips: str | None = None
    shape: str | None = None
    bytes: Count | None = None
    flop: float | None = None
    reproducer: File | None = None
    verbose: Annotated[bool, SWITCH] = False
    json: Annotated[bool, SWITCH] = False

    def given(self) -> dict[str, Any]:
        """Return the flags that are set, without those of the output."""
        return {
            name: str(value) if isinstance(value, File) else value
            for name, value in changed_flags(self).items()
            if name not in ("verbose", "json")
        }
