"""Tables of `simulate`: one deployment per row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.answer import Answer


def simulate_row(_: int, fields: Mapping[str, Any]) -> Answer:
    """Return the answer of a row.

    Args:
        _: The row, from 0.
        fields: Its fields, without empty cells.

    Raises:
        PerfatlasError: The row cannot be answered.
    """
    from perfatlas.verbs.simulate.answer import simulate

    return simulate(**fields).answer
