"""Laws in a fleet's TOML file, and field readers shared by its tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from perfatlas.files import Array, Duration, Field, Number, Text, Whole, read_fields
from perfatlas.quantities import (
    InvalidSpecError,
    did_you_mean,
    parse_duration,
    parse_rate,
    repr_for_error,
)
from perfatlas.reliability.fleet.laws import (
    Bathtub,
    Constant,
    Empirical,
    Exponential,
    Law,
    LogNormal,
    Weibull,
    check_law,
)
from perfatlas.sampling import rate_posterior

NAME: Final = Text(empty=False, longest=200, expected="a name")
_NUMBER: Final = Field(Number(), required=True)
_TIME: Final = Field(Duration(), required=True)


class _Rate:
    """A rate such as "6.5e-3 /d" or "250 FIT", above zero [1/s]."""

    def read(self, value: object, where: str) -> float:
        rate = parse_rate(value, field=where)
        if rate == 0.0:
            raise InvalidSpecError(f"{where} = 0: omit causes that never fail")
        return rate


class Lifetime:
    """A distribution, written as a time ("10 min") or as a table with `law`."""

    def read(self, value: object, where: str) -> Law:
        """Return the distribution.

        Args:
            where: File, table and key, for messages.

        Raises:
            InvalidSpecError: An unknown distribution or key, a time without a unit, an invalid
                number.
        """
        if not isinstance(value, Mapping):
            return Constant(value_s=parse_duration(value, field=where))
        name = value.get("law")
        if not isinstance(name, str) or name not in _LAWS:
            hint = did_you_mean(name, _LAWS) if isinstance(name, str) else ""
            raise InvalidSpecError(
                f"{where}: law = {repr_for_error(name)} is not one of {', '.join(_LAWS)}{hint}"
            )
        fields, build = _LAWS[name]
        given = read_fields({k: v for k, v in value.items() if k != "law"}, fields, where)
        law = _exponential(given, where) if build is Exponential else build(**given)
        check_law(law, where)
        return law


class TimeOrLaw:
    """A time [s], or the distribution of one."""

    def read(self, value: object, where: str) -> float | Law:
        """Return the time or distribution."""
        return (Lifetime() if isinstance(value, Mapping) else Duration()).read(value, where)


def _exponential(given: Mapping[str, Any], where: str) -> Law:
    ways = [way for way in ("mean_s", "rate", "events") if way in given]
    if len(ways) != 1 or ("exposure_s" in given) != ("events" in given):
        raise InvalidSpecError(
            f"{where}: an exponential lifetime needs mean, or rate, or events with exposure"
        )
    if "events" in given:
        posterior = rate_posterior(given["events"], given["exposure_s"])
        return Exponential(mean_s=1.0 / posterior.mean_per_s)
    return Exponential(mean_s=given["mean_s"] if "mean_s" in given else 1.0 / given["rate"])


def _bathtub(given: Mapping[str, float]) -> Law:
    return Bathtub(
        infant=Weibull(shape=given["infant_shape"], scale_s=given["infant_scale"]),
        chance=Exponential(mean_s=given["chance_mean"]),
        wear=Weibull(shape=given["wear_shape"], scale_s=given["wear_scale"]),
    )


def _time(into: str) -> Field[float]:
    return Field(Duration(), required=True, into=into)


_LAWS: Final[dict[str, tuple[dict[str, Field[Any]], Callable[..., Law]]]] = {
    "constant": ({"value": _time("value_s")}, Constant),
    "exponential": (
        {
            "mean": Field(Duration(), into="mean_s"),
            "rate": Field(_Rate()),
            "events": Field(Whole()),
            "exposure": Field(Duration(), into="exposure_s"),
        },
        Exponential,
    ),
    "weibull": ({"shape": _NUMBER, "scale": _time("scale_s")}, Weibull),
    "lognormal": ({"median": _time("median_s"), "sigma": _NUMBER}, LogNormal),
    "bathtub": (
        {
            "infant_shape": _NUMBER,
            "infant_scale": _TIME,
            "chance_mean": _TIME,
            "wear_shape": _NUMBER,
            "wear_scale": _TIME,
        },
        lambda **given: _bathtub(given),
    ),
    "empirical": (
        {
            "values": Field(
                Array(of=Duration(), expected="an array of times"), required=True, into="values_s"
            )
        },
        Empirical,
    ),
}


def name_of(table: Mapping[str, Any], where: str, key: str = "name") -> str:
    """Return the required name of a table, safe to print.

    Args:
        table: The parsed TOML table.
        where: File and table, for messages.

    Raises:
        InvalidSpecError: It is missing, empty, not a string, or has control characters.
    """
    return NAME.read(table.get(key), f"{where}: {key}")
