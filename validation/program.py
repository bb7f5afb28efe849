"""`python -m validation`: compare perfatlas with measurements; 7 if an error budget is exceeded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cyclopts import App

from perfatlas.cli import main as run_program
from perfatlas.declarations import Command

if TYPE_CHECKING:
    from collections.abc import Sequence

TABLES: Final = "the measured tables of the extra silicon"
COMMANDS: Final = (
    Command(
        name="kernels",
        help="Operators against measured tables.",
        run="commands.command:kernels",
        needs=TABLES,
    ),
    Command(
        name="collectives",
        help="Collectives against measured tables.",
        run="commands.command:collectives",
        needs=TABLES,
    ),
    Command(
        name="measured",
        help="Tier measured against rows held out of its tables.",
        run="kernels.measured_command:measured",
        needs=TABLES,
    ),
    Command(
        name="blocks",
        help="Sums of operators against measured attention blocks.",
        run="commands.command:blocks",
        needs=TABLES,
    ),
    Command(
        name="capacity",
        help="KV cache capacity against engine logs.",
        run="commands.command:capacity",
    ),
    Command(
        name="fabrics",
        help="Collectives against published runs of machines of no fit.",
        run="commands.fabrics:fabrics",
    ),
    Command(
        name="steps",
        help="Serving estimates against measured serving.",
        run="commands.command:steps",
    ),
    Command(
        name="traffic",
        help="Simulated traffic against public engine runs; takes minutes.",
        run="serving.traffic_command:traffic",
    ),
    Command(
        name="agentic",
        help="Simulated agent sessions and long prompts against published runs; takes minutes.",
        run="serving.agentic_command:agentic",
    ),
    Command(
        name="machines",
        help="Decode steps of statically scheduled machines against published speeds.",
        run="machines.command:machines",
    ),
    Command(
        name="amd",
        help="Products and services of AMD GPUs against published speeds.",
        run="machines.command:amd",
    ),
    Command(
        name="tpu",
        help="Training steps and services on TPUs against published ones.",
        run="machines.command:tpu",
    ),
    Command(
        name="networks",
        help="Vision, diffusion and encoder networks against published speeds and power.",
        run="networks.command:networks",
    ),
    Command(
        name="classes",
        help="Parameters of every config class of the installed transformers.",
        run="networks.classes:classes",
    ),
    Command(
        name="accelerators",
        help="Services on Gaudi, Trainium and Inferentia against published ones.",
        run="machines.command:accelerators",
    ),
    Command(
        name="sources",
        help="Steps of other laboratories against intervals fitted to all others.",
        run="serving.sources_command:sources",
        needs=TABLES,
    ),
    Command(
        name="published",
        help="Widely known figures, and kernels of other laboratories.",
        run="kernels.published_command:published",
        needs=TABLES,
    ),
    Command(
        name="kernel-errors",
        help="Kernels known to be predicted badly against times measured elsewhere.",
        run="kernels.errors_command:kernel_errors",
    ),
    Command(
        name="design",
        help="Pipeline models of kernels against published speeds left out of their fit.",
        run="kernels.design_command:design",
    ),
    Command(
        name="libraries",
        help="Calls of libraries for analytics and scientific computing against published times.",
        run="kernels.libraries_command:libraries",
    ),
    Command(
        name="tuning",
        help="Designs of kernels against shipped configurations, winners and exhaustive tunings.",
        run="kernels.tuning_command:tuning",
    ),
    Command(
        name="outside",
        help="Published measurements of all scales that nothing is fitted to.",
        run="serving.outside_command:outside",
        needs=TABLES,
    ),
    Command(
        name="devices",
        help="Devices priced as if they had no tables, and ratios of unchanged plans.",
        run="kernels.devices_command:devices",
        needs=TABLES,
    ),
    Command(
        name="objects",
        help="Times of compiled kernels, from their instructions, against measured ones.",
        run="kernels.objects_command:objects",
        needs="Triton",
    ),
    Command(
        name="plans",
        help="The predicted best of published serving deployments against the measured best.",
        run="commands.command:plans",
        needs=TABLES,
    ),
    Command(
        name="power",
        help="Power of kernels and served models against measured watts.",
        run="power.command:power",
        needs=TABLES,
    ),
    Command(
        name="swings",
        help="Power of nodes and jobs over time against readings and published swings.",
        run="power.swings_command:swings",
    ),
    Command(
        name="energies",
        help="Fit energies per event to measured watts of sustained loads.",
        run="power.fit_command:energies",
    ),
    Command(
        name="accuracy",
        help="Published changes of accuracy by number formats against those of other families.",
        run="accuracy.command:accuracy",
    ),
    Command(
        name="cost",
        help="Costs of tokens, ownership, dies and chips against published ones.",
        run="cost.command:cost",
    ),
    Command(
        name="training",
        help="Training steps against published runs.",
        run="training.command:training",
    ),
    Command(
        name="fleet",
        help="The job simulator against closed forms.",
        run="fleet.command:fleet",
    ),
)


def tree() -> App:
    """Return the tree of commands; the module of a command is imported when it runs."""
    app = App(
        name="validation",
        help=__doc__,
        version_flags=(),
        help_format="plaintext",
        result_action="return_value",
        suppress_keyboard_interrupt=False,
    )
    for row in COMMANDS:
        app.command(f"validation.{row.run}", name=row.name, help=row.line)
    return app


def main(words: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code, as `perfatlas` does.

    Args:
        words: The arguments after `python -m validation`; by default those of the process.
    """
    return run_program(words, tree)
