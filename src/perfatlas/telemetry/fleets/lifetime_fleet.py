"""A fleet of parts whose lifetimes a table told: the law taken as a cause, its evidence beside it.

The table tells how long parts live; how many of them a node holds, how many nodes there are and how
long a repair takes it cannot tell, and is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from perfatlas.quantities import InvalidSpecError, counted, shown
from perfatlas.sampling import rate_posterior
from perfatlas.telemetry.fleets.evidence import file_row
from perfatlas.telemetry.fleets.file import place_of, write_documents
from perfatlas.telemetry.fleets.laws import ends_text, short, time_text
from perfatlas.telemetry.history import parts_per_node

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from perfatlas.telemetry.reading import FileCounts

    Facts = Mapping[str, Any]

REPAIR: Final = "given"


@dataclass(frozen=True, kw_only=True)
class PartsOfFleet:
    """What a table of lifetimes does not tell.

    Args:
        component: What its rows are: gpu, nic, host, ...
        nodes: Nodes of the fleet.
        gpus_per_node: GPUs of a node.
        units: Component to how many there are, where they are neither of a GPU nor of a node.
        repair_s: From a failure until its node is back [s]; 0 for at once.
        ages: Whether parts are new when a job begins, or of the ages of a fleet long in use.
    """

    component: str
    nodes: int
    gpus_per_node: int
    units: Mapping[str, int]
    repair_s: float
    ages: Literal["new", "mixed"] = "mixed"


def lifetime_fleet(found: Facts, parts: PartsOfFleet) -> dict[str, Any]:
    """Return the tables of a fleet whose parts live as a table told.

    Args:
        found: As `fit_lifetimes` tells it.
        parts: What the table does not tell.

    Raises:
        InvalidSpecError: A count is below 1, a repair takes less than no time, or how many parts
            there are is not said.
    """
    if not parts.component.strip():
        raise InvalidSpecError("component is empty: expected what the rows are, such as gpu")
    held = parts_per_node(
        parts.component, nodes=parts.nodes, gpus_per_node=parts.gpus_per_node, units=parts.units
    )
    if not 0.0 <= parts.repair_s < float("inf"):
        raise InvalidSpecError(f"repair_s = {shown(parts.repair_s)}: expected 0 s or more")
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
    """Write such a fleet and, beside it, its evidence; return where the evidence is.

    Args:
        path: The file.
        found: As `fit_lifetimes` tells it.
        file: What became of the rows of the table.
        parts: What the table does not tell.

    Raises:
        InvalidSpecError: As of `lifetime_fleet`, or a file cannot be written.
    """
    fleet = lifetime_fleet(found, parts)
    return write_documents(path, _header(found, file), fleet, _evidence(found, file, parts))


def _header(found: Facts, file: FileCounts) -> str:
    """Return where the law comes from, as comment lines."""
    ends = [f"{name} {_range(of)}" for name, of in found["lifetime_interval"].items()]
    units, unit = counted(found["units"], "unit"), found["time_unit"]
    considered = ", ".join(law["law"] for law in found["laws"])
    lines = [
        f"Fitted by perfatlas to the lifetimes of {file.path}, {file.data_hash}:",
        f"{units}, {found['failures']:,} failed in {found['exposure']:,.7g} {unit} watched.",
        f"{found['taken']}, in {100.0 * found['level']:g} %: {'; '.join(ends)}.",
        f"By AIC, the best first: {considered}.",
        f"{found['fitness']}.",
        "Numbers of nodes and parts and the time of a repair were given, not fitted.",
        "More in {evidence}.",
    ]
    return "".join(f"# {' '.join(line.split())}\n" for line in lines)


def _range(ends: list[Any]) -> str:
    return f"{ends[0]} - {ends[1]}"


def _evidence(found: Facts, file: FileCounts, parts: PartsOfFleet) -> dict[str, Any]:
    """Return what the law rests on, by the names of the evidence of logs."""
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
        "rate_kind": "failures of a table of lifetimes",
        "level": found["level"],
        "cause": [cause],
        "file": [file_row(file)],
    }
