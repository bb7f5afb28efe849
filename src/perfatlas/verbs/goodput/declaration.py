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
            row="rows:goodput_row",
        ),
        Command(
            name="goodput spares",
            help="Availability of a job with spare nodes, or the number of spares for a target.",
            run="command:spares",
            example=(
                "goodput spares --nodes 2048 --node-mtbf-s 1.3e7 --repair-s 86400 --target 0.999"
            ),
            row="rows:spares_row",
        ),
        Command(
            name="goodput domains",
            help="Share of domains that work while some GPUs are out: blast radius, k of n.",
            run="command:domains",
            example="goodput domains --domain-size 72 --unavailability 0.001",
            row="rows:domains_row",
        ),
        Command(
            name="goodput stragglers",
            help="Cost of waiting for the slowest GPU in a synchronous step.",
            run="command:stragglers",
            example="goodput stragglers --gpus 16384 --persistent-cv 0.01",
            row="rows:stragglers_row",
        ),
    ),
    functions=(
        "FleetRun",
        "StrategyFrontier",
        "goodput",
        "goodput_domains",
        "goodput_frontier",
        "goodput_spares",
        "goodput_stragglers",
    ),
)
