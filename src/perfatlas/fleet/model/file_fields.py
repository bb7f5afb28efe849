"""Fields of a fleet's TOML file: times, rates, laws, numbers, names, and refusals of all else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

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
from perfatlas.quantities import (
    InvalidSpecError,
    did_you_mean,
    parse_duration,
    parse_quantity,
    parse_rate,
    shown,
)
from perfatlas.sampling import rate_posterior

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_LAW_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "constant": ("value",),
    "exponential": ("mean", "rate", "events", "exposure"),
    "weibull": ("shape", "scale"),
    "lognormal": ("median", "sigma"),
    "bathtub": ("infant_shape", "infant_scale", "chance_mean", "wear_shape", "wear_scale"),
    "empirical": ("values",),
}


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
    known_keys(value, {"law", *_LAW_KEYS[name]}, field)
    law = _LAWS[name](value, field)
    check_law(law, field)
    return law


def _exponential(table: Mapping[str, Any], field: str) -> Law:
    ways = [way for way in ("mean", "rate", "events") if way in table]
    if len(ways) != 1 or ("exposure" in table) != ("events" in table):
        raise InvalidSpecError(
            f"{field}: an exponential law takes mean, or rate, or events with their exposure"
        )
    if "mean" in table:
        return Exponential(mean_s=time_s(table, "mean", field))
    if "events" in table:
        events = whole(table["events"], f"{field}: events")
        exposure_s = time_s(table, "exposure", field)
        return Exponential(mean_s=1.0 / rate_posterior(events, exposure_s).mean_per_s)
    rate = parse_rate(table["rate"], field=f"{field}: rate")
    if rate == 0.0:
        raise InvalidSpecError(f"{field}: rate = 0: leave out what never fails")
    return Exponential(mean_s=1.0 / rate)


def _bathtub(table: Mapping[str, Any], field: str) -> Law:
    return Bathtub(
        infant=Weibull(
            shape=real(table.get("infant_shape"), f"{field}: infant_shape"),
            scale_s=time_s(table, "infant_scale", field),
        ),
        chance=Exponential(mean_s=time_s(table, "chance_mean", field)),
        wear=Weibull(
            shape=real(table.get("wear_shape"), f"{field}: wear_shape"),
            scale_s=time_s(table, "wear_scale", field),
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
    "constant": lambda table, field: Constant(value_s=time_s(table, "value", field)),
    "exponential": _exponential,
    "weibull": lambda table, field: Weibull(
        shape=real(table.get("shape"), f"{field}: shape"), scale_s=time_s(table, "scale", field)
    ),
    "lognormal": lambda table, field: LogNormal(
        median_s=time_s(table, "median", field), sigma=real(table.get("sigma"), f"{field}: sigma")
    ),
    "bathtub": _bathtub,
    "empirical": _empirical,
}


def time_s(table: Mapping[str, Any], key: str, field: str) -> float:
    """Return a time of a table [s].

    Args:
        table: As TOML has it.
        key: Of the time.
        field: Where the table is, for messages.

    Raises:
        InvalidSpecError: It is missing or has no unit.
    """
    if key not in table:
        raise InvalidSpecError(f"{field}: {key} is missing")
    return parse_duration(table[key], field=f"{field}: {key}")


def amount(value: object, dimension: str, field: str) -> float:
    """Return bytes, or bytes per second, written with a unit.

    Args:
        value: As TOML has it.
        dimension: "bytes" or "bytes_per_s".
        field: Where, for messages.

    Raises:
        InvalidSpecError: No text with a unit, or not above zero.
    """
    example = "5.7 TB" if dimension == "bytes" else "400 GB/s"
    if not isinstance(value, str):
        raise InvalidSpecError(f"{field} = {shown(value)}: write it with a unit, as {example!r}")
    found = parse_quantity(value, dimension, field=field)
    if not found > 0.0:
        raise InvalidSpecError(f"{field} = {shown(value)}: expected more than nothing")
    return found


def real(value: object, field: str) -> float:
    """Return a number.

    Args:
        value: As TOML has it.
        field: Where, for messages.

    Raises:
        InvalidSpecError: It is something else.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidSpecError(f"{field} = {shown(value)}: expected a number")
    return float(value)


def whole(value: object, field: str) -> int:
    """Return a whole number.

    Args:
        value: As TOML has it.
        field: Where, for messages.

    Raises:
        InvalidSpecError: It is something else.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidSpecError(f"{field} = {shown(value)}: expected a whole number")
    return value


def switch(value: object, field: str) -> bool:
    """Return true or false.

    Args:
        value: As TOML has it.
        field: Where, for messages.

    Raises:
        InvalidSpecError: It is something else.
    """
    if not isinstance(value, bool):
        raise InvalidSpecError(f"{field} = {shown(value)}: expected true or false")
    return value


def name_of(table: Mapping[str, Any], where: str, key: str = "name") -> str:
    """Return a name that a table must have.

    Args:
        table: As TOML has it.
        where: Where it is, for messages.
        key: Of the name.

    Raises:
        InvalidSpecError: It is missing, empty or no text.
    """
    name = table.get(key)
    if not isinstance(name, str) or not name:
        raise InvalidSpecError(f"{where}: {key} = {shown(name)}: expected a text")
    return printable(name, f"{where}: {key}")


def printable(name: str, field: str) -> str:
    """Return a name as it is, for it will be printed.

    Args:
        name: The name.
        field: Where, for messages.

    Raises:
        InvalidSpecError: It has line breaks, colours or other characters that steer a terminal.
    """
    if not name.isprintable():
        raise InvalidSpecError(
            f"{field} = {shown(name)}: expected a name without line breaks and control characters"
        )
    return name


def one_of(value: object, choices: Iterable[str], field: str) -> str:
    """Return a word out of several.

    Args:
        value: As TOML has it.
        choices: What it may be.
        field: Where, for messages.

    Raises:
        InvalidSpecError: It is another.
    """
    allowed = list(choices)
    if not isinstance(value, str) or value not in allowed:
        raise InvalidSpecError(f"{field} = {shown(value)}: expected one of {', '.join(allowed)}")
    return value


def tables(value: object, where: str) -> list[Mapping[str, Any]]:
    """Return an array of tables.

    Args:
        value: As TOML has it.
        where: Where it is, for messages.

    Raises:
        InvalidSpecError: It is something else.
    """
    if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
        raise InvalidSpecError(f"{where} = {shown(value)}: expected an array of tables")
    return value


def known_keys(table: Mapping[str, Any], keys: Iterable[str], where: str) -> None:
    """Refuse keys that mean nothing.

    Args:
        table: As TOML has it.
        keys: Those that mean something.
        where: Where it is, for messages.

    Raises:
        InvalidSpecError: A key is unknown.
    """
    known = sorted(keys)
    for key in table:
        if key not in known:
            hint = did_you_mean(key[:80], known)
            raise InvalidSpecError(f"{where}: unknown key {shown(key)}{hint}")
