"""What `memory_read` adds to perfatlas: its commands and the names of its interface."""

from __future__ import annotations

from typing import Final

from perfatlas.declarations import Command, Declaration

DECLARATION: Final = Declaration(
    commands=(
        Command(
            name="memory_read",
            help="Time to read bytes from the memory of one device.",
            run="command:memory_read",
            example="memory_read --system h200_sxm --bytes 1GB",
        ),
    ),
    functions=("memory_read",),
)
