"""Time, host and message of kernel log lines in various formats.

`journalctl -o short-iso[-precise]` and rsyslog's RFC 5424 timestamps are complete; classic syslog
has no year and no time zone; `dmesg` counts from boot, `dmesg -T` has local time and no host.
Missing parts must be specified; they are not guessed.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Final, NamedTuple

from perfatlas.quantities import InvalidSpecError, repr_for_error
from perfatlas.reliability.telemetry.reading import Clock, checked_s, iso_seconds, zone_of

_ISO: Final = re.compile(
    r"(?:<\d+>(?:\d+ )?)?(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?"
    r"(?:Z|[+-]\d\d:?\d\d)?)(?: (?P<host>[\w.-]+)(?= \S*kernel))?"
)
_SYSLOG: Final = re.compile(
    r"(?:<\d+>)?(?P<month>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +(?P<day>\d{1,2}) "
    r"(?P<time>\d\d:\d\d:\d\d(?:\.\d+)?) (?P<host>[\w.-]+) "
)
_CTIME: Final = re.compile(
    r"(?:kern\s*:\s*\w+\s*:\s*)?\[(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (?P<time>[A-Z][a-z]{2} +\d{1,2} "
    r"\d\d:\d\d:\d\d \d{4})\]"
)
_UPTIME: Final = re.compile(r"(?:kern\s*:\s*\w+\s*:\s*)?(?:<\d+>)?\[ *(?P<seconds>\d+\.\d+)\]")
_KMSG: Final = re.compile(r"\d+,\d+,(?P<micros>[0-9]{1,18}),[^;]*;")
_MONTHS: Final = (
    "Jan",
    "Feb",
    "Mar",
    "Apr",
    "May",
    "Jun",
    "Jul",
    "Aug",
    "Sep",
    "Oct",
    "Nov",
    "Dec",
)


class Stamp(NamedTuple):
    """Time and host of a line.

    Args:
        time_s: Time [s since 1970-01-01 UTC].
        node: Host.
    """

    time_s: float
    node: str


class LineClock:
    """Parser of the timestamps of a log, in order: the year advances where months decrease.

    Args:
        clock: Information that the lines omit.
    """

    def __init__(self, clock: Clock) -> None:
        """Start before the first line."""
        self._clock = clock
        self._year = clock.year
        self._month = 0

    def stamp(self, text: str) -> Stamp:
        """Return time and host of a line.

        Args:
            text: The line.

        Raises:
            InvalidSpecError: The line has no time in a known format, or `clock` lacks a part that
                the format omits.
        """
        if match := _ISO.match(text):
            return self._at(iso_seconds(match["time"], self._clock.zone), match["host"])
        if match := _SYSLOG.match(text):
            return self._at(self._syslog(match), match["host"])
        if match := _CTIME.match(text):
            return self._at(self._ctime(match["time"]), None)
        if match := _KMSG.match(text):
            return self._at(self._boot_s() + int(match["micros"]) * 1e-6, None)
        if match := _UPTIME.match(text):
            return self._at(self._boot_s() + float(match["seconds"]), None)
        raise InvalidSpecError(f"no time at the start of {repr_for_error(text)}")

    def _at(self, time_s: float, host: str | None) -> Stamp:
        node = host or self._clock.node
        if not node:
            raise InvalidSpecError(
                "the line has no host; set the node (node, --node NAME), or write the log with"
                " journalctl -k -o short-iso"
            )
        return Stamp(checked_s(time_s, time_s), node)

    def _boot_s(self) -> float:
        if self._clock.boot_s is None:
            raise InvalidSpecError(
                "the time counts from boot; set boot_s (--boot), the boot time [s since 1970 UTC]"
                " (the line btime of /proc/stat), or write the log with journalctl -k -o short-iso"
            )
        return self._clock.boot_s

    def _syslog(self, match: re.Match[str]) -> float:
        if self._year is None:
            raise InvalidSpecError(
                "the time has no year; set the year of the first line (year, --year 2026)"
            )
        month = _MONTHS.index(match["month"]) + 1
        # A line late by a day does not advance the year, December before January does.
        if self._month == 12 and month == 1:
            self._year += 1
        elif self._month == 1 and month == 12:
            self._year -= 1
        self._month = month
        stamp = f"{self._year}-{month:02}-{int(match['day']):02}T{match['time']}"
        return iso_seconds(stamp, self._clock.zone)

    def _ctime(self, text: str) -> float:
        if self._clock.zone is None:
            raise InvalidSpecError(
                f"{repr_for_error(text)} has no time zone; set zone (--zone UTC)"
            )
        try:
            moment = dt.datetime.strptime(text, "%b %d %H:%M:%S %Y")  # noqa: DTZ007
        except ValueError as problem:
            raise InvalidSpecError(f"{repr_for_error(text)} is not a time") from problem
        return moment.replace(tzinfo=zone_of(self._clock.zone)).timestamp()
