"""Parsing and formatting of quantities at the interface; inside perfatlas all numbers are SI."""

from __future__ import annotations

import math
import re
from typing import Final

from perfatlas.quantities.errors import InvalidSpecError

DECIMAL_PREFIXES: Final = {
    "": 1.0,
    "k": 1e3,
    "K": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "P": 1e15,
    "E": 1e18,
    "m": 1e-3,
    "u": 1e-6,
    "n": 1e-9,
}
BINARY_PREFIXES: Final = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}

# dimension -> {unit spelled as written: multiple of the SI base unit}
_MAX_WHOLE: Final = 1e15  # from which on digits do not tell a number
UNITS: Final[dict[str, dict[str, float]]] = {
    "bytes": {"B": 1.0, "byte": 1.0, "bytes": 1.0, "bit": 0.125},
    "bytes_per_s": {"B/s": 1.0, "bit/s": 0.125, "b/s": 0.125, "bps": 0.125},
    "flop_per_s": {"FLOP/s": 1.0, "FLOPS": 1.0, "OP/s": 1.0, "OPS": 1.0},
    "hz": {"Hz": 1.0},
    "s": {"s": 1.0},
    "w": {"W": 1.0},
    "j": {"J": 1.0},
    "count": {"": 1.0},
}
_NUMBER = re.compile(r"^\s*([-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([^\d\s].*?)?\s*$")


def _scale(unit: str, dimension: str) -> float | None:
    units = UNITS[dimension]
    for spelled, base in units.items():
        if not unit.endswith(spelled):
            continue
        prefix = unit[: len(unit) - len(spelled)]
        if prefix in BINARY_PREFIXES and dimension in ("bytes", "bytes_per_s"):
            return base * BINARY_PREFIXES[prefix]
        if prefix in DECIMAL_PREFIXES and (spelled or not prefix):
            return base * DECIMAL_PREFIXES[prefix]
    return None


def parse_quantity(text: str | float, dimension: str, *, field: str = "value") -> float:
    """Return the SI value of a number with a unit, such as "4.8 TB/s" [SI base unit].

    Args:
        text: A string with a unit, or a bare number in SI units.
        dimension: One of `UNITS`: bytes, bytes_per_s, flop_per_s, hz, s, w, j, count.
        field: The name of the field, for the message.

    Raises:
        InvalidSpecError: The text is not a number, not finite, or has a unit of another dimension.

    Example:
        >>> from perfatlas.quantities import parse_quantity
        >>> parse_quantity("4.8 TB/s", "bytes_per_s")
        4800000000000.0
    """
    wanted = ", ".join(u for u in UNITS[dimension] if u) or "a bare number"
    if isinstance(text, bool):
        raise InvalidSpecError(f"{field} = {text!r}: expected a number in {wanted}")
    if isinstance(text, (int, float)):
        value = float(text)
    else:
        match = _NUMBER.match(text)
        if match is None:
            raise InvalidSpecError(f"{field} = {text!r} is not a number; expected {wanted}")
        unit = match.group(2) or ""
        scale = _scale(unit, dimension) if unit else 1.0
        if scale is None:
            raise InvalidSpecError(
                f"{field} = {text!r}: {unit!r} is not a valid unit; expected {wanted}"
                " with an SI prefix (k M G T P, Ki Mi Gi Ti for bytes)"
            )
        value = float(match.group(1).replace("_", "")) * scale
    if not math.isfinite(value):
        raise InvalidSpecError(f"{field} = {text!r} is not finite")
    return value


_SCALES: Final = (
    (1e18, "E"),
    (1e15, "P"),
    (1e12, "T"),
    (1e9, "G"),
    (1e6, "M"),
    (1e3, "k"),
    (1.0, ""),
    (1e-3, "m"),
    (1e-6, "u"),
    (1e-9, "n"),
)


def two_digits(value: float) -> str:
    """Return a number with two significant digits, from 100 on whole, without an exponent.

    Example:
        >>> from perfatlas.quantities import two_digits
        >>> two_digits(0.123), two_digits(9.96), two_digits(234.5), two_digits(15600.0)
        ('0.12', '10', '234', '15,600')
    """
    return significant(value, 2)


def significant(value: float, digits: int = 3) -> str:
    """Return a number with some significant digits, whole from 10^digits on, without an exponent.

    Example:
        >>> from perfatlas.quantities import significant
        >>> significant(0.12345), significant(999.5), significant(31536000.0)
        ('0.123', '1,000', '31,536,000')
    """
    whole = 10.0**digits - 0.5 <= abs(value) < _MAX_WHOLE
    return f"{value:,.0f}" if whole else f"{value:.{digits}g}"


def format_quantity(value: float, unit: str, *, digits: int = 3, exact: bool = True) -> str:
    """Return a value as text with an SI prefix, such as "4.8 TB/s".

    Args:
        value: SI value [unit].
        exact: Drop trailing zeros because the value is a specification. Otherwise it is a result
            and all digits are kept, so that columns align.

    Example:
        >>> from perfatlas.quantities import format_quantity
        >>> format_quantity(0.01, "s"), format_quantity(0.01, "s", exact=False)
        ('10 ms', '10.0 ms')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g} {unit}".strip()
    fitting = (pair for pair in _SCALES if abs(value) >= pair[0] * 0.9995)
    scale, prefix = next(fitting, _SCALES[-1])
    scaled = value / scale
    rounded = abs(float(f"{scaled:.{digits - 1}e}"))  # 9.996 is 10.0, not 10.00
    decimals = max(0, digits - 1 - math.floor(math.log10(rounded)))
    text = f"{scaled:.{decimals}f}"
    if exact and "." in text:
        text = text.rstrip("0").rstrip(".")
    return f"{text} {prefix}{unit}".strip()
