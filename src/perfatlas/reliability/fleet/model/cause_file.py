"""A cause of a fleet's TOML file: what fails, how often, and the effect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from perfatlas.files import Duration, Field, Flag, Number, Record, Text, Whole, read_fields
from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.fleet.model.catalog import published_cause
from perfatlas.reliability.fleet.model.file_fields import NAME, Lifetime, name_of
from perfatlas.reliability.fleet.model.model import REACHES, Cause, Lemons

_NUMBER: Final = Field(Number())
_RESTART: Final = Field(Text(longest=NAME.longest, expected="a name"))
LEMONS: Final = Record(
    fields={
        "share": Field(Number(), required=True),
        "factor": Field(Number(), required=True),
        "strikes": Field(Whole()),
    },
    build=Lemons,
)
CAUSE: Final[dict[str, Field[Any]]] = {
    "name": Field(NAME),
    "lifetime": Field(Lifetime(), required=True, meaning="such as { law, mean }"),
    "detection": Field(Lifetime()),
    "lasts": Field(Lifetime()),
    "age": Field(Duration(), into="age_s"),
    "per_unit": _NUMBER,
    "shared": _NUMBER,
    "slowdown": _NUMBER,
    "lemons": Field(LEMONS),
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
        return Cause(**cause_fields(table, CAUSE, where))
    known = {key: field for key, field in CAUSE.items() if key not in ("name", "lifetime")}
    given = cause_fields(table, {**known, "published": Field(NAME)}, where)
    return published_cause(given.pop("published"), gpus_per_unit=gpus_per_unit, **given)


def cause_fields(
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
