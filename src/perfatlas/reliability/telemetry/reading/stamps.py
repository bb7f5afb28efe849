"""Times in logs as seconds since 1970-01-01 UTC, with or without time zone or year.

A time without time zone is an error unless the zone is specified, as the local zone may differ from
that of the cluster.
"""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from perfatlas.quantities import InvalidSpecError, repr_for_error

_ZONE_HELP: Final = "use 'UTC', or a name of the tz database such as 'Europe/Berlin'"
_FRACTION: Final = re.compile(r"[.,](\d+)")
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_FIRST_S: Final = 0.0
_LAST_S: Final = dt.datetime(2200, 1, 1, tzinfo=dt.UTC).timestamp()


@lru_cache(maxsize=64)
def zone_of(name: str) -> dt.tzinfo:
    """Return the time zone with a name.

    Args:
        name: "UTC" or a name of the tz database.

    Raises:
        InvalidSpecError: The time zone is unknown.
    """
    if name.upper() in ("UTC", "Z"):
        return dt.UTC
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as problem:
        raise InvalidSpecError(
            f"zone = {repr_for_error(name)} is not a time zone; {_ZONE_HELP}"
        ) from problem


@dataclass(frozen=True, kw_only=True)
class LogClock:
    """Information that the times of a log omit."""

    zone: str | None = None  # Time zone of times without one
    year: int | None = None  # Year of the first line, where times have none (classic syslog)
    boot_s: float | None = None  # Boot time [s since 1970-01-01 UTC], where times count from boot
    node: str = ""  # Host of the log, where lines have none


@lru_cache(maxsize=4096)
def iso_seconds(text: str, zone: str | None) -> float:
    """Return an ISO 8601 time as seconds since 1970-01-01 UTC [s].

    Args:
        text: "2026-01-02T03:04:05.678Z", with an offset, or without, where `zone` applies.
        zone: Time zone of a time without an offset.

    Raises:
        InvalidSpecError: It is not such a time, has no time zone and `zone` is None, or lies
            outside the years 1970 to 2199.

    Limits: an ambiguous local time (at the end of daylight saving time) is taken as the first.

    Example:
        >>> from perfatlas.reliability.telemetry.reading import iso_seconds
        >>> iso_seconds("1970-01-01T01:00:00+01:00", None)
        0.0
    """
    return checked_s((moment_of(text, zone) - _EPOCH) / dt.timedelta(seconds=1), text)


def checked_s(seconds: float, written: object) -> float:
    """Return a time within the valid range [s since 1970-01-01 UTC].

    Args:
        written: The time as written in the log, for the message.

    Raises:
        InvalidSpecError: It lies outside the years 1970 to 2199.
    """
    if _FIRST_S <= seconds < _LAST_S:
        return float(seconds)
    if isinstance(written, str):
        raise InvalidSpecError(f"{repr_for_error(written)} is not between the years 1970 and 2199")
    raise InvalidSpecError(
        f"{repr_for_error(written)} s since 1970 is not between the years 1970 and 2199; is it in"
        " ms or ns?"
    )


def moment_of(text: str, zone: str | None) -> dt.datetime:
    """Return an ISO 8601 time with its time zone.

    Args:
        text: As for `iso_seconds`.
        zone: As for `iso_seconds`.
    """
    plain = _FRACTION.sub(lambda part: f".{part.group(1)[:6]:0<6}", text.strip(), count=1)
    try:
        moment = dt.datetime.fromisoformat(plain)
    except ValueError as problem:
        raise InvalidSpecError(
            f"{repr_for_error(text)} is not a time; expected a form such as 2026-01-02T03:04:05"
        ) from problem
    if len(plain) <= len("2026-01-02"):
        raise InvalidSpecError(
            f"{repr_for_error(text)} is a date without a time; expected a form such as"
            f" {plain}T00:00:00Z"
        )
    if moment.tzinfo is not None:
        return moment
    if zone is None:
        raise InvalidSpecError(f"{repr_for_error(text)} has no time zone; {_ZONE_HELP}")
    return moment.replace(tzinfo=zone_of(zone))


def epoch_seconds(value: object, zone: str | None) -> float:
    """Return a time as a number or text [s since 1970-01-01 UTC].

    Args:
        value: A number [s since 1970], or ISO 8601 text.
        zone: Time zone of a text without an offset.

    Raises:
        InvalidSpecError: It is not one of these, or lies outside the years 1970 to 2199.
    """
    if isinstance(value, str):
        return iso_seconds(value, zone)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidSpecError(f"{repr_for_error(value)} is not a time")
    return checked_s(value, value)
