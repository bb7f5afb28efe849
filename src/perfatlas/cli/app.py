"""The tree of commands; the module of a command is imported when it runs."""

from __future__ import annotations

from typing import Final

from cyclopts import App

from perfatlas.version import __version__

HELP: Final = """Performance, bottlenecks and reliability of deep-learning systems.

All computing commands accept --json. \
--debug prints the traceback of an internal error; --no-color or NO_COLOR=1 disables colors."""


def _group(name: str, purpose: str, verbs: dict[str, tuple[str, str]]) -> App:
    """Return a command with subcommands: name -> (module:function, description)."""
    group = App(name=name, help=purpose, help_format="plaintext", version_flags=())
    for verb, (target, verb_purpose) in verbs.items():
        group.command(f"perfatlas.{target}", name=verb, help=verb_purpose)
    return group


app: Final = App(
    name="perfatlas",
    help=HELP,
    version=__version__,
    help_format="plaintext",
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)
app.command(
    "perfatlas.verbs.estimate.command:estimate",
    name="estimate",
    help="Estimate one inference scenario: latency, throughput, memory, bottlenecks.",
)
app.command(
    "perfatlas.verbs.simulate.command:simulate",
    name="simulate",
    help="Simulate traffic through an engine: queueing, tail latency, preemption, goodput.",
)
app.command(
    "perfatlas.verbs.goodput.command:app",
    name="goodput",
    help="Goodput of a job under failures, with checkpoints and spares.",
)
app.command(
    _group(
        "fleet",
        "Failure models from cluster logs, and job schedules on a shared cluster.",
        {
            "import": (
                "verbs.fleet.command:import_",
                "Convert logs to a history of failures and repairs.",
            ),
            "fit": (
                "verbs.fleet.command:fit",
                "Fit failure models to histories; write a fleet file and its evidence.",
            ),
            "schedule": (
                "verbs.schedule.command:schedule",
                "Schedule many jobs on a cluster: waits, GPU time, failures, policy comparison.",
            ),
            "report": (
                "verbs.fleet.report_command:report",
                "Report on a fleet or a history as an HTML page.",
            ),
        },
    )
)
app.command(
    _group(
        "kernel",
        "Time of one operator on one GPU.",
        {
            "gemm": ("verbs.kernel.command:gemm", "Time of a GEMM, (m, k) x (k, n)."),
            "attention": ("verbs.kernel.command:attention", "Time of the attention of one layer."),
            "moe": (
                "verbs.kernel.command:moe",
                "Time of the expert GEMMs of one MoE layer.",
            ),
        },
    )
)
app.command(
    "perfatlas.verbs.collective.command:collective",
    name="collective",
    help="Time of a collective or a transfer between GPUs.",
)
app.command(
    "perfatlas.verbs.catalog.command:catalog",
    name="catalog",
    help="List catalogs, or show one entry with its sources.",
)
app.command(
    "perfatlas.lab.calibrate.command:calibrate",
    name="calibrate",
    help="Fit kernel parameters to measurements; write them as TOML.",
)
app.command(
    _group(
        "validate",
        "Compare predictions with measurements; exit code 7 if an error budget is exceeded.",
        {
            "kernels": ("lab.validate.command:kernels", "Operators against measured tables."),
            "collectives": (
                "lab.validate.command:collectives",
                "Collectives against measured tables.",
            ),
            "measured": (
                "lab.validate.measured_command:measured",
                "Tier measured against rows held out of its tables.",
            ),
            "blocks": (
                "lab.validate.command:blocks",
                "Sums of operators against measured attention blocks.",
            ),
            "capacity": (
                "lab.validate.command:capacity",
                "KV cache capacity against engine logs.",
            ),
            "steps": ("lab.validate.command:steps", "Serving estimates against measured serving."),
            "fleet": (
                "lab.validate.fleet_command:fleet",
                "The job simulator against closed forms and published figures.",
            ),
            "serving": (
                "lab.validate.serving_command:serving",
                "Estimates against your benchmarks, or simulated traffic against engine runs.",
            ),
        },
    )
)
app.command(
    "perfatlas.cli.completion:completion",
    name="completion",
    help="Print a shell completion script; --install-completion installs it.",
)
app.command(
    "perfatlas.cli.completion:install_completion",
    name="--install-completion",
    help="Install shell completion and load it from the shell's startup file.",
    group="Parameters",
)
