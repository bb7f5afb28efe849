"""A cause of a fleet's TOML file: what fails, how often, and what that does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from perfatlas.fleet.model.catalog import published_cause
from perfatlas.fleet.model.file_fields import (
    known_keys,
    law_of,
    name_of,
    one_of,
    real,
    switch,
    whole,
)
from perfatlas.fleet.model.model import REACHES, Cause, Lemons
from perfatlas.quantities import InvalidSpecError, parse_duration, shown

if TYPE_CHECKING:
    from collections.abc import Callable

_CAUSE_KEYS: Final = {field.name for field in fields(Cause)} - {"age_s", "events"} | {"age"}


def cause_of(table: Mapping[str, Any], origin: str, gpus_per_unit: int) -> Cause:
    """Return a cause; one that is `published` has the name, parts and rate of the catalog.

    Args:
        table: As TOML has it.
        origin: Where it was read, for messages.
        gpus_per_unit: GPUs of a unit.

    Raises:
        InvalidSpecError: A key is unknown or missing, a time has no unit.
    """
    rate = name_of(table, f"{origin}: cause", "published") if "published" in table else ""
    name = rate or name_of(table, f"{origin}: cause")
    where = f"{origin}: cause {name!r}"
    if rate and (twice := [key for key in ("name", "lifetime") if key in table]):
        raise InvalidSpecError(
            f"{where}: published names a cause and says how often it fails: leave"
            f" {' and '.join(twice)} out, or published"
        )
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
