"""What `sweep` adds to perfatlas: its command and the names of its interface."""

from __future__ import annotations

from typing import Final

from perfatlas.declarations import Command, Declaration

DECLARATION: Final = Declaration(
    commands=(
        Command(
            name="sweep",
            help="Answer a study: a verb over lists, ranges or samples of names and hardware.",
            run="command:sweep",
        ),
    ),
    functions=("Sweep", "sweep"),
)
