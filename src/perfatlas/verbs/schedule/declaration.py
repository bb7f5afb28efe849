"""What `fleet schedule` adds to perfatlas: its commands and the names of its interface."""

from __future__ import annotations

from typing import Final

from perfatlas.declarations import Command, Declaration

DECLARATION: Final = Declaration(
    commands=(
        Command(
            name="fleet schedule",
            help="Schedule many jobs on a cluster: waits, GPU time, failures, policy comparison.",
            run="command:schedule",
            example="fleet schedule --load 0.9 --nodes 256",
            row="answer:schedule_row",
            is_numbered=True,
            page="blocks:schedule_page",
        ),
    ),
    functions=(
        "FleetSchedule",
        "fleet_schedule",
    ),
)
