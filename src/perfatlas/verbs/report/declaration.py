"""What `report` adds to perfatlas: its command."""

from __future__ import annotations

from typing import Final

from perfatlas.declarations import Command, Declaration

DECLARATION: Final = Declaration(
    commands=(
        Command(
            name="report",
            help="Report of saved answers and runs of sweep, as an HTML page or Markdown.",
            run="command:report",
            needs="answers that --json wrote, or runs",
        ),
    ),
    functions=("write_report",),
)
