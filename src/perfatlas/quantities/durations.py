"""Durations and rates as text with a mandatory unit."""

from __future__ import annotations

import math
import re
from typing import Final

from perfatlas.quantities.errors import InvalidSpecError, repr_for_error

NANOSECOND_S: Final = 1e-9
MICROSECOND_S: Final = 1e-6
MILLISECOND_S: Final = 1e-3
HOUR_S: Final = 3600.0
DAY_S: Final = 24.0 * HOUR_S
SECONDS: Final = {
    "us": MICROSECOND_S,
    "ms": MILLISECOND_S,
    "s": 1.0,
    "min": 60.0,
    "h": HOUR_S,
    "d": DAY_S,
    "week": 604800.0,
    "y": 31557600.0,  # Julian
}
HOURS_OF_FIT: Final = 1e9  # FIT counts failures in 1e9 device-hours
_NUMBER = r"([-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
_DURATION = re.compile(rf"^\s*{_NUMBER}\s*([a-z]*)\s*$")
_RATE = re.compile(rf"^\s*{_NUMBER}\s*(?:/\s*([a-z]+)|(FIT))?\s*$")


def parse_duration(text: object, *, field: str) -> float:
    """Return a time such as "54 d" in seconds.

    Args:
        text: A number and one of us, ms, s, min, h, d, week, y.
        field: Name of the field, for the message.

    Raises:
        InvalidSpecError: The text has no number or no known unit, or is negative or not finite.

    Example:
        >>> from perfatlas.quantities import parse_duration
        >>> parse_duration("1.5 h", field="interval")
        5400.0
    """
    match = _DURATION.match(text) if isinstance(text, str) else None
    unit = match.group(2) if match else ""
    if match is None or unit not in SECONDS:
        what = "has no time unit" if not unit else f"has the unknown unit {unit!r}"
        if match is None and isinstance(text, str):
            what = "is not a number with a time unit"
        raise InvalidSpecError(
            f"{field} = {repr_for_error(text)} {what}: write a number and one of"
            f" {', '.join(SECONDS)}, "
            'such as "30 min"'
        )
    number = float(match.group(1).replace("_", ""))
    scale = SECONDS[unit]
    # dividing by an exact power of ten rounds once: 5 us are 5e-06 s, not 4.9999999999999996e-06 s
    value = number * scale if scale >= 1.0 else number / round(1.0 / scale)
    return _sound(value, text, field)


def parse_rate(text: object, *, field: str) -> float:
    """Return a rate such as "6.5e-3 /d" or "250 FIT" in 1/s.

    Args:
        text: A number and "/" with a unit of time, or FIT.
        field: Name of the field, for the message.

    Raises:
        InvalidSpecError: The text has no number or no known unit, or is negative or not finite.

    Source: JEDEC JESD85: FIT is failures in 1e9 device-hours.

    Example:
        >>> from perfatlas.quantities import parse_rate
        >>> parse_rate("1e9 FIT", field="rate") * 3600
        1.0
    """
    match = _RATE.match(text) if isinstance(text, str) else None
    unit = (match.group(2) or match.group(3) or "") if match else ""
    if match is None or (unit not in SECONDS and unit != "FIT"):
        raise InvalidSpecError(
            f"{field} = {repr_for_error(text)} is not a rate: write a number and / with one of "
            f'{", ".join(SECONDS)}, such as "6.5e-3 /d", or a number and FIT'
        )
    value = float(match.group(1).replace("_", ""))
    per_s = value / HOURS_OF_FIT / HOUR_S if unit == "FIT" else value / SECONDS[unit]
    return _sound(per_s, text, field)


def _sound(value: float, text: object, field: str) -> float:
    if not math.isfinite(value) or value < 0.0:
        raise InvalidSpecError(
            f"{field} = {repr_for_error(text)}: expected a finite, non-negative number"
        )
    return value
