"""Rules as rows: what input must not be, and the error of each row that breaks one.

Shape legend: N rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np

from perfatlas.quantities.errors import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from perfatlas.quantities.errors import PerfatlasError

# what a rule reads: columns of fields, or what is resolved from them
Rows = TypeVar("Rows", bound=Any)


class Rule(NamedTuple, Generic[Rows]):
    """What some rows must not be: `size` of them, whose `row` fills in messages."""

    applies: Callable[[Rows], NDArray[np.bool_] | bool]  # Which rows it refuses (N,), or all
    # A sentence with fields to fill in, such as "prefix = {prefix}", or what returns it for a row
    message: str | Callable[[Rows, int], str]
    remedy: str = ""  # What to change, with fields to fill in
    error: type[PerfatlasError] = InvalidSpecError
    name: str = ""  # Under which searches count what it refuses

    def refused(self, rows: Rows) -> NDArray[np.bool_]:
        """Return which rows it refuses (N,)."""
        return np.broadcast_to(self.applies(rows), rows.size)

    def broken_by(self, rows: Rows, row: int) -> PerfatlasError:
        """Return the error of a row."""
        if not isinstance(self.message, str):
            return self.error(self.message(rows, row))
        text = "; ".join(filter(None, (self.message, self.remedy)))
        return self.error(text.format_map(rows.row(row)))


def broken_rules(rules: Iterable[Rule[Rows]], rows: Rows) -> dict[int, PerfatlasError]:
    """Return the error of each row that contradicts a rule, by the first of them.

    Example:
        >>> from perfatlas.quantities import Rule, broken_rules
        >>> from perfatlas.scenario.fields import Scenario
        >>> table = {"model": ["m"] * 2, "system": ["s"] * 2, "batch": [1, 8]}
        >>> most = Rule(lambda c: c.numbers("batch") > 4, "batch = {batch} exceeds 4")
        >>> broken_rules([most], Scenario.read_table(table)[0])
        {1: InvalidSpecError('batch = 8 exceeds 4')}
    """
    found: dict[int, PerfatlasError] = {}
    for rule in rules:
        applies = rule.applies(rows)
        if applies is False or not np.any(applies):
            continue
        for row in np.flatnonzero(np.broadcast_to(applies, rows.size)).tolist():
            if row not in found:
                found[row] = rule.broken_by(rows, row)
    return found


def refuse_broken(rules: Iterable[Rule[Rows]], rows: Rows) -> None:
    """Raise the error of the first rule that the only row contradicts, if there is any."""
    for problem in broken_rules(rules, rows).values():
        raise problem
