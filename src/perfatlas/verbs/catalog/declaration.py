"""What `catalog` adds to perfatlas: its commands and the names of its interface."""

from __future__ import annotations

from typing import Final

from perfatlas.declarations import Command, Declaration

DECLARATION: Final = Declaration(
    commands=(
        Command(
            name="catalog",
            help="List catalogs, or show one entry with its sources.",
            run="command:catalog",
        ),
    ),
    functions=("catalog", "models", "systems"),
)
