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

from perfatlas.fleet.durations import parse_duration, parse_rate
from perfatlas.fleet.laws import (
    Bathtub,
    Constant,
    Empirical,
    Exponential,
    Law,
    LogNormal,
    Weibull,
    check_law,
)
from perfatlas.fleet.model import Cause, Fleet, Lemons, Repair, RepairStage
from perfatlas.quantities import InvalidSpecError, did_you_mean, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

LARGEST_FILE: Final = 16_777_216  # bytes
_LAW_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "constant": ("value",),
    "exponential": ("mean", "rate"),
    "weibull": ("shape", "scale"),
    "lognormal": ("median", "sigma"),
    "bathtub": ("infant_shape", "infant_scale", "chance_mean", "wear_shape", "wear_scale"),
    "empirical": ("values",),
}


def read_fleet(path: Path) -> Fleet:
    """Return the fleet of a TOML file.

    Args:
        path: The file.

    Raises:
        InvalidSpecError: It cannot be read, a key is unknown or missing, a time has no unit, a
            number is outside its range.
    """
    from perfatlas.fleet.checks import check_fleet

    try:
        if path.stat().st_size > LARGEST_FILE:
            raise InvalidSpecError(f"{path} is larger than {LARGEST_FILE} bytes")
        table = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InvalidSpecError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise InvalidSpecError(f"{path} is not TOML: {str(error)[:200]}") from error
    fleet = fleet_of(table, str(path))
    check_fleet(fleet)
    return fleet


def fleet_of(table: Mapping[str, Any], origin: str) -> Fleet:
    """Return the fleet that a table of TOML describes.

    Args:
        table: As `tomllib` reads it.
        origin: Where it was read, for messages.

    Raises:
        InvalidSpecError: A key is unknown or missing, a time has no unit.
    """
    plain = {field.name for field in fields(Fleet)} - {"causes", "repairs"}
    _known(table, plain | {"cause", "repair"}, origin)
    given: dict[str, Any] = {
        key: _whole(value, f"{origin}: {key}") for key, value in table.items() if key in plain
    }
    if "units" not in given:
        raise InvalidSpecError(f"{origin}: units is missing: how many units the fleet has")
    causes = _tables(table.get("cause", []), f"{origin}: cause")
    gpus = given.get("gpus_per_unit", 8)
    given["causes"] = tuple(_cause(cause, origin, gpus) for cause in causes)
    repairs = _tables(table.get("repair", []), f"{origin}: repair")
    if repairs:
        given["repairs"] = tuple(_repair(repair, origin) for repair in repairs)
    return Fleet(**given)


def law_of(value: object, field: str) -> Law:
    """Return a law written as a time ("10 min") or as a table with `law`.

    Args:
        value: As TOML has it.
        field: Where, for messages.

    Raises:
        InvalidSpecError: An unknown law or key, a time without a unit, an impossible number.
    """
    if not isinstance(value, Mapping):
        return Constant(value_s=parse_duration(value, field=field))
    name = value.get("law")
    if not isinstance(name, str) or name not in _LAW_KEYS:
        hint = did_you_mean(name, _LAW_KEYS) if isinstance(name, str) else ""
        raise InvalidSpecError(
            f"{field}: law = {shown(name)} is not one of {', '.join(_LAW_KEYS)}{hint}"
        )
    _known(value, {"law", *_LAW_KEYS[name]}, field)
    law = _LAWS[name](value, field)
    check_law(law, field)
    return law


def _cause(table: Mapping[str, Any], origin: str, gpus_per_unit: int) -> Cause:
    """Return a cause; one that is `published` has the name, parts and rate of the catalog."""
    from perfatlas.fleet.catalog import published_cause

    rate = _name(table, f"{origin}: cause", "published") if "published" in table else ""
    name = rate or _name(table, f"{origin}: cause")
    where = f"{origin}: cause {name!r}"
    known = {field.name for field in fields(Cause)} - {"age_s"} | {"age"}
    _known(table, known - {"name", "lifetime"} | {"published"} if rate else known, where)
    given: dict[str, Any] = {key: value for key, value in table.items() if key != "published"}
    for key in ("lifetime", "detection", "lasts"):
        if key in given:
            given[key] = law_of(given[key], f"{where}: {key}")
    if "lifetime" not in given and not rate:
        raise InvalidSpecError(f"{where}: lifetime is missing, such as {{ law, mean }}")
    if "age" in given:
        given["age_s"] = parse_duration(given.pop("age"), field=f"{where}: age")
    for key in ("per_unit", "shared", "slowdown"):
        if key in given:
            given[key] = _real(given[key], f"{where}: {key}")
    if "lemons" in given:
        lemons = given["lemons"]
        if not isinstance(lemons, Mapping):
            raise InvalidSpecError(f"{where}: lemons: expected a table of share, factor, strikes")
        _known(lemons, {"share", "factor", "strikes"}, f"{where}: lemons")
        given["lemons"] = Lemons(
            share=_real(lemons.get("share"), f"{where}: lemons: share"),
            factor=_real(lemons.get("factor"), f"{where}: lemons: factor"),
            strikes=_whole(lemons.get("strikes", 0), f"{where}: lemons: strikes"),
        )
    _choices(given, where)
    if rate:
        return published_cause(rate, gpus_per_unit=gpus_per_unit, **given)
    return Cause(**given)


