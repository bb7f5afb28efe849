"""What `validate` adds to perfatlas: its commands and the names of its interface."""

from __future__ import annotations

from typing import Final

from perfatlas.declarations import Command, Declaration

DECLARATION: Final = Declaration(
    commands=(
        Command(
            name="validate",
            help="Compare predictions with your own measurements.",
            note=(
                "The scores of perfatlas itself are computed in a clone of its repository, one by"
                " `python -m validation NAME`, all by `make validate`."
            ),
        ),
        Command(
            name="validate serving",
            help="Estimates against your benchmarks.",
            run="command:serving",
            page="blocks:benchmark_page",
            rows="runs",
        ),
    ),
    functions=("validate_serving",),
)
