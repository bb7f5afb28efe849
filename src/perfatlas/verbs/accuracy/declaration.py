"""What `accuracy` adds to perfatlas: its commands and the names of its interface."""

from __future__ import annotations

from typing import Final

from perfatlas.declarations import Command, Declaration

DECLARATION: Final = Declaration(
    commands=(
        Command(
            name="accuracy",
            help="Change of a benchmark and of perplexity by number formats.",
            run="command:accuracy",
            example="accuracy --model meta-llama/Llama-3.1-8B --gemm-format nvfp4",
            table="answer:accuracy_columns",
            page="blocks:accuracy_page",
        ),
    ),
    functions=("accuracy",),
)
