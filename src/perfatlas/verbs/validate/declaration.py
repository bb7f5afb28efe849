"""What `validate` adds to perfatlas: its commands and the names of its interface."""

from __future__ import annotations

from typing import Final

from perfatlas.declarations import Command, Declaration

DECLARATION: Final = Declaration(
    commands=(
        Command(
            name="validate",
            help=(
                "Compare predictions with your own measurements; the scores of perfatlas itself"
                " are computed by `make validate` in a clone of its repository."
            ),
        ),
        Command(
            name="validate serving",
            help="Estimates against your benchmarks.",
            run="command:serving",
        ),
    ),
)
