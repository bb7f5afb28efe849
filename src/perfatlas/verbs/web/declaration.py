"""What `web` adds to perfatlas: its command."""

from __future__ import annotations

from typing import Final

from perfatlas.declarations import Command, Declaration

DECLARATION: Final = Declaration(
    commands=(
        Command(
            name="web",
            help="Forms, answers and a REST API in a browser, on this machine.",
            run="command:web",
            needs="FastAPI, of the extra web",
        ),
    ),
)
