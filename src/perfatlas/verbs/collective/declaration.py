"""What `collective` adds to perfatlas: its commands and the names of its interface."""

from __future__ import annotations

from typing import Final

from perfatlas.declarations import Command, Declaration

DECLARATION: Final = Declaration(
    commands=(
        Command(
            name="collective",
            help="Time of a collective or a transfer between GPUs.",
            run="command:collective",
            example="collective --system h200_sxm --op all_reduce --bytes 1MB --gpus 8",
            table="answer:collective_columns",
            lists=True,
            page="blocks:collective_page",
        ),
    ),
    functions=("collective",),
)
