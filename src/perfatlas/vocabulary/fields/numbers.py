"""Numbers as users write them: with a unit, a suffix or a percent sign."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from operator import ge, gt, le, lt
from typing import TYPE_CHECKING, Annotated, Any, Final

from perfatlas import quantities

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MAX_COUNT: Final = 10**9  # above any cluster, batch or context, and far from overflow
MAX_S: Final = 5e6  # simulated time; int64 picoseconds overflow at 9.2e6 s
MAX_NUMBER_LENGTH: Final = 80  # characters of a number
_DECIMAL: Final = re.compile(
    r"\s*[-+]?(?:(?:\d[\d_]*\.?\d*|\.\d+)(?:e[-+]?\d+)?|inf|infinity|nan)\s*", re.IGNORECASE
)
_INTEGER: Final = re.compile(r"\s*[-+]?\d[\d_]*\s*")
_SUFFIXED: Final = re.compile(
    r"\s*([-+]?(?:\d{1,3}(?:,\d{3})+|\d[\d_]*\.?\d*|\.\d+))\s*([kmgtKMGT]i?)?\s*"
)
_POWERS: Final = {"k": 1, "m": 2, "g": 3, "t": 4}
_BINARY: Final = re.compile(r"\s*(\d+(?:\.\d+)?)([kmgtKMGT])\s*")
_TOKENS: Final = re.compile(r"\s*([\d_,]*\d(?:\.\d+)?)\s*([kmbtKMBT])\s*")
_TOKEN_POWERS: Final = {"k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}
MIN_PERCENTAGE: Final = 2.0  # a fraction from here on is likely meant as a percentage


def _counted(text: str, *, binary: bool = False) -> float:
    """Return a count; k, m, g and t are decimal, Ki, Mi, Gi and Ti binary."""
    match = _SUFFIXED.fullmatch(text)
    if match is None:
        capital = '"4K" (4,096)' if binary else '"4Ki" (4,096)'
        raise ValueError(f'expected a number, such as 4096, "4k" (4,000) or {capital}')
    digits, suffix = match.groups()
    number = float(digits.replace("_", "").replace(",", ""))
    if suffix is None:
        return number
    by_1024 = suffix.endswith("i") or (binary and suffix.isupper())
    return number * (1024.0 if by_1024 else 1000.0) ** _POWERS[suffix[0].lower()]


def _tokens(text: str) -> float:
    """Return a number of tokens; K, M, B and T are decimal, as in "15T tokens"."""
    match = _TOKENS.fullmatch(text)
    if match is not None:
        return float(match[1].replace("_", "").replace(",", "")) * _TOKEN_POWERS[match[2].lower()]
    try:
        return _counted(text)
    except ValueError:
        raise quantities.InvalidSpecError(
            "no number of tokens"
        ) from None  # told with the unit of the field


def _percent(text: str) -> float:
    return 100.0 * _share(text)


def _share(text: str) -> float:
    number, percent, rest = text.strip().partition("%")
    if not percent or rest or not _DECIMAL.fullmatch(number):
        raise quantities.InvalidSpecError("no percentage")  # told with the unit of the field
    return float(number) / 100.0


def _quantity(dimension: str) -> Callable[[str], float]:
    return lambda text: quantities.parse_quantity(text, dimension)


READERS: Final[dict[str, Callable[[str], float]]] = {
    "tokens": _tokens,
    "s": lambda text: quantities.parse_duration(text, field="it"),
    "1/s": lambda text: quantities.parse_rate(text, field="it"),
    "bytes": _quantity("bytes"),
    "bytes/s": _quantity("bytes_per_s"),
    "W": _quantity("w"),
    "fraction": _share,
    "ratio": _share,
    "percent": _percent,
}
EXAMPLES: Final = {
    "tokens": 'a number of tokens, such as 15e12, "15T" or "300B" (decimal)',
    "s": 'seconds, or a time such as "30 min" or "3h"',
    "1/s": 'a number per second, or a rate such as "90/min"',
    "bytes": 'bytes, or a size such as "200 GB"',
    "bytes/s": 'bytes/s, or a bandwidth such as "50 GB/s"',
    "W": 'watts, or a power such as "700 W"',
    "fraction": 'a fraction such as 0.9, or "90%"',
    "ratio": 'a ratio such as 0.9, or "90%"',
    "percent": 'a percentage such as 90, or "90%"',
}


@dataclass(frozen=True, kw_only=True)
class Number:
    """Unit and bounds of a numeric field."""

    # SI unit of the value: "" (a count), tokens (of a training budget), s, 1/s, bytes, bytes/s, W,
    # fraction, ratio (a fraction that may exceed 1) or percent. Text with another unit of the same
    # dimension is converted.
    unit: str = ""
    at_least: float | None = None  # Inclusive minimum
    at_most: float | None = None  # Inclusive maximum
    above: float | None = None  # Exclusive minimum
    below: float | None = None  # Exclusive maximum
    finite: bool = True  # Whether infinity is rejected
    # Whether K, M and G without a unit are powers of 1,024, as vLLM reads numbers of tokens and
    # nccl-tests sizes; otherwise powers of 1,000, as GPUs, nodes and requests are counted
    binary_suffixes: bool = False

    def read(self, value: object) -> object:
        """Return text as a number [unit]; other values unchanged.

        Raises:
            ValueError: The text is not a number with a unit of this dimension, the value is a
                boolean, or it is far above the maximum of a fraction.

        Example:
            >>> from perfatlas.vocabulary.fields import Number
            >>> Number(unit="s").read("3h"), Number().read("16K"), Number().read("16Ki")
            (10800.0, 16000, 16384)
            >>> Number(binary_suffixes=True).read("4k"), Number(binary_suffixes=True).read("4K")
            (4000, 4096)
        """
        if isinstance(value, bool):
            raise ValueError("expected a number, not true or false")  # noqa: TRY004 - as all readers
        if isinstance(value, str):
            if len(value) > MAX_NUMBER_LENGTH:
                raise ValueError(f"must have at most {MAX_NUMBER_LENGTH} characters")
            if not _DECIMAL.fullmatch(value):
                return self._with_unit(value)
            value = int(value) if _INTEGER.fullmatch(value) else float(value)
        if self.unit == "fraction" and isinstance(value, int | float):
            self._refuse_percentage(value)
        return value

    def _with_unit(self, text: str) -> float:
        unsigned = text.strip().removeprefix("-")
        binary = _BINARY.fullmatch(unsigned) if self.binary_suffixes and self.unit else None
        try:
            if self.unit and self.unit not in READERS:
                raise ValueError(f"expected a number [{self.unit}]")
            if not self.unit:
                number = _counted(unsigned, binary=self.binary_suffixes)
            elif binary:
                number = float(binary[1]) * 1024.0 ** _POWERS[binary[2].lower()]
            else:
                number = READERS[self.unit](unsigned)
        except quantities.PerfatlasError:
            raise ValueError(f"expected {EXAMPLES[self.unit]}") from None
        number = -number if text.strip().startswith("-") else number
        return int(number) if number.is_integer() and not self.unit else number

    def _refuse_percentage(self, value: float) -> None:
        """Reject 90 if 90% is meant."""
        most = self.at_most if self.below is None else self.below
        if most is not None and value > most and MIN_PERCENTAGE <= value <= 100.0:
            raise ValueError(
                f'{value:g} is {value:,.0%}; for {value:g}% write {value / 100.0:g} or "{value:g}%"'
            )

    def checked(self, value: Any, *, whole: bool) -> int | float:  # noqa: ANN401 - a cell that was read
        """Return a number within the bounds.

        Args:
            value: What `read` returned.
            whole: Whether it must be an integer.

        Raises:
            ValueError: What was expected instead.
        """
        expected = "expected an integer" if whole else "expected a number"
        if isinstance(value, str | bytes):
            raise ValueError(expected)  # noqa: TRY004 - as all readers
        try:
            number = value if isinstance(value, int) and whole else float(value)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(expected) from None
        if isinstance(number, float) and not math.isfinite(number) and (whole or self.finite):
            raise ValueError("expected a finite number")
        if isinstance(number, float) and whole:
            if not number.is_integer():
                raise ValueError(expected)
            number = int(number)
        for bound, breaks, words in (
            (self.at_most, gt, "must be at most"),
            (self.below, ge, "must be less than"),
            (self.at_least, lt, "must be at least"),
            (self.above, le, "must be greater than"),
        ):
            if bound is not None and breaks(number, bound):
                raise ValueError(f"{words} {bound:,}" if whole else f"{words} {bound:g}")
        return number

    def checked_all(
        self, numbers: Sequence[float], *, whole: bool
    ) -> tuple[list[Any], dict[int, Exception]] | None:
        """Return numbers (V), if all are within the bounds and exact; None otherwise."""
        import numpy as np  # --help reads fields without it

        try:
            value_V = np.array(numbers, np.float64)
        except OverflowError:
            return None
        good = not np.any(np.abs(value_V) > 2.0**53) and (bool(np.all(np.isfinite(value_V))))
        good = good and not (whole and np.any(value_V % 1.0))
        for bound, keeps in (
            (self.at_most, np.less_equal),
            (self.below, np.less),
            (self.at_least, np.greater_equal),
            (self.above, np.greater),
        ):
            good = good and (bound is None or bool(np.all(keeps(value_V, bound))))
        if not good:
            return None
        return value_V.astype(np.int64 if whole else np.float64).tolist(), {}


Share = Annotated[float, Number(unit="fraction", at_least=0.0, at_most=1.0)]
Count = Annotated[int, Number(at_least=1, at_most=MAX_COUNT)]
CountOrZero = Annotated[int, Number(at_least=0, at_most=MAX_COUNT)]
# tokens, or a dimension of a tensor: 4K is 4,096
Size = Annotated[int, Number(at_least=1, at_most=MAX_COUNT, binary_suffixes=True)]
SizeOrZero = Annotated[int, Number(at_least=0, at_most=MAX_COUNT, binary_suffixes=True)]
Bytes = Annotated[float, Number(unit="bytes", above=0.0, at_most=1e17)]
