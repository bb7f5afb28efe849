"""What `simulate` adds to perfatlas: its commands and the names of its interface."""

from __future__ import annotations

from typing import Final

from perfatlas.declarations import Command, Declaration

DECLARATION: Final = Declaration(
    commands=(
        Command(
            name="simulate",
            help="Simulate traffic through an engine: queueing, tail latency, preemption, goodput.",
            run="command:simulate",
            example=(
                "simulate --model meta-llama/Llama-3.1-8B-Instruct --system h200_sxm "
                "--request-rate 20 --isl 1024 --osl 256"
            ),
            row="answer:simulate_row",
            page="blocks:traffic_page",
        ),
    ),
    functions=(
        "Simulation",
        "max_request_rate",
        "max_sessions",
        "required_replicas",
        "simulate",
    ),
)
