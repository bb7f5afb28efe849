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

from perfatlas import files
from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.fleet.model import model
from perfatlas.reliability.fleet.model.catalog import published_cause
from perfatlas.reliability.fleet.model.checks import check_fleet
from perfatlas.reliability.fleet.model.file_fields import NAME, Lifetime, fields_of, name_of

if TYPE_CHECKING:
    from pathlib import Path

_FLEET: Final = fields_of(model.Fleet, "causes", "repairs") | {
    "units": files.Field(files.Whole(), required=True, meaning="the number of units of the fleet"),
    "spares_ref": files.Field(files.Text()),
}
_PARTS: Final = ("cause", "repair", "strategy")
_REPAIR: Final = fields_of(model.Repair, "stages")
_STAGE: Final = files.Record(
    fields=fields_of(model.RepairStage)
    | {"lasts": files.Field(Lifetime(), required=True, meaning="the duration of a stage")},
    build=model.RepairStage,
)


def read_fleet(path: Path) -> model.Fleet:
    """Return the fleet of a TOML file."""
    return fleet_of(files.read_toml(path), str(path))


def fleet_of(table: Mapping[str, Any], origin: str) -> model.Fleet:
    """Return the fleet that a table of TOML describes."""
    if "component" in table:
        raise InvalidSpecError(
            f"{origin}: [[component]] was removed: write a [[cause]] for each kind of part, with"
            " per_unit, units or shared"
        )
    files.known_keys(table, {**_FLEET, **dict.fromkeys(_PARTS)}, origin)
    fields = files.read_fields({key: table[key] for key in _FLEET if key in table}, _FLEET, origin)
    causes = files.sub_tables(table.get("cause", []), f"{origin}: cause")
    gpus = fields.get("gpus_per_unit", model.Fleet.gpus_per_unit)
    fields["causes"] = tuple(cause_of(cause, origin, gpus) for cause in causes)
    if not fields["causes"]:
        raise InvalidSpecError(
            f"{origin}: nothing fails: add a [[cause]], such as published = 'llama3_gpu'"
        )
    repairs = files.sub_tables(table.get("repair", []), f"{origin}: repair")
    if repairs:
        fields["repairs"] = tuple(_repair(repair, origin) for repair in repairs)
    fleet = model.Fleet(**fields)
    try:
        check_fleet(fleet)
    except InvalidSpecError as problem:
        raise InvalidSpecError(f"{origin}: {problem}") from problem
    return fleet


def _repair(table: Mapping[str, Any], origin: str) -> model.Repair:
    name = name_of(table, f"{origin}: repair")
    where = f"{origin}: repair {name!r}"
    rows = files.sub_tables(table.get("stages", []), f"{where}: stages")
    files.known_keys(table, {**_REPAIR, "stages": None}, where)
    fields = files.read_fields({key: table[key] for key in _REPAIR if key in table}, _REPAIR, where)
    fields["stages"] = tuple(
        _STAGE.read(row, f"{where}: stage {name_of(row, f'{where}: stage')!r}") for row in rows
    )
    return model.Repair(**fields)


_CAUSE: Final = fields_of(model.Cause, "events") | {
    "lifetime": files.Field(Lifetime(), required=True, meaning="such as { law, mean }")
}


def cause_of(table: Mapping[str, Any], origin: str, gpus_per_unit: int) -> model.Cause:
    """Return a cause; a `published` one takes its name, parts and rate from the catalog."""
    rate = name_of(table, f"{origin}: cause", "published") if "published" in table else ""
    name = rate or name_of(table, f"{origin}: cause")
    where = f"{origin}: cause {name!r}"
    if rate and (twice := [key for key in ("name", "lifetime") if key in table]):
        raise InvalidSpecError(
            f"{where}: published already defines these: remove {' and '.join(twice)}, or published"
        )
    if not rate:
        return model.Cause(**_fields(table, _CAUSE, where))
    overrides = {key: field for key, field in _CAUSE.items() if key not in ("name", "lifetime")}
    values = _fields(table, {**overrides, "published": files.Field(NAME)}, where)
    return published_cause(values.pop("published"), gpus_per_unit=gpus_per_unit, **values)


def _fields(
    table: Mapping[str, Any], fields: Mapping[str, files.Field[Any]], where: str
) -> dict[str, Any]:
    """Return the fields of a cause set in a table, and the failure count behind its rate."""
    values = files.read_fields(table, fields, where)
    lifetime = table.get("lifetime")
    if isinstance(lifetime, Mapping) and "events" in lifetime:
        values["events"] = lifetime["events"]
    return values
