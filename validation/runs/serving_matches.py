"""Matching of measured runs by rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from validation.runs.serving_rows import ServingRun

FIELDS: Final = ("model", "backend", "system", "precision", "kind", "version", "image")
SIZES: Final = ("tp", "attention_dp", "dp", "isl", "osl", "concurrency")


@dataclass(frozen=True, kw_only=True)
class Match:
    """The runs that a rule applies to."""

    # Field of `ServingRun` -> allowed values: texts of `FIELDS`, numbers of `SIZES`
    fields: Mapping[str, tuple[str | int, ...]]
    since: str  # First day, "" for any; a run without date matches only a rule without days
    until: str  # First day after, "" for any

    def fits(self, run: ServingRun) -> bool:
        """Return whether a run matches."""
        if (self.since or self.until) and not run.date:
            return False
        inside = self.since <= run.date and (not self.until or run.date < self.until)
        return inside and all(getattr(run, name) in known for name, known in self.fields.items())


def take_match(rest: dict[str, Any]) -> Match:
    """Return the match of an entry, removing its fields from the entry.

    Args:
        rest: The entry; afterwards it has only the fields of the rule.
    """
    since, until = rest.pop("since", ""), rest.pop("until", "")
    given = {name: rest.pop(name) for name in (*FIELDS, *SIZES) if name in rest}
    fields: dict[str, tuple[str | int, ...]] = {
        key: tuple(value) if isinstance(value, list) else (value,) for key, value in given.items()
    }
    return Match(fields=fields, since=since, until=until)
