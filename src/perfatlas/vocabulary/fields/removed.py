"""Names that perfatlas no longer has, and what takes their place."""

from __future__ import annotations

from typing import Final

_EVENTS: Final = (
    "write its events as a table with start_s, recovered_s, component, cause, kind, node and"
    " device, and use --format table"
)
_LIFETIMES: Final = (
    *("lifetimes", "age", "failed", "entry", "time-unit", "where", "survival-at", "law"),
    *("component", "repair-s", "start-ages"),
)
_JOBS: Final = "write its jobs as a table with submit_s, run_s and gpus"
REMOVED: Final = {
    "goodput domains": "goodput --fleet simulates domains: parts_per_unit and parts_needed",
    "goodput stragglers": 'a fleet has slow GPUs: a cause with effect = "slows"',
    **dict.fromkeys(
        (f"fleet fit --{name}" for name in _LIFETIMES),
        "fit ages with a library for survival analysis and write the law into the fleet file, or"
        " give a history and --service-start",
    ),
    **dict.fromkeys(
        (f"fleet import --{name}" for name in ("scraped", "rules", "tolerance-s")),
        "leave it out; --format table reads events of any source from a table",
    ),
    "fleet import --format sacct_json": "write the log with sacct -P and use --format sacct",
    "fleet import --format slurm_nodes": (
        "write the log with sacctmgr -P show event and use --format slurm_events"
    ),
    "fleet import --format dcgm": "use --format xid on kernel logs; or " + _EVENTS,
    "fleet import --format nvsentinel": _EVENTS,
    "fleet import --format node_problem_detector": "use --format kubernetes; or " + _EVENTS,
    "fleet import --format torchrun": "use --format sacct or kubernetes; or " + _EVENTS,
    "fleet import --format jobs": _EVENTS,
    "fleet import --format ml_goodput": _EVENTS,
    "fleet schedule --job-format sacct_json": "write the log with sacct -P and use sacct",
    "fleet schedule --job-format philly": _JOBS,
    "fleet schedule --job-format helios": _JOBS,
    "fleet schedule --job-format acme": _JOBS,
    "fleet schedule --job-format alibaba_gpu_v2020": _JOBS,
    "kernel elementwise --op": (
        "name the operator as in perfatlas kernel elementwise activation; norms and embeddings are"
        " perfatlas kernel norm and perfatlas kernel embedding"
    ),
    "op = 'norm'": "use perfatlas kernel norm",
    "op = 'embedding'": "use perfatlas kernel embedding",
    "method = 'latin_hypercube'": 'use method = "sobol"',
    "runs compare": "runs export writes the rows of each run to a table",
    "spread": "explain has elasticities and break-even values, and sweep samples hardware",
    "servegen": "write the generated requests to a file and use --request-format perfatlas",
}


def removed_note(name: str) -> str:
    """Return what takes the place of a command, flag, field or value that was removed, or "".

    Args:
        name: What a user wrote; a value as in "op = 'norm'".

    Example:
        >>> from perfatlas.vocabulary.fields import removed_note
        >>> removed_note("goodput stragglers")
        'goodput stragglers was removed: a fleet has slow GPUs: a cause with effect = "slows"'
    """
    instead = REMOVED.get(name, "")
    return f"{name} was removed: {instead}" if instead else ""
