"""A fleet as a TOML file: units, causes with their laws, repairs.

```toml
units = 2080
gpus_per_unit = 8

[[cause]]
name = "node"
per_unit = 1
lifetime = { law = "exponential", rate = "6.5e-3 /d" }
detection = "2 min"

[[repair]]
name = "swap"
relapse = "1 h"
stages = [{ name = "swap", lasts = { law = "lognormal", median = "4 h", sigma = 1 } }]
```

In place of name and lifetime a cause may name a rate of the catalog: `published = "llama3_gpu"`.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from perfatlas.files import read_toml
from perfatlas.fleet.model.cause_file import cause_of
from perfatlas.fleet.model.checks import check_fleet
from perfatlas.fleet.model.component_file import causes_of_tree
from perfatlas.fleet.model.file_fields import known_keys, law_of, name_of, real, tables, whole
from perfatlas.fleet.model.model import Cause, Fleet, Repair, RepairStage
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def read_fleet(path: Path) -> Fleet:
    """Return the fleet of a TOML file.

    Args:
        path: The file.

    Raises:
        InvalidSpecError: It cannot be read, a key is unknown or missing, a time has no unit, a
            number is outside its range.
    """
    return fleet_of(read_toml(path), str(path))


def fleet_of(table: Mapping[str, Any], origin: str) -> Fleet:
    """Return the fleet that a table of TOML describes.

    Args:
        table: As `tomllib` reads it.
        origin: Where it was read, for messages.

    Raises:
        InvalidSpecError: A key is unknown or missing, a time has no unit, a number is outside its
            range; the message names where it was read.
    """
    plain = {field.name for field in fields(Fleet)} - {"causes", "repairs"}
    known_keys(
        table, plain | {"cause", "repair", "strategy", "component", "unit", "system"}, origin
    )
    given: dict[str, Any] = {
        key: whole(value, f"{origin}: {key}") for key, value in table.items() if key in plain
    }
    if "units" not in given:
        raise InvalidSpecError(f"{origin}: units is missing: how many units the fleet has")
    causes = tables(table.get("cause", []), f"{origin}: cause")
    gpus = given.get("gpus_per_unit", 8)
    given["causes"] = (
        *(cause_of(cause, origin, gpus) for cause in causes),
        *_component_causes(table, origin, gpus),
    )
    if not given["causes"]:
        raise InvalidSpecError(
            f"{origin}: nothing fails: give a [[cause]], such as published = 'llama3_gpu', or a"
            " tree of [[component]] of which one has a lifetime"
        )
    repairs = tables(table.get("repair", []), f"{origin}: repair")
    if repairs:
        given["repairs"] = tuple(_repair(repair, origin) for repair in repairs)
    fleet = Fleet(**given)
    try:
        check_fleet(fleet)
    except InvalidSpecError as problem:
        raise InvalidSpecError(f"{origin}: {problem}") from problem
    return fleet


def _component_causes(
    table: Mapping[str, Any], origin: str, gpus_per_unit: int
) -> tuple[Cause, ...]:
    """Return what fails in the containment tree of a file."""
    if "component" not in table:
        for key in ("unit", "system"):
            if key in table:
                raise InvalidSpecError(f"{origin}: {key} is of a tree: give [[component]]")
        return ()
    return causes_of_tree(table, origin, gpus_per_unit)


def _repair(table: Mapping[str, Any], origin: str) -> Repair:
    name = name_of(table, f"{origin}: repair")
    where = f"{origin}: repair {name!r}"
    known_keys(table, {"name", "stages", "relapse"}, where)
    stages = []
    for stage in tables(table.get("stages", []), f"{where}: stages"):
        label = name_of(stage, f"{where}: stage")
        known_keys(stage, {"name", "lasts", "fixes", "false_fix"}, f"{where}: stage {label!r}")
        stages.append(
            RepairStage(
                name=label,
                lasts=law_of(stage.get("lasts"), f"{where}: stage {label!r}: lasts"),
                fixes=real(stage.get("fixes", 1.0), f"{where}: fixes"),
                false_fix=real(stage.get("false_fix", 0.0), f"{where}: false_fix"),
            )
        )
    relapse = law_of(table.get("relapse", "0 s"), f"{where}: relapse")
    return Repair(name=name, stages=tuple(stages), relapse=relapse)
