"""Early partial results of a search: the best so far, and each simulated plan."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from perfatlas.report.text import format_share, format_value
from perfatlas.verbs.search.find import joined, ranked, within_slos
from perfatlas.verbs.search.rows import plan_row
from perfatlas.verbs.search.text import plan_name
from perfatlas.vocabulary.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perfatlas.verbs.search.find import Columns, Found
    from perfatlas.verbs.search.leaders import Leader
    from perfatlas.verbs.search.question import SearchInputs

EVERY_S: Final = 2.0  # between two lines about closed forms
SHOWN: Final = ("ttft_s", "tpot_s")


class SearchProgress:
    """Tells how a search goes on, in lines.

    Args:
        tell: Receives each line.
        inputs: The search.
    """

    def __init__(self, tell: Callable[[str], None], inputs: SearchInputs) -> None:
        """Start with nothing priced."""
        self._tell, self._inputs = tell, inputs
        self._names = tuple(dict.fromkeys((*inputs.objectives, *SHOWN)))
        self._told = time.monotonic()
        self._best: Leader | None = None

    def priced(self, found: Found, best: list[Columns]) -> None:
        """Tell how many candidates are priced, and the best of them, every few seconds.

        Args:
            found: The families so far.
            best: Their candidates, in parts.
        """
        if time.monotonic() - self._told < EVERY_S:
            return
        known = replace(found, candidates=joined(best), by_frontier=False)
        words = "none meets all limits yet"
        if within_slos(known, self._inputs):
            place = int(ranked(known, self._inputs)[0])
            words = f"best so far {self._row(plan_row(known, place, self._inputs))}"
        self._tell(f"{known.size:,} candidates priced; {words}")
        self._told = time.monotonic()

    def simulated(self, leader: Leader, number: int, count: int) -> None:
        """Tell the metrics of a simulated plan, and the best of those so far.

        Args:
            leader: The plan.
            number: Its number, from 1.
            count: Plans to simulate.
        """
        least = self._inputs.min_slo_probability
        if self._best is None or leader.order(least) < self._best.order(least):
            self._best = leader
        place = "best so far" if leader is self._best else f"behind {self._name(self._best.row)}"
        if leader.row["method"] != "simulate":
            told = f"plan {number} of {count}, {self._name(leader.row)}: not simulated; {place}"
        else:
            misses = "" if leader.probability >= least else "misses a limit, "
            told = f"simulated {number} of {count}: {misses}{self._row(leader.row)}; {place}"
        self._tell(told)

    def _name(self, row: Mapping[str, Any]) -> str:
        """Return a plan with what else the search varies."""
        return plan_name(row, vars(self._inputs))

    def _row(self, row: Mapping[str, Any]) -> str:
        """Return plan, load, objectives and latencies of a row."""
        load = row.get("concurrency") or row.get("batch")
        told = [
            f"{METRICS[name].short_label} {format_value(name, row[name])}"
            for name in self._names
            if row.get(name) is not None
        ]
        loaded = f" at {load:,} in flight" if load else ""
        if self._inputs.has_limits:
            told.append(f"P(SLO) {format_share(row['slo_probability'])}")
        return f"{self._name(row)}{loaded}: {', '.join(told)}"
