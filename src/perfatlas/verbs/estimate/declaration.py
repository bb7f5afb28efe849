"""What `estimate` adds to perfatlas: its commands and the names of its interface."""

from __future__ import annotations

from typing import Final

from perfatlas.declarations import Command, Declaration

DECLARATION: Final = Declaration(
    commands=(
        Command(
            name="estimate",
            help="Estimate one inference scenario: latency, throughput, memory, bottlenecks.",
            run="command:estimate",
            example=(
                "estimate --model meta-llama/Llama-3.1-70B-Instruct --system h200_sxm --gpus 8 "
                "--batch 64 --isl 2048 --osl 512"
            ),
            table="answer:estimate_table",
            page="blocks:estimate_page",
        ),
    ),
    functions=(
        "Frontier",
        "TableAnswer",
        "estimate",
        "estimate_table",
        "explain",
        "frontier",
    ),
)
