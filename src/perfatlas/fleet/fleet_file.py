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

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from perfatlas.fleet.durations import parse_duration
from perfatlas.fleet.file_fields import (
    known_keys,
    law_of,
    name_of,
    one_of,
    real,
    switch,
    tables,
    whole,
)
from perfatlas.fleet.model import REACHES, Cause, Fleet, Lemons, Repair, RepairStage
from perfatlas.quantities import InvalidSpecError, shown

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LARGEST_FILE: Final = 16_777_216  # bytes
_CAUSE_KEYS: Final = {field.name for field in fields(Cause)} - {"age_s", "events"} | {"age"}


def read_fleet(path: Path) -> Fleet:
    """Return the fleet of a TOML file.

    Args:
        path: The file.

    Raises:
        InvalidSpecError: It cannot be read, a key is unknown or missing, a time has no unit, a
            number is outside its range.
    """
    from perfatlas.fleet.checks import check_fleet

    fleet = fleet_of(read_toml(path), str(path))
    check_fleet(fleet)
    return fleet


def read_toml(path: Path) -> dict[str, Any]:
    """Return a TOML file as tables.

    Args:
        path: The file.

    Raises:
        InvalidSpecError: It cannot be read, is too large or is not TOML.
    """
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise InvalidSpecError(f"{path} is larger than {LARGEST_FILE} bytes")
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InvalidSpecError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise InvalidSpecError(f"{path} is not TOML: {str(error)[:200]}") from error


def fleet_of(table: Mapping[str, Any], origin: str) -> Fleet:
    """Return the fleet that a table of TOML describes.

    Args:
        table: As `tomllib` reads it.
        origin: Where it was read, for messages.

    Raises:
        InvalidSpecError: A key is unknown or missing, a time has no unit.
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
        *(_cause(cause, origin, gpus) for cause in causes),
        *_component_causes(table, origin, gpus),
    )
    repairs = tables(table.get("repair", []), f"{origin}: repair")
    if repairs:
        given["repairs"] = tuple(_repair(repair, origin) for repair in repairs)
    return Fleet(**given)


def _component_causes(
    table: Mapping[str, Any], origin: str, gpus_per_unit: int
) -> tuple[Cause, ...]:
    """Return what fails in the containment tree of a file."""
    from perfatlas.fleet.component_file import causes_of_tree

    if "component" not in table:
        for key in ("unit", "system"):
            if key in table:
                raise InvalidSpecError(f"{origin}: {key} is of a tree: give [[component]]")
        return ()
    return causes_of_tree(table, origin, gpus_per_unit)


def _cause(table: Mapping[str, Any], origin: str, gpus_per_unit: int) -> Cause:
    """Return a cause; one that is `published` has the name, parts and rate of the catalog."""
    from perfatlas.fleet.catalog import published_cause

    rate = name_of(table, f"{origin}: cause", "published") if "published" in table else ""
    name = rate or name_of(table, f"{origin}: cause")
    where = f"{origin}: cause {name!r}"
    known_keys(
        table, _CAUSE_KEYS - {"name", "lifetime"} | {"published"} if rate else _CAUSE_KEYS, where
    )
    given = cause_fields({key: table[key] for key in table if key != "published"}, where)
    if "lifetime" not in given and not rate:
        raise InvalidSpecError(f"{where}: lifetime is missing, such as {{ law, mean }}")
    if rate:
        return published_cause(rate, gpus_per_unit=gpus_per_unit, **given)
    return Cause(**given)


def cause_fields(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return fields of a cause that a table gives.

    Args:
        table: As TOML has it; all of its keys are known.
        where: Where it is, for messages.

    Raises:
        InvalidSpecError: A time has no unit, a word is none of the choices.
    """
    given = {
        "age_s" if key == "age" else key: _PARSERS.get(key, _as_it_is)(value, f"{where}: {key}")
        for key, value in table.items()
    }
    lifetime = table.get("lifetime")
    if isinstance(lifetime, Mapping) and "events" in lifetime:
        given["events"] = lifetime["events"]
    return given


def _as_it_is(value: object, _: str) -> object:
    return value


def _text(value: object, field: str) -> str:
    if not isinstance(value, str):
        raise InvalidSpecError(f"{field} = {shown(value)}: expected a name")
    return value


def _lemons(table: object, where: str) -> Lemons:
    if not isinstance(table, Mapping):
        raise InvalidSpecError(f"{where}: expected a table of share, factor, strikes")
    known_keys(table, {"share", "factor", "strikes"}, where)
    return Lemons(
        share=real(table.get("share"), f"{where}: share"),
        factor=real(table.get("factor"), f"{where}: factor"),
        strikes=whole(table.get("strikes", 0), f"{where}: strikes"),
    )


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


_PARSERS: Final[dict[str, Callable[[Any, str], Any]]] = {
    "lifetime": law_of,
    "detection": law_of,
    "lasts": law_of,
    "age": lambda value, field: parse_duration(value, field=field),
    "per_unit": real,
    "shared": real,
    "slowdown": real,
    "lemons": _lemons,
    "effect": lambda value, field: one_of(value, ("stops", "corrupts", "slows"), field),
    "takes": lambda value, field: one_of(value, ("nothing", "part", "unit"), field),
    "loses": lambda value, field: one_of(value, REACHES, field),
    "ages": lambda value, field: one_of(value, ("new", "mixed"), field),
    "as_old": switch,
    "repair": _text,
    "restart": _text,
    "units": whole,
}
