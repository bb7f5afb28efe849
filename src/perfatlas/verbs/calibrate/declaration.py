"""What `calibrate` adds to perfatlas: its commands and the names of its interface."""

from __future__ import annotations

from typing import Final

from perfatlas.declarations import Command, Declaration

DECLARATION: Final = Declaration(
    commands=(
        Command(
            name="calibrate",
            help="Fit kernel parameters to measurements; write them as TOML.",
            run="command:calibrate",
            needs="the measured tables of the extra silicon, or measured rows of your own",
        ),
    ),
    functions=("calibrate",),
)