def _choices(given: Mapping[str, Any], where: str) -> None:
    allowed: dict[str, tuple[object, ...]] = {
        "effect": ("stops", "corrupts", "slows"),
        "takes": ("nothing", "part", "unit"),
        "loses": ("process", "unit", "domain", "everything"),
        "ages": ("new", "mixed"),
        "as_old": (True, False),
    }
    for key, choices in allowed.items():
        if key in given and given[key] not in choices:
            expected = ", ".join(map(str, choices))
            raise InvalidSpecError(f"{where}: {key} = {shown(given[key])}: one of {expected}")
    for key in ("repair", "restart"):
        if not isinstance(given.get(key, ""), str):
            raise InvalidSpecError(f"{where}: {key} = {shown(given[key])}: expected a name")
    _whole(given.get("units", 1), f"{where}: units")


def _repair(table: Mapping[str, Any], origin: str) -> Repair:
    name = _name(table, f"{origin}: repair")
    where = f"{origin}: repair {name!r}"
    _known(table, {"name", "stages", "relapse"}, where)
    stages = []
    for stage in _tables(table.get("stages", []), f"{where}: stages"):
        label = _name(stage, f"{where}: stage")
        _known(stage, {"name", "lasts", "fixes", "false_fix"}, f"{where}: stage {label!r}")
        stages.append(
            RepairStage(
                name=label,
                lasts=law_of(stage.get("lasts"), f"{where}: stage {label!r}: lasts"),
                fixes=_real(stage.get("fixes", 1.0), f"{where}: fixes"),
                false_fix=_real(stage.get("false_fix", 0.0), f"{where}: false_fix"),
            )
        )
    relapse = law_of(table.get("relapse", "0 s"), f"{where}: relapse")
    return Repair(name=name, stages=tuple(stages), relapse=relapse)


def _exponential(table: Mapping[str, Any], field: str) -> Law:
    if ("mean" in table) == ("rate" in table):
        raise InvalidSpecError(f"{field}: an exponential law takes either mean or rate")
    if "mean" in table:
        return Exponential(mean_s=_time(table, "mean", field))
    rate = parse_rate(table["rate"], field=f"{field}: rate")
    if rate == 0.0:
        raise InvalidSpecError(f"{field}: rate = 0: leave out what never fails")
    return Exponential(mean_s=1.0 / rate)


def _bathtub(table: Mapping[str, Any], field: str) -> Law:
    return Bathtub(
        infant=Weibull(
            shape=_real(table.get("infant_shape"), f"{field}: infant_shape"),
            scale_s=_time(table, "infant_scale", field),
        ),
        chance=Exponential(mean_s=_time(table, "chance_mean", field)),
        wear=Weibull(
            shape=_real(table.get("wear_shape"), f"{field}: wear_shape"),
            scale_s=_time(table, "wear_scale", field),
        ),
    )


def _empirical(table: Mapping[str, Any], field: str) -> Law:
    values = table.get("values")
    if not isinstance(values, list):
        raise InvalidSpecError(f"{field}: values = {shown(values)}: expected an array of times")
    return Empirical(
        values_s=tuple(parse_duration(value, field=f"{field}: values") for value in values)
    )


_LAWS: Final[dict[str, Callable[[Mapping[str, Any], str], Law]]] = {
    "constant": lambda table, field: Constant(value_s=_time(table, "value", field)),
    "exponential": _exponential,
    "weibull": lambda table, field: Weibull(
        shape=_real(table.get("shape"), f"{field}: shape"), scale_s=_time(table, "scale", field)
    ),
    "lognormal": lambda table, field: LogNormal(
        median_s=_time(table, "median", field), sigma=_real(table.get("sigma"), f"{field}: sigma")
    ),
    "bathtub": _bathtub,
    "empirical": _empirical,
}


def _time(table: Mapping[str, Any], key: str, field: str) -> float:
    if key not in table:
        raise InvalidSpecError(f"{field}: {key} is missing")
    return parse_duration(table[key], field=f"{field}: {key}")


def _real(value: object, field: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidSpecError(f"{field} = {shown(value)}: expected a number")
    return float(value)


def _whole(value: object, field: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidSpecError(f"{field} = {shown(value)}: expected a whole number")
    return value


def _name(table: Mapping[str, Any], where: str, key: str = "name") -> str:
    name = table.get(key)
    if not isinstance(name, str) or not name:
        raise InvalidSpecError(f"{where}: {key} = {shown(name)}: expected a text")
    return name


def _tables(value: object, where: str) -> list[Mapping[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
        raise InvalidSpecError(f"{where} = {shown(value)}: expected an array of tables")
    return value


def _known(table: Mapping[str, Any], keys: Iterable[str], where: str) -> None:
    known = sorted(keys)
    for key in table:
        if key not in known:
            hint = did_you_mean(key[:80], known)
            raise InvalidSpecError(f"{where}: unknown key {shown(key)}{hint}")
