"""What a sweep counts while it runs, and its summary, which does not depend on their order."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import counted
from perfatlas.studies.sweeps.names import is_higher_better

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from perfatlas.studies.sweeps.study import Study

BEST_ROWS: Final = 10
MAX_REASONS: Final = 100  # of refusals that a summary lists; the others are counted together
OTHERS: Final = "other reasons"
RESULT_PREFIX: Final = "result_"  # prefix of a result whose name varies in the study


class Tally:
    """Counts of the finished blocks of a run.

    Attributes:
        described: The description of the run.
        resumed: Blocks that an earlier process finished.
        damaged: Blocks among those of an earlier process that are computed again.
        resumed_points: Points of the finished blocks when this process began.
        is_old: Whether the run was complete before.
    """

    def __init__(self, study: Study, described: Mapping[str, Any]) -> None:
        """Start without blocks."""
        self.described = described
        self.resumed = 0
        self.damaged: Sequence[int] = ()
        self.resumed_points = 0
        self.is_old = True
        self._study = study
        self._stats: dict[int, Mapping[str, Any]] = {}

    @property
    def objective(self) -> str:
        """The column that ranks rows, "" for none."""
        return self._study.objective

    def begin(self, *, resumed: int, damaged: Sequence[int]) -> None:
        """Start computing."""
        self.resumed, self.damaged, self.is_old = resumed, damaged, False
        self.resumed_points = self.points

    def add(self, number: int, stats: Mapping[str, Any]) -> None:
        """Add a finished block.

        Args:
            number: The block, from 0.
        """
        self._stats[number] = stats

    @property
    def blocks(self) -> int:
        """Number of finished blocks."""
        return len(self._stats)

    @property
    def points(self) -> int:
        """Number of points of the finished blocks."""
        size, most = self.described["block_points"], self.described["points"]
        return sum(min(size, most - number * size) for number in self._stats)

    @property
    def share(self) -> float:
        """Finished fraction."""
        return float(self.points / self.described["points"])

    def summary(self) -> dict[str, Any]:
        """Return the counts and the best rows so far."""
        rows, failed = self._sum("rows"), self._sum("failed")
        # the most frequent first, each with an example
        refusal_rows: dict[str, dict[str, Any]] = {}
        for stats in self._ordered():
            for reason, (count, point, text) in stats.get("refusals", {}).items():
                row = {"reason": reason, "count": 0, "point": point, "error": text}
                refusal_rows.setdefault(reason, row)["count"] += count
        ranked = sorted(refusal_rows.values(), key=lambda row: (-row["count"], row["reason"]))
        rest = sum(row["count"] for row in ranked[MAX_REASONS:])
        others = [{"reason": OTHERS, "count": rest, "point": None, "error": ""}] if rest else []
        return {
            "points": self.described["points"],
            "blocks": self.described["blocks"],
            "rows": rows,
            "answered": rows - failed,
            "failed": failed,
            "rows_in_tier_bound": self._sum("bound"),
            "left_out": self._added("left_out"),
            "not_met": self._added("not_met"),
            "refusals": ranked[:MAX_REASONS] + others,
            "objective": self.objective,
            "better": "higher" if is_higher_better(self.objective) else "lower",
            "best": self.best(),
        }

    def best(self) -> list[dict[str, Any]]:
        """Return the best rows so far by the objective, the best first."""
        name, higher = self.objective, is_higher_better(self.objective)
        rows = [row for stats in self._ordered() for row in stats.get("best", ())]

        def rank(row: Mapping[str, Any]) -> tuple[float, int]:
            value = float(row[RESULT_PREFIX + name] if RESULT_PREFIX + name in row else row[name])
            return (-value if higher else value, row["point"])

        best = sorted(rows, key=rank)[:BEST_ROWS]
        if not self._study.base:
            return best
        names, base = self._study.points.names, self._study.base
        best_of: dict[str, float] = {}
        for stats in self._ordered():
            best_of |= stats.get("base", {})
        return [
            with_ratio(
                row,
                RESULT_PREFIX + name if RESULT_PREFIX + name in row else name,
                best_of.get(base_key(row, names, base)),
            )
            for row in best
        ]

    def _ordered(self) -> Iterator[Mapping[str, Any]]:
        return (self._stats[number] for number in sorted(self._stats))

    def _sum(self, name: str) -> int:
        return sum(stats.get(name, 0) for stats in self._stats.values())

    def _added(self, name: str) -> dict[str, int]:
        counts: dict[str, int] = {}
        for stats in self._ordered():
            for text, count in stats.get(name, {}).items():
                counts[text] = counts.get(text, 0) + count
        return counts

    def kept_text(self) -> str:
        """Return what is kept and how to go on, "" if nothing is."""
        if not self._stats:
            return ""
        total = counted(self.described["blocks"], "block")
        return (
            f"; {self.blocks:,} of {total} kept in run {self.described['id']}: the same command"
            " with --resume continues after them"
        )

    def warnings(self) -> list[str]:
        """Return what a user should know about the rows."""
        notes = []
        if self.damaged:
            names = ", ".join(f"{number:06d}.parquet" for number in self.damaged[:5])
            notes.append(f"{counted(len(self.damaged), 'damaged block')} computed again: {names}")
        return notes


RATIO: Final = "ratio_to_base"


def base_key(row: Mapping[str, Any], names: Sequence[str], base: Mapping[str, Any]) -> str:
    """Return what a row has in common with its base.

    Args:
        base: Values of the base, by name.

    Example:
        >>> from perfatlas.studies.sweeps.summary import base_key
        >>> base_key({"system": "h200_sxm", "tp": 4}, ("system", "tp"), {"system": "h100_sxm"})
        '[4]'
    """
    return json.dumps([row[name] for name in names if name not in base], default=str)


def with_ratio(row: Mapping[str, Any], column: str, base: float | None) -> dict[str, Any]:
    """Return a row with the ratio of its objective to that of its base.

    Args:
        base: The value of its base, None if that has none.
    """
    return {**row, RATIO: float(row[column]) / base if base else None}
