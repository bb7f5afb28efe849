"""What `validate here` adds to perfatlas: its command, a part of perfatlas-lab."""

from __future__ import annotations

from typing import Final

from perfatlas.declarations import Command, Declaration

DECLARATION: Final = Declaration(
    commands=(
        Command(
            name="validate here",
            help="Kernels and transformer steps predicted and measured on this CPU.",
            run="command:here",
            rows="rows",
            needs="PyTorch, of the extra bench of perfatlas-lab",
        ),
    ),
    functions=("validate_here",),
)
