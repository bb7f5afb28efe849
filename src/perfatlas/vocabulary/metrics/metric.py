"""One row of the table of metrics."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Better = Literal["higher", "lower"]
# "numbers" and "texts" are lists, "rows" a list of objects; an object has parts or members
ValueType = Literal["number", "count", "flag", "text", "numbers", "texts", "object", "rows"]
# scaled: with an SI prefix; duration: in days, hours, minutes or seconds; share: in percent
# points: of a benchmark in percent
Shown = Literal[
    "", "number", "scaled", "duration", "share", "money", "mass", "area", "points", "decibels"
]

STATISTICS: Final = ("mean", "p50", "p90", "p95", "p99")
UNITS: Final = (
    *("s", "cycles", "B", "FLOP", "J", "W", "tokens", "GPU-hours", "1/d", "requests/s", "B/s"),
    *("FLOP/s", "tokens/s", "tokens/s/GPU", "tokens/s/user", "candidates/cpu s", "dB"),
    *("USD", "USD/hour", "USD/million tokens", "USD/million output tokens"),
    *("USD/useful GPU-hour", "USD/million input tokens"),
    *("1/s", "1/s/GPU", "USD/million items", "gCO2/million items"),
    "USD/million cached input tokens",
    *("mm2", "W/s"),
    *("gCO2", "gCO2/hour", "gCO2/million tokens", "gCO2/million output tokens"),
)
SCALED: Final = ("s", "B", "FLOP", "J", "W", "B/s", "FLOP/s", "W/s")  # shown with SI prefixes
# words in names of units whose word is not their symbol in lower case
UNIT_WORDS: Final = {"B": "bytes", "GPU-hours": "gpu_hours"}
PER_WORDS: Final = {"B": "byte", "GPU-hour": "gpu_hour", "d": "day"}  # after a slash


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """A metric of an answer, with its label and unit."""

    # Key in `results`; for a key inside an object or a row, prefixed by its name and a dot
    name: str
    label: str  # Label in documents and answers
    short: str = ""  # Label of at most 18 characters for narrow terminals; "" uses `label`
    # SI unit or counted item: "s", "B", "tokens/s"; "1" is a ratio. "" follows from the name, which
    # ends as its unit does; counts, texts and flags have none.
    unit: str = ""
    shown: Shown = ""  # Number format; "" follows from the unit
    better: Better | None = None  # Better direction, if any
    has_interval: bool = False  # Whether a 90% interval, `_low` and `_high`, may accompany it
    holds: ValueType = "number"  # Type of its value, unless it is an object of statistics
    verbs: tuple[str, ...] = ()  # Commands that report it; none are those of its table
    # Statistics that it has, for the commands in `statistics_of`
    statistics: tuple[str, ...] = STATISTICS
    statistics_of: tuple[str, ...] = ()  # Commands that report it as an object of statistics
    rows_of: tuple[str, ...] = ()  # Commands that report it as a list of objects
    # Fields, beside the required ones, that make a command report it; for tests
    asked_with: Mapping[str, Any] = field(default_factory=dict)
    # Labels of the parts, by key, if it divides a whole; the unit is that of the metric
    parts: Mapping[str, str] = field(default_factory=dict)
    description: str

    def __post_init__(self) -> None:
        """Take the unit from the name, and the number format from the unit."""
        measured = self.holds in ("number", "numbers", "object")
        if not self.unit:
            unit = "1" if self.shown == "share" else _unit_of(self.key) if measured else ""
            object.__setattr__(self, "unit", unit)
        if not self.shown:
            kinds = {"USD": "money", "gCO2": "mass", "mm2": "area", "dB": "decibels"}
            shown = (
                "scaled" if self.unit in SCALED else kinds.get(self.unit.split("/")[0], "number")
            )
            object.__setattr__(self, "shown", shown)

    @property
    def short_label(self) -> str:
        """The label for narrow columns."""
        return self.short or self.label

    @property
    def key(self) -> str:
        """The key inside its parent object."""
        return self.name.rpartition(".")[2]


def reported_by(*metrics: Metric, verbs: tuple[str, ...]) -> tuple[Metric, ...]:
    """Return metrics of which those without commands are reported by the given ones."""
    return tuple(metric if metric.verbs else replace(metric, verbs=verbs) for metric in metrics)


def ending_of_unit(unit: str) -> str:
    """Return the ending of the name of a metric in a unit, "" for a ratio and for no unit.

    Example:
        >>> from perfatlas.vocabulary.metrics import ending_of_unit
        >>> ending_of_unit("tokens/s/GPU"), ending_of_unit("B/s"), ending_of_unit("1/d")
        ('tokens_per_s_per_gpu', 'bytes_per_s', 'per_day')
    """
    first, *others = unit.split("/")
    words = [] if first in ("", "1") else [UNIT_WORDS.get(first, first.lower())]
    for other in others:
        *qualified, symbol = other.split()
        words += ["per", *qualified, PER_WORDS.get(symbol, symbol.lower())]
    return "_".join(words)


_ENDINGS: Final = {ending_of_unit(unit): unit for unit in UNITS}


def _unit_of(name: str) -> str:
    """Return the unit that a name ends as, "" for none."""
    words = name.split("_")
    endings = ("_".join(words[first:]) for first in range(len(words)))
    return next((_ENDINGS[ending] for ending in endings if ending in _ENDINGS), "")
