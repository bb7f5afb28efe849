"""Cells of table columns, changed or searched once per distinct value where those are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def mapped_cells(cells: Sequence[Any], function: Callable[[Any], Any]) -> Sequence[Any]:
    """Return cells with another value each.

    Args:
        cells: The cells of a column.
        function: Function from a cell to its replacement.
    """
    from perfatlas.files import DictionaryCells

    if isinstance(cells, DictionaryCells):
        return cells.mapped(function)
    return [function(cell) for cell in cells]


def filled_cells(cells: Sequence[Any], value: object) -> Sequence[Any]:
    """Return cells with a value in the empty ones.

    Args:
        cells: The cells of a column.
        value: The value.
    """
    return mapped_cells(cells, lambda cell: value if cell in (None, "") else cell)


def cell_texts(cells: Sequence[Any]) -> list[str]:
    """Return the texts among cells.

    Args:
        cells: The cells of a column.
    """
    values = distinct_cells(cells)
    return (
        [cell for cell in values if isinstance(cell, str)] if str in set(map(type, values)) else []
    )


def distinct_cells(cells: Sequence[Any]) -> Sequence[Any]:
    """Return the distinct values of cells where they are known, else the cells.

    Args:
        cells: The cells of a column.
    """
    from perfatlas.files import DictionaryCells

    return cells.values if isinstance(cells, DictionaryCells) else cells
