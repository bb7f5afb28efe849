"""What `runs` adds to perfatlas: its commands."""

from __future__ import annotations

from typing import Final

from perfatlas.declarations import Command, Declaration

DECLARATION: Final = Declaration(
    commands=(
        Command(name="runs", help="Runs of sweep: list, show, export, delete."),
        Command(
            name="runs list",
            help="List all runs, the latest first.",
            run="command:list_runs",
            rows="runs",
        ),
        Command(
            name="runs show",
            help="Show the study of a run, with versions and hashes, and its summary.",
            run="command:show",
        ),
        Command(
            name="runs export",
            help="Write all rows of a run to a CSV, Parquet or JSON Lines file.",
            run="command:export",
        ),
        Command(
            name="runs rm",
            help="Delete runs.",
            run="command:rm",
        ),
    ),
    functions=(
        "runs_export",
        "runs_list",
        "runs_rm",
        "runs_show",
    ),
)
