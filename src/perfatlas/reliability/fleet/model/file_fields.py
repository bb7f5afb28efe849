"""Laws in a fleet's TOML file, and fields of its tables from the types of what they describe."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from perfatlas import quantities
from perfatlas.files import (
    Array,
    Duration,
    Field,
    Flag,
    Number,
    Reader,
    Record,
    Text,
    Whole,
    read_fields,
)
from perfatlas.reliability.fleet import laws
from perfatlas.sampling import rate_posterior

NAME: Final = Text(empty=False, longest=200, expected="a name")
_READERS: Final[Mapping[Any, Reader[Any]]] = {
    int: Whole(),
    float: Number(),
    bool: Flag(),
    str: Text(longest=NAME.longest, expected="a name"),
}
_NUMBER: Final = Field(Number(), required=True)
_TIME: Final = Field(Duration(), required=True)


class _Rate:
    """A rate such as "6.5e-3 /d" or "250 FIT", above zero [1/s]."""

    def read(self, value: object, where: str) -> float:
        rate = quantities.parse_rate(value, field=where)
        if rate == 0.0:
            raise quantities.InvalidSpecError(f"{where} = 0: omit causes that never fail")
        return rate


class Lifetime:
    """A distribution, written as a time ("10 min") or as a table with `law`."""

    def read(self, value: object, where: str) -> laws.Law:
        """Return the distribution."""
        if not isinstance(value, Mapping):
            return laws.Constant(value_s=quantities.parse_duration(value, field=where))
        name = value.get("law")
        if not isinstance(name, str) or name not in _LAWS:
            hint = quantities.did_you_mean(name, _LAWS) if isinstance(name, str) else ""
            raise quantities.InvalidSpecError(
                f"{where}: law = {quantities.repr_for_error(name)} is not one of"
                f" {', '.join(_LAWS)}{hint}"
            )
        fields, build = _LAWS[name]
        parameters = read_fields({k: v for k, v in value.items() if k != "law"}, fields, where)
        law = _exponential(parameters, where) if build is laws.Exponential else build(**parameters)
        laws.check_law(law, where)
        return law


class TimeOrLaw:
    """A time [s], or the distribution of one."""

    def read(self, value: object, where: str) -> float | laws.Law:
        """Return the time or distribution."""
        return (Lifetime() if isinstance(value, Mapping) else Duration()).read(value, where)


def _exponential(fields: Mapping[str, Any], where: str) -> laws.Law:
    ways = [way for way in ("mean_s", "rate", "events") if way in fields]
    if len(ways) != 1 or ("exposure_s" in fields) != ("events" in fields):
        raise quantities.InvalidSpecError(
            f"{where}: an exponential lifetime needs mean, or rate, or events with exposure"
        )
    if "events" in fields:
        posterior = rate_posterior(fields["events"], fields["exposure_s"])
        return laws.Exponential(mean_s=1.0 / posterior.mean_per_s)
    return laws.Exponential(mean_s=fields["mean_s"] if "mean_s" in fields else 1.0 / fields["rate"])


def _bathtub(**fields: float) -> laws.Law:
    return laws.Bathtub(
        infant=laws.Weibull(shape=fields["infant_shape"], scale_s=fields["infant_scale"]),
        chance=laws.Exponential(mean_s=fields["chance_mean"]),
        wear=laws.Weibull(shape=fields["wear_shape"], scale_s=fields["wear_scale"]),
    )


def fields_of(described: type, *left_out: str) -> dict[str, Field[Any]]:
    """Return the fields of a table by key, from a dataclass: `lag_s`, a time, has the key `lag`."""
    fields: dict[str, Field[Any]] = {}
    hints = get_type_hints(described)
    for item in dataclasses.fields(described):
        if item.name in left_out:
            continue
        hint, key = hints[item.name], item.name
        reader: Reader[Any]
        kinds = set(get_args(hint) or (hint,)) - {NoneType}
        if get_origin(hint) is Literal:
            reader = Text(choices=get_args(hint))
        elif item.name == "name":
            reader = NAME
        elif laws.Exponential in kinds:
            reader = TimeOrLaw() if float in kinds else Lifetime()
        elif float in kinds and key.endswith("_s"):
            reader = Duration()
        else:
            kind = kinds.pop()
            reader = _READERS.get(kind) or Record(fields=fields_of(kind), build=kind)
        required = item.default is dataclasses.MISSING
        key = key.removesuffix("_s") if float in kinds else key
        fields[key] = Field(reader, required=required, into=item.name)
    return fields


_LAWS: Final[dict[str, tuple[dict[str, Field[Any]], Callable[..., laws.Law]]]] = {
    "constant": (fields_of(laws.Constant), laws.Constant),
    "exponential": (
        {
            "mean": Field(Duration(), into="mean_s"),
            "rate": Field(_Rate()),
            "events": Field(Whole()),
            "exposure": Field(Duration(), into="exposure_s"),
        },
        laws.Exponential,
    ),
    "weibull": (fields_of(laws.Weibull), laws.Weibull),
    "lognormal": (fields_of(laws.LogNormal), laws.LogNormal),
    "bathtub": (
        {
            "infant_shape": _NUMBER,
            "infant_scale": _TIME,
            "chance_mean": _TIME,
            "wear_shape": _NUMBER,
            "wear_scale": _TIME,
        },
        _bathtub,
    ),
    "empirical": (
        {
            "values": Field(
                Array(of=Duration(), expected="an array of times"), required=True, into="values_s"
            )
        },
        laws.Empirical,
    ),
}


def name_of(table: Mapping[str, Any], where: str, key: str = "name") -> str:
    """Return the required name of a table, safe to print."""
    return NAME.read(table.get(key), f"{where}: {key}")
