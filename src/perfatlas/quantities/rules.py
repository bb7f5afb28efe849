"""Rules as rows: what input must not be, and what answers remark on it.

Shape legend: N rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from perfatlas.quantities.errors import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from perfatlas.quantities.errors import PerfatlasError

# what a rule reads: columns of fields, or what is resolved from them
Rows = TypeVar("Rows", bound=Any)
# A remark returns the rows that it applies to (N,), or whether to all, and its sentences, or what
# returns those of a row
Remarks: TypeAlias = (
    "tuple[NDArray[np.bool_] | bool, str | Sequence[str] | Callable[[int], str | Sequence[str]]]"
)
Remark: TypeAlias = "Callable[[Any], Remarks]"


class Rule(NamedTuple, Generic[Rows]):
    """What some rows must not be.

    The rows have a `size`, and a `row` that fills in messages.
    """

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
        return self.error(text.format_map(rows.row(row)) if "{" in text else text)


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
        if len(found) == rows.size:  # later rules may read what an earlier one refuses
            break
    return found


def refuse_broken(rules: Iterable[Rule[Rows]], rows: Rows) -> None:
    """Raise the error of the first rule that a row contradicts, if there is any.

    Later rules are not evaluated: they may read what an earlier one refuses.
    """
    for rule in rules:
        refused_N = rule.refused(rows)
        if refused_N.any():
            raise rule.broken_by(rows, int(refused_N.argmax()))


def remarks(size: int, *tables: tuple[Iterable[Remark], Any]) -> list[tuple[str, ...]]:
    """Return the remarks on each row, in the order of the tables, each sentence once (N).

    Args:
        size: Number of rows.
        *tables: Remarks, with what they read.

    Example:
        >>> import numpy as np
        >>> from perfatlas.quantities import remarks
        >>> large = lambda batch_N: (batch_N > 4, lambda n: f"{batch_N[n]} exceeds 4")
        >>> remarks(2, ([large], np.array([1, 8])))
        [(), ('8 exceeds 4',)]
    """
    found: dict[int, dict[str, None]] = {}
    for rules, rows in tables:
        for rule in rules:
            applies_N, sentences = rule(rows)
            for row in np.flatnonzero(np.broadcast_to(applies_N, size)).tolist():
                texts = sentences(row) if callable(sentences) else sentences
                listed = (texts,) if isinstance(texts, str) else texts
                found.setdefault(row, {}).update(dict.fromkeys(listed))
    return [tuple(found.get(row, ())) for row in range(size)]
