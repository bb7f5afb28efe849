"""What `compare` adds to perfatlas: its commands and the names of its interface."""

from __future__ import annotations

from typing import Final

from perfatlas.declarations import Command, Declaration

DECLARATION: Final = Declaration(
    commands=(
        Command(
            name="compare",
            help="Estimates side by side, and which operators make the difference.",
            run="command:compare",
            page="blocks:comparison_page",
            rows="rows",
            example=(
                "compare --model meta-llama/Llama-3.1-8B-Instruct --system h100_sxm"
                " --systems h200_sxm --batch 32 --pue 1.3 --usd-per-kwh 0.08 --gco2-per-kwh 400"
                " --benchmark mmlu"
            ),
        ),
    ),
    functions=("compare",),
)
