"""Counts of the lines of a log: parsed, merged or ignored, each with a reason.

Invariant of every reader: total = parsed + merged + ignored. Repaired lines are also parsed or
merged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from perfatlas.quantities import counted

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(kw_only=True)
class FileCounts:
    """Line counts of one file, while it is read and afterwards.

    Example:
        >>> from perfatlas.reliability.telemetry.reading import FileCounts
        >>> counts = FileCounts(path="a.log", total=3, parsed=2)
        >>> counts.ignore("blank", 3)
        >>> counts.text()
        'a.log: 3 lines; parsed 2; merged 0; ignored 1: blank (1, first at 3)'
    """

    path: str
    data_hash: str = ""  # "sha256:" and the digest of its bytes
    unit: str = "lines"  # Counted unit: lines or records
    total: int = 0  # Number in the file, counted independently
    parsed: int = 0  # Number in the result
    merged: dict[str, int] = field(default_factory=dict)  # Number of duplicates by reason
    ignored: dict[str, int] = field(default_factory=dict)  # Number of ignored ones by reason
    repaired: dict[str, int] = field(default_factory=dict)  # Number of repaired ones by repair
    first: dict[str, int] = field(default_factory=dict)  # First line number by reason

    @property
    def size(self) -> str:
        """Return the number of lines or records, as text."""
        return counted(self.total, self.unit.removesuffix("s"))

    def text(self) -> str:
        """Return a summary sentence."""
        parts = [f"{self.path}: {self.size}", f"parsed {self.parsed:,}"]
        parts += [f"merged {reasons(self.merged, self.first)}"]
        parts += [f"ignored {reasons(self.ignored, self.first)}"]
        if self.repaired:
            parts += [f"repaired {reasons(self.repaired, self.first)}"]
        return "; ".join(parts)

    def merge(self, reason: str, line: int, count: int = 1) -> None:
        """Count duplicate lines from `line` on."""
        self._add(self.merged, reason, line, count)

    def ignore(self, reason: str, line: int, count: int = 1) -> None:
        """Count ignored lines from `line` on."""
        self._add(self.ignored, reason, line, count)

    def repair(self, reason: str, line: int, count: int = 1) -> None:
        """Count repaired lines from `line` on."""
        self._add(self.repaired, reason, line, count)

    def _add(self, counts: dict[str, int], reason: str, line: int, count: int) -> None:
        if count:
            counts[reason] = counts.get(reason, 0) + count
            self.first.setdefault(reason, line)


def reasons(counts: Mapping[str, int], first: Mapping[str, int]) -> str:
    """Return the number by reason with the first line, as text."""
    notes = [f"{why} ({n:,}, first at {first[why]:,})" for why, n in counts.items()]
    total = f"{sum(counts.values()):,}"
    return f"{total}: {', '.join(notes)}" if notes else total
