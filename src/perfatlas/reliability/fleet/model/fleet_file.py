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

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import (
    Duration,
    Field,
    Flag,
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
from perfatlas.reliability.fleet.model.catalog import published_cause
from perfatlas.reliability.fleet.model.checks import check_fleet
from perfatlas.reliability.fleet.model.file_fields import NAME, Lifetime, name_of
from perfatlas.reliability.fleet.model.model import (
    REACHES,
    Cause,
    Fleet,
    Lemons,
    Repair,
    RepairStage,
)

if TYPE_CHECKING:
    from pathlib import Path

_COUNT: Final = Field(Whole())
_FLEET: Final[dict[str, Field[Any]]] = {
    "units": Field(Whole(), required=True, meaning="the number of units of the fleet"),
    **dict.fromkeys(("gpus_per_unit", "parts_per_unit", "parts_needed", "crews", "spares"), _COUNT),
    "spares_ref": Field(Text()),
}
_PARTS: Final = ("cause", "repair", "strategy")
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
    if "component" in table:
        raise InvalidSpecError(
            f"{origin}: [[component]] was removed: write a [[cause]] for each kind of part, with"
            " per_unit, units or shared"
        )
    known_keys(table, {**_FLEET, **dict.fromkeys(_PARTS)}, origin)
    given = read_fields({key: table[key] for key in _FLEET if key in table}, _FLEET, origin)
    causes = sub_tables(table.get("cause", []), f"{origin}: cause")
    gpus = given.get("gpus_per_unit", Fleet.gpus_per_unit)
    given["causes"] = tuple(cause_of(cause, origin, gpus) for cause in causes)
    if not given["causes"]:
        raise InvalidSpecError(
            f"{origin}: nothing fails: add a [[cause]], such as published = 'llama3_gpu'"
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


_NUMBER: Final = Field(Number())
_RESTART: Final = Field(Text(longest=NAME.longest, expected="a name"))
_LEMONS: Final = Record(
    fields={
        "share": Field(Number(), required=True),
        "factor": Field(Number(), required=True),
        "strikes": Field(Whole()),
    },
    build=Lemons,
)
_CAUSE: Final[dict[str, Field[Any]]] = {
    "name": Field(NAME),
    "lifetime": Field(Lifetime(), required=True, meaning="such as { law, mean }"),
    "detection": Field(Lifetime()),
    "lasts": Field(Lifetime()),
    "age": Field(Duration(), into="age_s"),
    "per_unit": _NUMBER,
    "shared": _NUMBER,
    "slowdown": _NUMBER,
    "lemons": Field(_LEMONS),
    "effect": Field(Text(choices=("stops", "corrupts", "slows"))),
    "takes": Field(Text(choices=("nothing", "part", "unit"))),
    "loses": Field(Text(choices=REACHES)),
    "ages": Field(Text(choices=("new", "mixed"))),
    "as_old": Field(Flag()),
    "repair": _RESTART,
    "restart": _RESTART,
    "units": Field(Whole()),
}


def cause_of(table: Mapping[str, Any], origin: str, gpus_per_unit: int) -> Cause:
    """Return a cause; a `published` one takes its name, parts and rate from the catalog.

    Args:
        table: The parsed TOML table.
        origin: File name for messages.

    Raises:
        InvalidSpecError: A key is unknown or missing, a time has no unit.
    """
    rate = name_of(table, f"{origin}: cause", "published") if "published" in table else ""
    name = rate or name_of(table, f"{origin}: cause")
    where = f"{origin}: cause {name!r}"
    if rate and (twice := [key for key in ("name", "lifetime") if key in table]):
        raise InvalidSpecError(
            f"{where}: published already defines these: remove {' and '.join(twice)}, or published"
        )
    if not rate:
        return Cause(**_fields(table, _CAUSE, where))
    known = {key: field for key, field in _CAUSE.items() if key not in ("name", "lifetime")}
    given = _fields(table, {**known, "published": Field(NAME)}, where)
    return published_cause(given.pop("published"), gpus_per_unit=gpus_per_unit, **given)


def _fields(
    table: Mapping[str, Any], fields: Mapping[str, Field[Any]], where: str
) -> dict[str, Any]:
    """Return the fields of a cause set in a table, and the failure count behind its rate.

    Args:
        table: The parsed TOML table.
        where: File and table, for messages.

    Raises:
        InvalidSpecError: A key is unknown, a time has no unit, or a value is not one of the
            choices.
    """
    given = read_fields(table, fields, where)
    lifetime = table.get("lifetime")
    if isinstance(lifetime, Mapping) and "events" in lifetime:
        given["events"] = lifetime["events"]
    return given
