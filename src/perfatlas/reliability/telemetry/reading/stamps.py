"""Times in logs as seconds since 1970-01-01 UTC, with or without time zone or year.

A time without time zone is an error unless the zone is specified, as the local zone may differ from
that of the cluster.
"""

from __future__ import annotations

import datetime as dt
import math
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


def check_time_span(name: str, seconds: float) -> None:
    """Raise for a time span that is negative or not finite."""
    if not 0.0 <= seconds < math.inf:
        raise InvalidSpecError(
            f"{name} = {repr_for_error(seconds)}: expected a finite time, 0 s or more"
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


_MONTHS: Final = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_FACILITY: Final = r"(?:kern\s*:\s*\w+\s*:\s*)?"
# The start of a line of a kernel log, by the tool that wrote it; the first match applies.
_STARTS: Final = {
    "journalctl -o short-iso, RFC 5424": re.compile(
        r"(?:<\d+>(?:\d+ )?)?(?P<iso>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?"
        r"(?:Z|[+-]\d\d:?\d\d)?)(?: (?P<host>[\w.-]+)(?= \S*kernel))?"
    ),
    "classic syslog": re.compile(
        rf"(?:<\d+>)?(?P<month>{_MONTHS}) +(?P<day>\d{{1,2}}) "
        r"(?P<syslog>\d\d:\d\d:\d\d(?:\.\d+)?) (?P<host>[\w.-]+) "
    ),
    "dmesg -T": re.compile(
        rf"{_FACILITY}\[(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (?P<ctime>[A-Z][a-z]{{2}} +\d{{1,2}} "
        r"\d\d:\d\d:\d\d \d{4})\]"
    ),
    "/dev/kmsg": re.compile(r"\d+,\d+,(?P<boot_us>[0-9]{1,18}),[^;]*;"),
    "dmesg": re.compile(rf"{_FACILITY}(?:<\d+>)?\[ *(?P<boot_s>\d+\.\d+)\]"),
}


class LineClock:
    """Reader of time and host of the lines of a log, in order.

    Args:
        clock: Information that the lines omit.
    """

    def __init__(self, clock: LogClock) -> None:
        """Start before the first line."""
        self._clock = clock
        self._year = clock.year
        self._month = 0

    def stamp(self, text: str) -> tuple[float, str]:
        """Return time [s since 1970-01-01 UTC] and host of a line."""
        for pattern in _STARTS.values():
            if match := pattern.match(text):
                parts = match.groupdict()
                time_s = self._time_s(parts)
                node = parts.get("host") or self._clock.node
                if not node:
                    raise InvalidSpecError(
                        "the line has no host; set the node (node, --node NAME), or write the log"
                        " with journalctl -k -o short-iso"
                    )
                return checked_s(time_s, time_s), node
        raise InvalidSpecError(f"no time at the start of {repr_for_error(text)}")

    def _time_s(self, parts: dict[str, str]) -> float:
        zone = self._clock.zone
        if "iso" in parts:
            return iso_seconds(parts["iso"], zone)
        if "syslog" in parts:
            year, month = self._year_of(parts["month"])
            return iso_seconds(f"{year}-{month:02}-{int(parts['day']):02}T{parts['syslog']}", zone)
        if "ctime" in parts:
            written = repr_for_error(parts["ctime"])
            if zone is None:
                raise InvalidSpecError(f"{written} has no time zone; set zone (--zone UTC)")
            try:
                moment = dt.datetime.strptime(parts["ctime"], "%b %d %H:%M:%S %Y")  # noqa: DTZ007
            except ValueError as problem:
                raise InvalidSpecError(f"{written} is not a time") from problem
            return moment.replace(tzinfo=zone_of(zone)).timestamp()
        if self._clock.boot_s is None:
            raise InvalidSpecError(
                "the time counts from boot; set boot_s (--boot), the boot time [s since 1970 UTC]"
                " (the line btime of /proc/stat), or write the log with journalctl -k -o short-iso"
            )
        since_boot_s = (
            int(parts["boot_us"]) * 1e-6 if "boot_us" in parts else float(parts["boot_s"])
        )
        return self._clock.boot_s + since_boot_s

    def _year_of(self, name: str) -> tuple[int, int]:
        """Return year and month of a line; the year advances where months decrease."""
        if self._year is None:
            raise InvalidSpecError(
                "the time has no year; set the year of the first line (year, --year 2026)"
            )
        month = _MONTHS.split("|").index(name) + 1
        # A line late by a day does not advance the year, December before January does.
        if self._month == 12 and month == 1:
            self._year += 1
        elif self._month == 1 and month == 12:
            self._year -= 1
        self._month = month
        return self._year, month
