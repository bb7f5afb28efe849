"""What `sweep` adds to perfatlas: its command and the names of its interface."""

from __future__ import annotations

from typing import Final

from perfatlas.declarations import Command, Declaration

DECLARATION: Final = Declaration(
    commands=(
        Command(
            name="sweep",
            help="Run a command over lists, ranges or samples of its fields and of hardware.",
            run="command:sweep",
            example="sweep hbm",
            page="blocks:sweep_page",
        ),
    ),
    functions=("Sweep", "sweep"),
)
