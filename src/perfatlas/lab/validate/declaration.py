"""What `validate` adds to perfatlas: its commands and the names of its interface."""

from __future__ import annotations

from typing import Final

from perfatlas.declarations import Command, Declaration

TABLES: Final = "the measured tables of perfatlas[silicon]"

DECLARATION: Final = Declaration(
    commands=(
        Command(
            name="validate",
            help=(
                "Compare predictions with measurements; exit code 7 if an error budget is exceeded."
            ),
        ),
        Command(
            name="validate kernels",
            help="Operators against measured tables.",
            run="command:kernels",
            needs=TABLES,
        ),
        Command(
            name="validate collectives",
            help="Collectives against measured tables.",
            run="command:collectives",
            needs=TABLES,
        ),
        Command(
            name="validate measured",
            help="Tier measured against rows held out of its tables.",
            run="measured_command:measured",
            needs=TABLES,
        ),
        Command(
            name="validate blocks",
            help="Sums of operators against measured attention blocks.",
            run="command:blocks",
            needs=TABLES,
        ),
        Command(
            name="validate capacity",
            help="KV cache capacity against engine logs.",
            run="command:capacity",
        ),
        Command(
            name="validate steps",
            help="Serving estimates against measured serving.",
            run="command:steps",
        ),
        Command(
            name="validate sources",
            help="Steps of other laboratories against intervals fitted to all others.",
            run="sources_command:sources",
            needs=TABLES,
        ),
        Command(
            name="validate published",
            help="Widely known figures, and kernels of other laboratories.",
            run="published_command:published",
            needs=TABLES,
        ),
        Command(
            name="validate outside",
            help="Published measurements of all scales that nothing is fitted to.",
            run="outside_command:outside",
            needs=TABLES,
        ),
        Command(
            name="validate devices",
            help="Devices priced as if they had no tables, and ratios of unchanged plans.",
            run="devices_command:devices",
            needs=TABLES,
        ),
        Command(
            name="validate plans",
            help="The predicted best of published serving deployments against the measured best.",
            run="command:plans",
            needs=TABLES,
        ),
        Command(
            name="validate power",
            help="Power of kernels and served models against measured watts.",
            run="power_command:power",
            needs=TABLES,
        ),
        Command(
            name="validate training",
            help="Training steps against published runs.",
            run="training.command:training",
        ),
        Command(
            name="validate fleet",
            help="The job simulator against closed forms and published figures.",
            run="fleet_command:fleet",
        ),
        Command(
            name="validate serving",
            help="Estimates against your benchmarks, or simulated traffic against engine runs.",
            run="serving_command:serving",
        ),
    ),
)
