"""What `fleet plan` adds to perfatlas: its command and the names of its interface."""

from __future__ import annotations

from typing import Final

from perfatlas.declarations import Command, Declaration

DECLARATION: Final = Declaration(
    commands=(
        Command(
            name="fleet plan",
            help="Plan a fleet over years: what to buy, rent and retire when, at least cost.",
            run="command:plan",
            example="fleet plan llama_70b_service",
            page="blocks:plan_page",
        ),
    ),
    functions=("FleetPlan", "fleet_plan"),
)
