"""A fleet whose parts have fitted lifetimes from a table, with its evidence.

The table gives lifetimes only; the parts per node, the number of nodes and the repair time are
inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from perfatlas.quantities import InvalidSpecError, counted, repr_for_error
from perfatlas.reliability.telemetry.fleets.evidence import file_row
from perfatlas.reliability.telemetry.fleets.file import place_of, write_documents
from perfatlas.reliability.telemetry.fleets.laws import ends_text, short, time_text
from perfatlas.reliability.telemetry.history import parts_per_node
from perfatlas.sampling import rate_posterior

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from perfatlas.reliability.telemetry.reading import FileCounts

    Facts = Mapping[str, Any]

REPAIR: Final = "given"


@dataclass(frozen=True, kw_only=True)
class PartsOfFleet:
    """Inputs that a lifetime table does not contain.

    Args:
        component: Component of the rows: gpu, nic, host, ...
        units: Number by component, where it is not one per GPU or per node.
        repair_s: Time from a failure until its node returns [s]; 0 for none.
        ages: Whether parts are new at the start of a job, or of mixed ages (steady state).
    """

    component: str
    nodes: int
    gpus_per_node: int
    units: Mapping[str, int]
    repair_s: float
    ages: Literal["new", "mixed"] = "mixed"


def lifetime_fleet(found: Facts, parts: PartsOfFleet) -> dict[str, Any]:
    """Return the tables of a fleet with fitted lifetimes.

    Args:
        found: Result of `fit_lifetimes`.
        parts: Inputs that the table does not contain.

    Raises:
        InvalidSpecError: A count is below 1, a repair time is negative, or the number of parts is
            unknown.
    """
    if not parts.component.strip():
        raise InvalidSpecError(
            "component is empty: expected the component of the rows, such as gpu"
        )
    held = parts_per_node(
        parts.component, nodes=parts.nodes, gpus_per_node=parts.gpus_per_node, units=parts.units
    )
    if not 0.0 <= parts.repair_s < float("inf"):
        raise InvalidSpecError(f"repair_s = {repr_for_error(parts.repair_s)}: expected 0 s or more")
    cause = {"name": parts.component, "lifetime": found["lifetime"]}
    if found["taken"] != "exponential":
        cause |= {"ages": parts.ages}
    document: dict[str, Any] = {
        "units": parts.nodes,
        "gpus_per_unit": parts.gpus_per_node,
        "cause": [cause | place_of(parts.component, held)],
    }
    if parts.repair_s:
        stage = {"name": REPAIR, "lasts": time_text(parts.repair_s)}
        document["repair"] = [{"name": REPAIR, "stages": [stage]}]
    return document


def write_lifetime_fleet(
    path: str | Path, found: Facts, file: FileCounts, parts: PartsOfFleet
) -> Path:
    """Write the fleet and its evidence file; return the path of the evidence.

    Args:
        found: Result of `fit_lifetimes`.
        parts: Inputs that the table does not contain.

    Raises:
        InvalidSpecError: As for `lifetime_fleet`, or a file cannot be written.
    """
    fleet = lifetime_fleet(found, parts)
    return write_documents(path, _header(found, file), fleet, _evidence(found, file, parts))


def _header(found: Facts, file: FileCounts) -> str:
    """Return the origin of the distribution, as comment lines."""
    ends = [f"{name} {_range(of)}" for name, of in found["lifetime_interval"].items()]
    units, unit = counted(found["units"], "unit"), found["time_unit"]
    considered = ", ".join(law["law"] for law in found["laws"])
    lines = [
        f"Fitted by perfatlas to the lifetimes of {file.path}, {file.data_hash}:",
        f"{units}, {found['failures']:,} failed in {found['exposure']:,.7g} {unit} of observation.",
        f"{found['taken']}, {100.0 * found['level']:g}% intervals: {'; '.join(ends)}.",
        f"By AIC, best first: {considered}.",
        f"{found['fitness']}.",
        "The numbers of nodes and parts and the repair time are inputs, not fitted.",
        "See {evidence}.",
    ]
    return "".join(f"# {' '.join(line.split())}\n" for line in lines)


def _range(ends: list[Any]) -> str:
    return f"{ends[0]} - {ends[1]}"


def _evidence(found: Facts, file: FileCounts, parts: PartsOfFleet) -> dict[str, Any]:
    """Return the evidence of the distribution, with the keys of log evidence."""
    unit = found["time_unit"]
    rate = rate_posterior(found["failures"], found["exposure"], level=found["level"])
    curve = found["survival"]
    cause = {
        "name": parts.component,
        "units": found["units"],
        "events": found["failures"],
        "exposure": time_text(found["exposure"], unit),
        "mean_time_between": time_text(1.0 / rate.observed_per_s, unit),
        "mean_time_between_interval": ends_text(1.0 / rate.high_per_s, 1.0 / rate.low_per_s, unit),
        "survival": {
            "age": [time_text(row["age"], unit) for row in curve],
            **{name: [short(row[name]) for row in curve] for name in ("share", "low", "high")},
        },
        "law_interval": found["lifetime_interval"],
        "aic": {law["law"]: short(law["aic"]) for law in found["laws"]},
        "remarks": [found["fitness"]],
    }
    return {
        "rate_kind": "failures in a lifetime table",
        "level": found["level"],
        "cause": [cause],
        "file": [file_row(file)],
    }
