"""What `goodput` adds to perfatlas: its commands and the names of its interface."""

from __future__ import annotations

from typing import Final

from perfatlas.declarations import Command, Declaration

DECLARATION: Final = Declaration(
    commands=(
        Command(
            name="goodput",
            help="Goodput of a job under failures, with checkpoints and spares.",
            run="command:goodput",
            example="goodput --gpus 16384 --mtti-s 11134 --checkpoint-write-s 60 --restart-s 300",
            row="answer:goodput_row",
            is_numbered=True,
            page="blocks:goodput_page",
        ),
        Command(
            name="goodput spares",
            help="Availability of a job with spare nodes, or the number of spares for a target.",
            run="command:spares",
            example=(
                "goodput spares --nodes 2048 --node-mtbf-s 1.3e7 --repair-s 86400 --target 0.999"
            ),
            row="answer:goodput_spares",
            page="blocks:spares_page",
        ),
    ),
    functions=(
        "FleetRun",
        "StrategyFrontier",
        "goodput",
        "goodput_frontier",
        "goodput_spares",
    ),
)
