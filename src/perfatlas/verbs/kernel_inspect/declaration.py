"""What `kernel inspect` adds to perfatlas: its command, a part of perfatlas-lab."""

from __future__ import annotations

from typing import Final

from perfatlas.declarations import Command, Declaration

DECLARATION: Final = Declaration(
    commands=(
        Command(
            name="kernel inspect",
            help="Registers, instructions and occupancy of a compiled kernel, without a GPU.",
            run="command:inspect",
            needs="a cubin, PTX, AMD assembly, CUDA C++ or Triton file, or a kernel of perfatlas",
        ),
    ),
    functions=("kernel_inspect",),
)
