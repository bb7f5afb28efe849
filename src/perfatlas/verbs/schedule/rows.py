"""Tables of `fleet schedule`: one cluster per row."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.answer import Answer

ROWS_LEFT_OUT: Final = ("classes", "trace", "interrupted")  # results without a table column


def schedule_row(_: int, fields: Mapping[str, Any]) -> Answer:
    """Return an answer with results as table cells.

    Args:
        _: The row, from 0.
        fields: Its fields, without empty cells.

    Raises:
        PerfatlasError: The row cannot be answered.
    """
    from perfatlas.verbs.schedule.answer import fleet_schedule

    answer = fleet_schedule(**fields).answer
    kept = {name: value for name, value in answer.results.items() if name not in ROWS_LEFT_OUT}
    return replace(answer, results=kept)
