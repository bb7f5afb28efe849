"""One row of the table of metrics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Better = Literal["higher", "lower"]
# "numbers" and "texts" are lists, "rows" a list of objects; an object has parts or members
ValueType = Literal["number", "count", "flag", "text", "numbers", "texts", "object", "rows"]
# scaled: with an SI prefix; duration: in days, hours, minutes or seconds; share: in percent
Shown = Literal["number", "scaled", "duration", "share", "money"]

STATISTICS: Final = ("mean", "p50", "p90", "p95", "p99")
# longest suffix first, so that rates precede the units they contain
SUFFIX_UNITS: Final = (
    ("tokens_per_s_per_gpu", "tokens/s/GPU"),
    ("tokens_per_s_per_user", "tokens/s/user"),
    ("tokens_per_s", "tokens/s"),
    ("requests_per_s", "requests/s"),
    ("bytes_per_s", "B/s"),
    ("usd_per_useful_gpu_hour", "USD/GPU-hour"),
    ("per_day", "1/d"),
    ("gpu_hours", "GPU-hours"),
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
    """A metric of an answer, with its label and unit.

    Args:
        name: Key in `results`; for a key inside an object or a row, prefixed by its name and a dot.
        label: Label in documents and answers.
        short: Label of at most 18 characters for narrow terminals; "" uses `label`.
        unit: SI unit or counted item: "s", "B", "tokens/s"; "1" is a ratio, "" has none.
        shown: Number format.
        better: Better direction, if any.
        has_interval: Whether a 90% interval, `_low` and `_high`, may accompany it.
        holds: Type of its value, unless it is an object of statistics.
        verbs: Commands that report it.
        statistics: Statistics that it has, for the commands in `statistics_of`.
        statistics_of: Commands that report it as an object of statistics.
        parts: Labels of the parts, by key, if it divides a whole; the unit is that of the metric.
        description: Description, a sentence.
    """

    name: str
    label: str
    short: str = ""
    unit: str = ""
    shown: Shown = "number"
    better: Better | None = None
    has_interval: bool = False
    holds: ValueType = "number"
    verbs: tuple[str, ...]
    statistics: tuple[str, ...] = STATISTICS
    statistics_of: tuple[str, ...] = ()
    parts: Mapping[str, str] = field(default_factory=dict)
    description: str

    @property
    def short_label(self) -> str:
        """The label for narrow columns."""
        return self.short or self.label

    @property
    def key(self) -> str:
        """The key inside its parent object."""
        return self.name.rpartition(".")[2]


def unit_of_name(name: str) -> str:
    """Return the unit that a name ends in, "" if none.

    Args:
        name: A key of an answer.

    Example:
        >>> from perfatlas.vocabulary.metrics import unit_of_name
        >>> unit_of_name("bus_bandwidth_bytes_per_s"), unit_of_name("ttft_s"), unit_of_name("gpus")
        ('B/s', 's', '')
    """
    return next((unit for end, unit in SUFFIX_UNITS if f"_{name}".endswith(f"_{end}")), "")
