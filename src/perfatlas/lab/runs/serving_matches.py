"""Which measured runs a committed rule is about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.lab.runs.serving_rows import ServingRun

FIELDS: Final = ("model", "backend", "system", "precision", "kind", "version", "image")
SIZES: Final = ("tp", "attention_dp", "dp", "isl", "osl", "concurrency")


@dataclass(frozen=True, kw_only=True)
class Match:
    """Which runs a rule is about.

    Args:
        fields: Field of `ServingRun` -> values it may have: texts of `FIELDS`, numbers of `SIZES`.
        since: First day, "" for any; a run without a date fits only a rule without days.
        until: First day after, "" for any.
    """

    fields: Mapping[str, tuple[str | int, ...]]
    since: str
    until: str

    def fits(self, run: ServingRun) -> bool:
        """Return whether a run is meant."""
        if (self.since or self.until) and not run.date:
            return False
        inside = self.since <= run.date and (not self.until or run.date < self.until)
        return inside and all(getattr(run, name) in known for name, known in self.fields.items())


def take_match(rest: dict[str, Any]) -> Match:
    """Return which runs an entry is about, its fields taken out of it.

    Args:
        rest: The entry; what is left afterwards says what the rule is.
    """
    since, until = rest.pop("since", ""), rest.pop("until", "")
    given = {name: rest.pop(name) for name in (*FIELDS, *SIZES) if name in rest}
    fields: dict[str, tuple[str | int, ...]] = {
        key: tuple(value) if isinstance(value, list) else (value,) for key, value in given.items()
    }
    return Match(fields=fields, since=since, until=until)
