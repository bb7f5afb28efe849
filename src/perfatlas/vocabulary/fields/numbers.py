"""Numbers as users write them: with a unit, a suffix or a percent sign."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

from perfatlas.quantities import PerfatlasError, parse_duration, parse_quantity, parse_rate

if TYPE_CHECKING:
    from collections.abc import Callable

LARGEST_COUNT: Final = 10**9  # above any cluster, batch or context, and far from overflow
LONGEST_S: Final = 5e6  # simulated time; int64 picoseconds overflow at 9.2e6 s
LONGEST: Final = 80  # characters of a number
_PLAIN: Final = re.compile(
    r"\s*[-+]?(?:(?:\d[\d_]*\.?\d*|\.\d+)(?:e[-+]?\d+)?|inf|infinity|nan)\s*", re.IGNORECASE
)
_SUFFIXED: Final = re.compile(
    r"\s*([-+]?(?:\d{1,3}(?:,\d{3})+|\d[\d_]*\.?\d*|\.\d+))\s*([kmgtKMGT]i?)?\s*"
)
_POWERS: Final = {"k": 1, "m": 2, "g": 3, "t": 4}


def _counted(text: str) -> float:
    """Return a count; k, m, g and t are decimal, K, M, G and T binary, as in vLLM."""
    found = _SUFFIXED.fullmatch(text)
    if found is None:
        raise ValueError('expected a number, such as 4096, "4k" (4,000) or "4K" (4,096)')
    digits, suffix = found.groups()
    number = float(digits.replace("_", "").replace(",", ""))
    if suffix is None:
        return number
    step = 1000.0 if suffix.islower() and not suffix.endswith("i") else 1024.0
    return number * step ** _POWERS[suffix[0].lower()]


def _share(text: str) -> float:
    number, percent, rest = text.strip().partition("%")
    if not percent or rest or not _PLAIN.fullmatch(number):
        raise ValueError('expected a fraction, such as 0.9 or "90%"')
    return float(number) / 100.0


def _quantity(dimension: str) -> Callable[[str], float]:
    return lambda text: parse_quantity(text, dimension)


READERS: Final[dict[str, Callable[[str], float]]] = {
    "": _counted,
    "s": lambda text: parse_duration(text, field="it"),
    "1/s": lambda text: parse_rate(text, field="it"),
    "bytes": _quantity("bytes"),
    "bytes/s": _quantity("bytes_per_s"),
    "W": _quantity("w"),
    "fraction": _share,
}
EXAMPLES: Final = {
    "s": 'seconds, or a time such as "30 min" or "3h"',
    "1/s": 'a number per second, or a rate such as "90/min"',
    "bytes": 'bytes, or a size such as "200 GB"',
    "bytes/s": 'bytes/s, or a bandwidth such as "50 GB/s"',
    "W": 'watts, or a power such as "700 W"',
    "fraction": 'a fraction such as 0.9, or "90%"',
}


@dataclass(frozen=True, kw_only=True)
class Number:
    """Unit and bounds of a numeric field.

    Args:
        unit: SI unit of the value: "" (a count or a ratio), s, 1/s, bytes, bytes/s, W, fraction.
            Text with another unit of the same dimension is converted.
        at_least: Inclusive minimum.
        at_most: Inclusive maximum.
        above: Exclusive minimum.
        below: Exclusive maximum.
        finite: Whether infinity is rejected.
    """

    unit: str = ""
    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None
    below: float | None = None
    finite: bool = True

    def read(self, value: object) -> object:
        """Return text with a unit as a number [unit]; other values unchanged.

        Args:
            value: The value as the user wrote it.

        Raises:
            ValueError: The text is not a number with a unit of this dimension, or is a boolean.

        Example:
            >>> from perfatlas.vocabulary.fields import Number
            >>> Number(unit="s").read("3h"), Number().read("4k"), Number().read("4K")
            (10800.0, 4000, 4096)
        """
        if isinstance(value, bool):
            raise ValueError("expected a number, not true or false")  # noqa: TRY004 - pydantic's
        if not isinstance(value, str) or len(value) > LONGEST or _PLAIN.fullmatch(value):
            return value
        try:
            found = READERS[self.unit](value)
        except PerfatlasError:
            raise ValueError(f"expected {EXAMPLES[self.unit]}") from None
        return int(found) if found.is_integer() and not self.unit else found

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:  # noqa: ANN401 - pydantic's protocol
        """Return the pydantic schema: text is read first, then the bounds are checked."""
        from pydantic_core import core_schema

        bounds = {"ge": self.at_least, "le": self.at_most, "gt": self.above, "lt": self.below}
        inner = handler(source)
        number = inner["schema"] if inner["type"] == "function-before" else inner
        number |= {name: bound for name, bound in bounds.items() if bound is not None}
        if number["type"] == "float" and self.finite:
            number["allow_inf_nan"] = False
        return core_schema.no_info_before_validator_function(self.read, inner)


Count = Annotated[int, Number(at_least=1, at_most=LARGEST_COUNT)]
CountOrZero = Annotated[int, Number(at_least=0, at_most=LARGEST_COUNT)]
