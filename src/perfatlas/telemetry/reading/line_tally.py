"""What became of every line of a log: read, merged into another, or left out, each with a reason.

The law every reader keeps: total = parsed + all merged + all ignored. Repairs come on top: a
repaired line is one of the parsed or merged ones.
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
    """What became of the lines of one file.

    Args:
        path: The file.
        data_hash: "sha256:" and the digest of its bytes.
        unit: What is counted: lines, or records where a record is not a line.
        total: How many the file has.
        parsed: How many became part of the result.
        merged: Reason to how many told what another one tells.
        ignored: Reason to how many were left out.
        repaired: What was changed to read one, to how often.
        first: Reason of any of the three to the number of the first line it was about.
    """

    path: str
    data_hash: str
    unit: str
    total: int
    parsed: int
    merged: Mapping[str, int]
    ignored: Mapping[str, int]
    repaired: Mapping[str, int]
    first: Mapping[str, int]

    @property
    def size(self) -> str:
        """Return how many lines or records the file has, in words."""
        return counted(self.total, self.unit.removesuffix("s"))

    def text(self) -> str:
        """Return one sentence for people.

        Example:
            >>> from perfatlas.telemetry.reading import Tally
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
    """Return how many there are, of which reasons, and where first, in words.

    Args:
        counts: Reason to how many.
        first: Reason to the number of the first line it was about.
    """
    told = [f"{why} ({n:,}, first at {first[why]:,})" for why, n in counts.items()]
    total = f"{sum(counts.values()):,}"
    return f"{total}: {', '.join(told)}" if told else total


@dataclass(kw_only=True)
class Tally:
    """The counts of a file while it is read.

    Args:
        path: The file.
        unit: What is counted.
    """

    path: str | Path
    unit: str
    parsed: int = 0
    merged: Counter[str] = field(default_factory=Counter)
    ignored: Counter[str] = field(default_factory=Counter)
    repaired: Counter[str] = field(default_factory=Counter)
    first: dict[str, int] = field(default_factory=dict)

    def merge(self, reason: str, line: int, count: int = 1) -> None:
        """Count lines that tell what another one tells.

        Args:
            reason: Why.
            line: Where the first of them is.
            count: How many.
        """
        self._add(self.merged, reason, line, count)

    def ignore(self, reason: str, line: int, count: int = 1) -> None:
        """Count lines that are left out.

        Args:
            reason: Why.
            line: Where the first of them is.
            count: How many.
        """
        self._add(self.ignored, reason, line, count)

    def repair(self, reason: str, line: int, count: int = 1) -> None:
        """Count lines that had to be changed to be read.

        Args:
            reason: What was changed.
            line: Where the first of them is.
            count: How many.
        """
        self._add(self.repaired, reason, line, count)

    def close(self, *, total: int, data_hash: str) -> FileCounts:
        """Return the counts of the whole file.

        Args:
            total: Lines or records the file has, counted apart from what became of them.
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
