"""One row of the table of metrics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Better = Literal["higher", "lower"]
# numbers and texts are lists of them, rows a list of objects; an object has parts or members
Holds = Literal["number", "count", "flag", "text", "numbers", "texts", "object", "rows"]
# scaled: with an SI prefix; duration: in days, hours, minutes or seconds; share: in per cent
Shown = Literal["number", "scaled", "duration", "share", "money"]

STATISTICS: Final = ("mean", "p50", "p90", "p95", "p99")
# longer suffixes first: a rate before what it is a rate of
SUFFIX_UNITS: Final = (
    ("tokens_per_s_per_gpu", "tokens/s/GPU"),
    ("tokens_per_s_per_user", "tokens/s/user"),
    ("tokens_per_s", "tokens/s"),
    ("requests_per_s", "requests/s"),
    ("bytes_per_s", "B/s"),
    ("usd_per_useful_gpu_hour", "USD/GPU-h"),
    ("per_day", "1/d"),
    ("gpu_hours", "GPU-h"),
    ("bytes", "B"),
    ("flop", "FLOP"),
    ("usd", "USD"),
    ("s", "s"),
    ("share", "1"),
    ("rate", "1"),
    ("probability", "1"),
    ("tokens", "tokens"),
)


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


def unit_of_name(name: str) -> str:
    """Return the unit that the end of a name says, "" where it says none.

    Args:
        name: A key of an answer.

    Example:
        >>> from perfatlas.vocabulary.metrics import unit_of_name
        >>> unit_of_name("bus_bandwidth_bytes_per_s"), unit_of_name("ttft_s"), unit_of_name("gpus")
        ('B/s', 's', '')
    """
    return next((unit for end, unit in SUFFIX_UNITS if f"_{name}".endswith(f"_{end}")), "")
