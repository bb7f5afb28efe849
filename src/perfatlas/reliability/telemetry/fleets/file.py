"""A fitted fleet as a TOML file for the simulator, with a separate evidence file.

The fleet file has `units`, `gpus_per_unit`, `[[cause]]` and `[[repair]]`, as the simulator reads
them: a distribution is a table with `law` and its parameters, times are text with a unit. The
evidence file has intervals, counts, files with their hashes, windows, lemon nodes and remarks.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import content_hash, format_toml, write_atomic
from perfatlas.reliability.telemetry.fleets import laws
from perfatlas.reliability.telemetry.fleets.evidence import evidence_document
from perfatlas.reliability.telemetry.history import GPU_RESET, JOB, PROCESS

if TYPE_CHECKING:
    from perfatlas.reliability.telemetry.fleets.fit import FleetFit
    from perfatlas.reliability.telemetry.fleets.records import CauseFit, Durations

_HEADER: Final = """\
# Fitted from logs by perfatlas. Intervals, counts, hashes of the logs, lemon nodes and remarks:
# {evidence}
"""
_NO_REPAIRS: Final = """\
# The logs contain no repair times, so that the availability of nodes is unknown; add [[repair]].
"""


def write_fleet(path: str | Path, fit: FleetFit) -> Path:
    """Write a fitted fleet and its evidence file; return the path of the evidence.

    Args:
        path: The file; the evidence goes to the same name with .evidence.toml.

    Raises:
        InvalidSpecError: A file cannot be written.
    """
    fleet = fleet_document(fit)
    header = _HEADER if "repair" in fleet else _HEADER + _NO_REPAIRS
    evidence_path = Path(path).with_suffix(".evidence.toml")
    text = header.replace("{evidence}", evidence_path.name) + "\n" + format_toml(fleet)
    about = {"fleet": Path(path).name, "fleet_hash": content_hash(text)}
    write_atomic(evidence_path, format_toml(about | evidence_document(fit)))
    write_atomic(path, text)
    return evidence_path


def fleet_document(fit: FleetFit) -> dict[str, Any]:
    """Return a fitted fleet as the document that `write_fleet` writes."""
    gpus = fit.watches["gpu"].units / fit.nodes if "gpu" in fit.watches else 0.0
    listed, rest = fit.causes[: laws.MAX_CAUSES], fit.causes[laws.MAX_CAUSES :]
    taken = laws.repairs_taken(fit)
    repaired = [cause for cause in listed if taken[cause.name] == cause.name]
    repairs = [_repair(cause.name, cause.repair) for cause in repaired if cause.repair]
    if fit.repair is not None:
        repairs = [_repair(laws.ANY_REPAIR, fit.repair), *repairs]
    document: dict[str, Any] = {"units": fit.nodes}
    if gpus and gpus.is_integer():
        document["gpus_per_unit"] = int(gpus)
    named = {cause.name for cause in repaired}
    document["cause"] = [_cause(cause, fit, named) for cause in listed] + _others(rest, fit)
    return document | ({"repair": repairs} if repairs else {})


def _cause(cause: CauseFit, fit: FleetFit, named: set[str]) -> dict[str, Any]:
    """Return the fields of a cause, without the simulator's defaults."""
    table: dict[str, Any] = {"name": cause.name}
    parts = fit.watches[cause.component].units / fit.nodes
    if cause.law is None:
        mean = laws.time_text(1.0 / cause.without_lemons_per_s)
        table |= {"lifetime": {"law": "exponential", "mean": mean}}
        if lemons := cause.separable_lemons:
            # per node: the parts of a node share its rate
            share = laws.short(lemons.lemon_share)
            table["lemons"] = {"share": share, "factor": laws.short(cause.lemon_factor)}
    else:
        table |= {"lifetime": laws.fit_law(cause.law)} | _age(cause, fit)
    table |= component_fields(cause.component, parts) | _effect_fields(cause)
    if cause.detection is not None:
        table["detection"] = laws.duration_law(cause.detection)
    if cause.name in named:
        table["repair"] = cause.name
    return table


def _effect_fields(cause: CauseFit) -> dict[str, Any]:
    """Return what a failure takes and loses, by the action that is documented for it.

    A restart of the program keeps the node, a reset of a GPU the memory of the host.
    """
    if cause.component == JOB or not cause.action:
        return {}
    if cause.action == PROCESS:
        return {"takes": "nothing", "loses": "process"}
    return {"takes": "unit", "loses": "process" if cause.action == GPU_RESET else "unit"}


def component_fields(component: str, parts: float) -> dict[str, Any]:
    """Return the fields that place a component: parts per unit, or one per job that takes no unit.

    Args:
        component: Failed component; "job" for the whole job.
    """
    if component == JOB:
        return {"shared": 1.0, "takes": "nothing", "loses": "process"}
    return {"per_unit": laws.short(parts)}


def _age(cause: CauseFit, fit: FleetFit) -> dict[str, Any]:
    """Return the initial age of parts, where their distribution depends on it."""
    if fit.options.repair == "as_new":
        return {"ages": "mixed"}
    watch = fit.watches[cause.component]
    ages = [watch.end_s - new_s for new_s in watch.new_s.values()]
    return {"as_old": True, "ages": "new", "age": laws.time_text(sum(ages) / len(ages))}


def _others(causes: tuple[CauseFit, ...], fit: FleetFit) -> list[dict[str, Any]]:
    """Return the rarest causes of each component combined into one memoryless cause."""
    rates: dict[str, float] = {}
    for cause in causes:
        rates[cause.component] = rates.get(cause.component, 0.0) + cause.rate.observed_per_s
    return [
        {
            "name": f"{component}_others",
            "lifetime": {"law": "exponential", "mean": laws.time_text(1.0 / rate)},
            **component_fields(component, fit.watches[component].units / fit.nodes),
        }
        for component, rate in rates.items()
    ]


def _repair(name: str, durations: Durations) -> dict[str, Any]:
    return {"name": name, "stages": [{"name": "observed", "lasts": laws.duration_law(durations)}]}
