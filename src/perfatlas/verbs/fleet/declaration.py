"""What `fleet` adds to perfatlas: its commands and the names of its interface."""

from __future__ import annotations

from typing import Final

from perfatlas.declarations import Command, Declaration

DECLARATION: Final = Declaration(
    commands=(
        Command(
            name="fleet",
            help="Failure models from cluster logs, and job schedules on a shared cluster.",
        ),
        Command(
            name="fleet import",
            help="Convert logs to a history of failures and repairs.",
            run="command:import_",
            rows="files",
            example="fleet import --format xid kern.log --output history.parquet",
        ),
        Command(
            name="fleet fit",
            help="Fit failure models to histories; write a fleet file and its evidence.",
            run="command:fit",
            page="blocks:fitted_page",
            rows="causes",
            example=(
                "fleet fit history.parquet --nodes 2048 --start 2026-01-01T00:00:00Z --end "
                "2026-04-01T00:00:00Z --output fleet.toml"
            ),
        ),
        Command(
            name="fleet report",
            help="Report on a fleet or a history as an HTML page.",
            run="command:report",
            page="blocks:report_page",
            rows="fleet.causes",
            example="fleet report llama3 --output page.html",
        ),
    ),
    functions=(
        "fleet_fit",
        "fleet_import",
        "fleet_report",
    ),
)
