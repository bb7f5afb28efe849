"""Counts of the lines of a log: parsed, merged or ignored, each with a reason.

Invariant of every reader: total = parsed + merged + ignored. Repaired lines are also parsed or
merged.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from perfatlas.quantities import counted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class FileCounts:
    """Line counts of one file."""

    path: str
    data_hash: str  # "sha256:" and the digest of its bytes
    unit: str  # Counted unit: lines or records
    total: int  # Number in the file
    parsed: int  # Number in the result
    merged: Mapping[str, int]  # Number of duplicates by reason
    ignored: Mapping[str, int]  # Number of ignored ones by reason
    repaired: Mapping[str, int]  # Number of repaired ones by repair
    first: Mapping[str, int]  # First line number by reason

    @property
    def size(self) -> str:
        """Return the number of lines or records, as text."""
        return counted(self.total, self.unit.removesuffix("s"))

    def text(self) -> str:
        """Return a summary sentence.

        Example:
            >>> from perfatlas.reliability.telemetry.reading import Tally
            >>> tally = Tally(path="a.log", unit="lines")
            >>> tally.parsed += 2
            >>> tally.ignore("blank", 3)
            >>> tally.close(total=3, data_hash="sha256:0").text()
            'a.log: 3 lines; parsed 2; merged 0; ignored 1: blank (1, first at 3)'
        """
        parts = [f"{self.path}: {self.size}", f"parsed {self.parsed:,}"]
        parts += [f"merged {reasons(self.merged, self.first)}"]
        parts += [f"ignored {reasons(self.ignored, self.first)}"]
        if self.repaired:
            parts += [f"repaired {reasons(self.repaired, self.first)}"]
        return "; ".join(parts)


def reasons(counts: Mapping[str, int], first: Mapping[str, int]) -> str:
    """Return the number by reason with the first line, as text."""
    notes = [f"{why} ({n:,}, first at {first[why]:,})" for why, n in counts.items()]
    total = f"{sum(counts.values()):,}"
    return f"{total}: {', '.join(notes)}" if notes else total


@dataclass(kw_only=True)
class Tally:
    """Counts of a file while it is read."""

    path: str | Path
    unit: str
    parsed: int = 0
    merged: Counter[str] = field(default_factory=Counter)
    ignored: Counter[str] = field(default_factory=Counter)
    repaired: Counter[str] = field(default_factory=Counter)
    first: dict[str, int] = field(default_factory=dict)

    def merge(self, reason: str, line: int, count: int = 1) -> None:
        """Count duplicate lines.

        Args:
            line: Number of the first one.
        """
        self._add(self.merged, reason, line, count)

    def ignore(self, reason: str, line: int, count: int = 1) -> None:
        """Count ignored lines.

        Args:
            line: Number of the first one.
        """
        self._add(self.ignored, reason, line, count)

    def repair(self, reason: str, line: int, count: int = 1) -> None:
        """Count repaired lines.

        Args:
            line: Number of the first one.
        """
        self._add(self.repaired, reason, line, count)

    def close(self, *, total: int, data_hash: str) -> FileCounts:
        """Return the counts of the whole file.

        Args:
            total: Number of lines or records, counted independently.
            data_hash: "sha256:" and the digest of its bytes.
        """
        return FileCounts(
            path=str(self.path),
            data_hash=data_hash,
            unit=self.unit,
            total=total,
            parsed=self.parsed,
            merged=dict(self.merged),
            ignored=dict(self.ignored),
            repaired=dict(self.repaired),
            first=dict(self.first),
        )

    def _add(self, counter: Counter[str], reason: str, line: int, count: int) -> None:
        if count:
            counter[reason] += count
            self.first.setdefault(reason, line)
