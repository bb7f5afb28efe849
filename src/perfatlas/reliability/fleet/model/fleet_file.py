"""A fleet as a TOML file: units, causes with their distributions, repairs.

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

Instead of name and lifetime a cause may reference a rate of the catalog: `published =
"llama3_gpu"`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import (
    Field,
    Number,
    Record,
    Text,
    Whole,
    known_keys,
    read_fields,
    read_toml,
    sub_tables,
)
from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.fleet.model.cause_file import cause_of
from perfatlas.reliability.fleet.model.checks import check_fleet
from perfatlas.reliability.fleet.model.component_file import Tree, component_tree
from perfatlas.reliability.fleet.model.file_fields import NAME, Lifetime, name_of
from perfatlas.reliability.fleet.model.model import Fleet, Repair, RepairStage

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_COUNT: Final = Field(Whole())
_FLEET: Final[dict[str, Field[Any]]] = {
    "units": Field(Whole(), required=True, meaning="the number of units of the fleet"),
    **dict.fromkeys(("gpus_per_unit", "parts_per_unit", "parts_needed", "crews", "spares"), _COUNT),
    "spares_ref": Field(Text()),
}
_PARTS: Final = ("cause", "repair", "strategy", "component", "unit", "system")
_REPAIR: Final[dict[str, Field[Any]]] = {
    "name": Field(NAME, required=True),
    "relapse": Field(Lifetime()),
}
_STAGE: Final = Record(
    fields={
        "name": Field(NAME, required=True),
        "lasts": Field(Lifetime(), required=True, meaning="the duration of a stage"),
        "fixes": Field(Number()),
        "false_fix": Field(Number()),
    },
    build=RepairStage,
)


def read_fleet(path: Path) -> Fleet:
    """Return the fleet of a TOML file.

    Raises:
        InvalidSpecError: It cannot be read, a key is unknown or missing, a time has no unit, or a
            number is outside its range.
    """
    return fleet_of(read_toml(path), str(path))


def fleet_of(table: Mapping[str, Any], origin: str) -> Fleet:
    """Return the fleet that a table of TOML describes.

    Args:
        table: The parsed TOML file.
        origin: File name for messages.

    Raises:
        InvalidSpecError: A key is unknown or missing, a time has no unit, or a number is outside
            its range; the message names the file.
    """
    known_keys(table, {**_FLEET, **dict.fromkeys(_PARTS)}, origin)
    given = read_fields({key: table[key] for key in _FLEET if key in table}, _FLEET, origin)
    causes = sub_tables(table.get("cause", []), f"{origin}: cause")
    tree = _tree(table, origin)
    gpus = _gpus_per_unit(given, tree, origin)
    given["gpus_per_unit"] = gpus
    given["causes"] = (
        *(cause_of(cause, origin, gpus) for cause in causes),
        *(tree.causes if tree else ()),
    )
    if not given["causes"]:
        raise InvalidSpecError(
            f"{origin}: nothing fails: add a [[cause]], such as published = 'llama3_gpu', or a"
            " [[component]] tree with at least one lifetime"
        )
    repairs = sub_tables(table.get("repair", []), f"{origin}: repair")
    if repairs:
        given["repairs"] = tuple(_repair(repair, origin) for repair in repairs)
    fleet = Fleet(**given)
    try:
        check_fleet(fleet)
    except InvalidSpecError as problem:
        raise InvalidSpecError(f"{origin}: {problem}") from problem
    return fleet


def _tree(table: Mapping[str, Any], origin: str) -> Tree | None:
    """Return the containment tree of a file; None without one."""
    if "component" not in table:
        for key in ("unit", "system"):
            if key in table:
                raise InvalidSpecError(f"{origin}: {key} requires [[component]] tables")
        return None
    return component_tree(table, origin)


def _gpus_per_unit(given: Mapping[str, Any], tree: Tree | None, origin: str) -> int:
    """Return the GPUs of a unit as set, or as in the tree."""
    stated = given.get("gpus_per_unit")
    if tree is None or tree.gpus is None:
        return Fleet.gpus_per_unit if stated is None else int(stated)
    if stated not in (None, tree.gpus):
        raise InvalidSpecError(
            f"{origin}: gpus_per_unit = {stated}, but the tree has {tree.gpus:g} GPUs in a"
            f" {tree.unit}: make them equal, or leave gpus_per_unit out"
        )
    return int(tree.gpus)


def _repair(table: Mapping[str, Any], origin: str) -> Repair:
    name = name_of(table, f"{origin}: repair")
    where = f"{origin}: repair {name!r}"
    rows = sub_tables(table.get("stages", []), f"{where}: stages")
    known_keys(table, {**_REPAIR, "stages": None}, where)
    given = read_fields({key: table[key] for key in _REPAIR if key in table}, _REPAIR, where)
    given["stages"] = tuple(
        _STAGE.read(row, f"{where}: stage {name_of(row, f'{where}: stage')!r}") for row in rows
    )
    return Repair(**given)
