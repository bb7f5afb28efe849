"""The tree of verbs; each verb's module is imported when the verb is run."""

from __future__ import annotations

from typing import Final

from cyclopts import App

from perfatlas.version import __version__

HELP: Final = """How fast, why, what if, how sure: deep-learning performance from model to GPU.

Every computing verb takes --json. \
--debug prints the traceback of a defect; --no-color or NO_COLOR=1 turns colours off."""


def _group(name: str, purpose: str, verbs: dict[str, tuple[str, str]]) -> App:
    """Return a verb with sub-verbs: name -> (module:function, what it does)."""
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
    help="Estimate one inference scenario: latency, throughput, memory, and what bounds them.",
)
app.command(
    "perfatlas.verbs.simulate.command:simulate",
    name="simulate",
    help="Simulate traffic through an engine: queues, tails, preemptions, goodput.",
)
app.command(
    "perfatlas.verbs.goodput.command:app",
    name="goodput",
    help="Goodput of a job under failures, with its checkpoints and spares.",
)
app.command(
    _group(
        "fleet",
        "Fleets from a cluster's own logs, explained; many jobs scheduled on one cluster.",
        {
            "import": (
                "verbs.fleet.command:import_",
                "Read logs into one history of failures and repairs.",
            ),
            "fit": (
                "verbs.fleet.command:fit",
                "Fit laws to histories; write a fleet and its evidence.",
            ),
            "schedule": (
                "verbs.schedule.command:schedule",
                "Schedule many jobs on one cluster: waits, GPU time, failures, policies compared.",
            ),
            "report": (
                "verbs.fleet.report_command:report",
                "Explain a fleet or a history on one page.",
            ),
        },
    )
)
app.command(
    _group(
        "kernel",
        "Time one operator on one GPU.",
        {
            "gemm": ("verbs.kernel.command:gemm", "Time a matrix multiplication, (m, k) x (k, n)."),
            "attention": ("verbs.kernel.command:attention", "Time the attention of one layer."),
            "moe": (
                "verbs.kernel.command:moe",
                "Time the expert GEMMs of one mixture-of-experts layer.",
            ),
        },
    )
)
app.command(
    "perfatlas.verbs.collective.command:collective",
    name="collective",
    help="Time a collective or a transfer between GPUs.",
)
app.command(
    "perfatlas.verbs.catalog.command:catalog",
    name="catalog",
    help="List what perfatlas knows, or show one entry with its sources.",
)
app.command(
    "perfatlas.lab.calibrate.command:calibrate",
    name="calibrate",
    help="Fit kernel parameters to measured tables; write them as TOML.",
)
app.command(
    _group(
        "validate",
        "Compare predictions with measurements; exits 7 when an error budget is exceeded.",
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
                "Cache sizes against those engines print.",
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
    help="Print a completion script to load yourself; --install-completion sets it up for good.",
)
app.command(
    "perfatlas.cli.completion:install_completion",
    name="--install-completion",
    help="Install completion for your shell and load it from its start-up file.",
    group="Parameters",
)
