"""Rows that are refused, as masks with reasons; a reason is put into words when it is asked for.

Shape legend: N rows, R some of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfatlas.operators import IntArray
    from perfatlas.quantities import PerfatlasError
    from perfatlas.scenario.resolution.field_columns import BoolArray

    Reason = Callable[[int], PerfatlasError]

ANSWERED: Final = 99  # stage of rows that are not refused


class Refusals:
    """Which rows are refused and why.

    Reasons have a stage: that of the earliest counts, and of equal ones the first that is noted,
    so that a row is refused for what one estimate of it raises.
    """

    def __init__(self, size: int) -> None:
        """Refuse no row.

        Args:
            size: Rows N.
        """
        self._stage_N = np.full(size, ANSWERED, np.int64)
        self._reason_N = np.zeros(size, np.int64)
        self._reasons: list[Reason] = []

    @property
    def refused(self) -> BoolArray:
        """Which rows are refused (N,)."""
        refused_N: BoolArray = self._stage_N < ANSWERED
        return refused_N

    def kept(self, rows_C: IntArray, stage: int) -> BoolArray:
        """Return which of some rows are not refused up to a stage (C,).

        Args:
            rows_C: Positions (C,).
            stage: The stage.
        """
        kept_C: BoolArray = self._stage_N[rows_C] > stage
        return kept_C

    def refuse(self, rows_R: IntArray, reason: Reason, stage: int = 0) -> None:
        """Refuse rows for a reason.

        Args:
            rows_R: Positions (R,).
            reason: Returns the error of one of the rows.
            stage: Of the reason.
        """
        rows_R = rows_R[self._stage_N[rows_R] > stage]
        if rows_R.size:
            self._stage_N[rows_R] = stage
            self._reason_N[rows_R] = len(self._reasons)
            self._reasons.append(reason)

    def error(self, row: int) -> PerfatlasError:
        """Return why a row is refused.

        Args:
            row: Its position.
        """
        reason = self._reasons[int(self._reason_N[row])]
        return reason(row)

    def rows(self) -> list[int]:
        """Return the positions of the refused rows."""
        positions: list[int] = np.flatnonzero(self.refused).tolist()
        return positions
