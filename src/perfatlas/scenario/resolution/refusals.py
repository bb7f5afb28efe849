"""Refused rows, as masks with reasons; messages are built only when needed.

Shape legend: N rows, R some of them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from perfatlas.operators import IntArray
    from perfatlas.quantities import PerfatlasError
    from perfatlas.scenario.fields import BoolArray, Rule

    Reason = Callable[[int], PerfatlasError]

Rows = TypeVar("Rows")
ANSWERED: Final = 99  # stage of accepted rows


class Refusals:
    """Refused rows and their reasons.

    Each reason has a stage: the earliest counts, and the first one within a stage, so that a row
    gets the same error as a single estimate of it.
    """

    def __init__(self, size: int) -> None:
        """Start with all rows accepted."""
        self._stage_N = np.full(size, ANSWERED, np.int64)
        self._reason_N = np.zeros(size, np.int64)
        self._reasons: list[Reason] = []

    @property
    def refused(self) -> BoolArray:
        """Whether each row is refused (N,)."""
        refused_N: BoolArray = self._stage_N < ANSWERED
        return refused_N

    def kept(self, rows_C: IntArray, stage: int) -> BoolArray:
        """Return whether rows are accepted up to a stage (C,)."""
        kept_C: BoolArray = self._stage_N[rows_C] > stage
        return kept_C

    def refuse(self, rows_R: IntArray, reason: Reason, stage: int = 0) -> None:
        """Refuse rows for a reason."""
        rows_R = rows_R[self._stage_N[rows_R] > stage]
        if rows_R.size:
            self._stage_N[rows_R] = stage
            self._reason_N[rows_R] = len(self._reasons)
            self._reasons.append(reason)

    def refuse_by(
        self, rules: Iterable[Rule[Rows]], rows: Rows, rows_C: IntArray, stage: int
    ) -> None:
        """Refuse those of some rows that contradict rules.

        Args:
            rows: What the rules read, of all rows (N).
        """
        for rule in rules:
            refused_C = rows_C[rule.applies(rows)[rows_C]]
            self.refuse(refused_C, partial(rule.broken_by, rows), stage)

    def refuse_each(self, problems: Mapping[int, PerfatlasError], stage: int = 0) -> None:
        """Refuse rows for errors of their own, by row."""
        for row, problem in problems.items():
            self.refuse(np.array([row]), always(problem), stage)

    def error(self, row: int) -> PerfatlasError:
        """Return the error of a refused row."""
        reason = self._reasons[int(self._reason_N[row])]
        return reason(row)

    def raise_first(self) -> None:
        """Raise the error of the first refused row, if there is any."""
        for row in self.rows():
            raise self.error(row)

    def rows(self) -> list[int]:
        """Return the indices of the refused rows."""
        positions: list[int] = np.flatnonzero(self.refused).tolist()
        return positions


def always(error: PerfatlasError) -> Reason:
    """Return the reason of rows that share an error."""
    return lambda _: error
