"""Early partial results of a search: the best so far, and each simulated plan."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from perfatlas.report.text import format_share, format_value
from perfatlas.vocabulary.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perfatlas.verbs.search.leaders import Leader

EVERY_S: Final = 2.0  # between two lines about closed forms
SHOWN: Final = ("ttft_s", "tpot_s")


class SearchProgress:
    """Tells how a search goes on, in lines.

    Args:
        tell: Receives each line.
        objectives: The metrics that rank plans.
    """

    def __init__(self, tell: Callable[[str], None], objectives: tuple[str, ...]) -> None:
        """Start with nothing priced."""
        self._tell = tell
        self._names = tuple(dict.fromkeys((*objectives, *SHOWN)))
        self._told = time.monotonic()
        self._best: Leader | None = None

    @property
    def is_due(self) -> bool:
        """Whether the last line is long enough ago for another one about closed forms."""
        return time.monotonic() - self._told >= EVERY_S

    def priced(self, candidates: int, best: Mapping[str, Any] | None) -> None:
        """Tell how many candidates are priced, and the best of them.

        Args:
            candidates: Candidates so far.
            best: The best of them as a row of an answer, None if none meets all limits.
        """
        self._told = time.monotonic()
        words = "none meets all limits yet" if best is None else f"best so far {self._row(best)}"
        self._tell(f"{candidates:,} candidates priced; {words}")

    def simulated(self, leader: Leader, number: int, count: int, least: float) -> None:
        """Tell the metrics of a simulated plan, and the best of those so far.

        Args:
            leader: The plan.
            number: Its number, from 1.
            count: Plans to simulate.
            least: Least probability with which limits must be met.
        """
        if self._best is None or leader.order(least) < self._best.order(least):
            self._best = leader
        place = "best so far" if leader is self._best else f"behind {_plan(self._best.row)}"
        if leader.row["method"] != "simulate":
            self._tell(f"plan {number} of {count}, {_plan(leader.row)}: not simulated; {place}")
            return
        misses = "" if leader.probability >= least else "misses a limit, "
        self._tell(f"simulated {number} of {count}: {misses}{self._row(leader.row)}; {place}")

    def _row(self, row: Mapping[str, Any]) -> str:
        """Return plan, load, objectives and latencies of a row."""
        load = row.get("concurrency") or row.get("batch")
        told = [
            f"{METRICS[name].short_label} {format_value(name, row[name])}"
            for name in self._names
            if row.get(name) is not None
        ]
        loaded = f" at {load:,} in flight" if load else ""
        chance = format_share(row["slo_probability"])
        return f"{_plan(row)}{loaded}: {', '.join(told)}, P(SLO) {chance}"


def _plan(row: Mapping[str, Any]) -> str:
    from perfatlas.verbs.search.text import plan_text

    return plan_text(row)
