"""One row of the table of metrics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Better = Literal["higher", "lower"]
# numbers and texts are lists of them, rows a list of objects; an object has parts or members
Holds = Literal["number", "count", "flag", "text", "numbers", "texts", "object", "rows"]
# scaled: with an SI prefix; duration: in days, hours, minutes or seconds; share: in per cent
Shown = Literal["number", "scaled", "duration", "share", "money"]

STATISTICS: Final = ("mean", "p50", "p90", "p95", "p99")
# units whose word in a name is not their symbol in lower case
UNIT_WORDS: Final = {"B": "bytes", "GPU-h": "gpu_hours"}
PER_WORDS: Final = {"B": "byte", "GPU-h": "gpu_hour", "d": "day"}  # after a slash


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """A metric of an answer: the only place of its label and unit.

    Args:
        name: Key of `results`; of a key inside an object or a row, after its name and a dot.
        label: As documents and answers print it.
        short: In at most 18 letters, for narrow terminals and columns; "" is the label.
        unit: SI, or what is counted: "s", "B", "tokens/s"; "1" is a ratio, "" has none.
        shown: How its numbers are written.
        better: Which direction is better; None where neither is.
        has_interval: Whether `_low` and `_high` of its name, a 90 % interval, may stand beside it.
        holds: What its value is where it is no object of statistics.
        verbs: Commands that answer it.
        statistics: Names of the statistics that it is an object of, in `statistics_of`.
        statistics_of: The commands among `verbs` that answer it as an object of statistics.
        asked_with: Fields that a question of its verb needs beside the required ones, so that it is
            answered; the tests ask it.
        parts: Of an object that divides a whole: key -> label; the unit is that of the metric.
        description: What it is, a sentence.
    """

    name: str
    label: str
    short: str = ""
    unit: str = ""
    shown: Shown = "number"
    better: Better | None = None
    has_interval: bool = False
    holds: Holds = "number"
    verbs: tuple[str, ...]
    statistics: tuple[str, ...] = STATISTICS
    statistics_of: tuple[str, ...] = ()
    asked_with: Mapping[str, Any] = field(default_factory=dict)
    parts: Mapping[str, str] = field(default_factory=dict)
    description: str

    @property
    def short_label(self) -> str:
        """Its label where there is little room."""
        return self.short or self.label

    @property
    def key(self) -> str:
        """Its key in the object that holds it."""
        return self.name.rpartition(".")[2]


def ending_of_unit(unit: str) -> str:
    """Return what the name of a metric in a unit ends with, "" of a ratio and of no unit.

    Args:
        unit: As a row has it.

    Example:
        >>> from perfatlas.vocabulary.metrics import ending_of_unit
        >>> ending_of_unit("tokens/s/GPU"), ending_of_unit("B/s"), ending_of_unit("1/d")
        ('tokens_per_s_per_gpu', 'bytes_per_s', 'per_day')
    """
    first, *others = unit.split("/")
    words = [] if first in ("", "1") else [UNIT_WORDS.get(first, first.lower())]
    for one in others:
        *qualified, symbol = one.split()
        words += ["per", *qualified, PER_WORDS.get(symbol, symbol.lower())]
    return "_".join(words)
