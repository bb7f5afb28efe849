"""How many parameters of a cell are fitted, chosen on its rows, or set before any row is read."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from perfatlas.lab.cells import cells_by_key
from perfatlas.lab.scoring.tables import Row, table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perfatlas.lab.cells import Cell


class Counted(NamedTuple):
    """Where the parameters of one cell come from.

    Args:
        fitted: Parameters a fit moves.
        chosen: Names of those that differ between the alternatives tried.
        held: Parameters that every alternative has alike: from a source, the table or zero.
        alternatives: Fits, of which the rows choose one.
    """

    fitted: int
    chosen: tuple[str, ...]
    held: int
    alternatives: int


def counted(cell: Cell) -> Counted:
    """Return where the parameters of a cell come from.

    Args:
        cell: Any cell.
    """
    fixed = {name for alternative in cell.grid for name in alternative}
    chosen = {name for name in fixed if len({one.get(name) for one in cell.grid}) > 1}
    return Counted(
        fitted=len(cell.ranges) - len(fixed),
        chosen=tuple(name for name in cell.ranges if name in chosen),
        held=len(fixed) - len(chosen),
        alternatives=len(cell.grid),
    )


def parameter_table(cells: Sequence[Row]) -> str:
    """Return the counts of every operator and family as Markdown.

    Args:
        cells: Scored cells.

    Raises:
        MissingDependencyError: The measured tables are not installed.
    """
    systems = sorted({row["system"] for row in cells})
    operators = sorted({row["operator"] for row in cells})
    groups: dict[tuple[str, str], list[Counted]] = defaultdict(list)
    for (operator, family, _), found in cells_by_key(systems, operators).items():
        groups[operator, family] += [counted(cell) for cell in found.values()]
    headings = ["operator", "family", "fitted", "chosen on the rows", "among", "set beforehand"]
    return table([*headings, "which are chosen"], (_row(*item) for item in sorted(groups.items())))


def _row(key: tuple[str, str], found: Sequence[Counted]) -> list[str]:
    names = dict.fromkeys(name for one in found for name in one.chosen)
    return [
        *key,
        _span(one.fitted for one in found),
        _span(len(one.chosen) for one in found),
        _span(one.alternatives for one in found),
        _span(one.held for one in found),
        ", ".join(names) or "-",
    ]


def _span(values: Iterable[int]) -> str:
    """Return "least to most", or the one value there is."""
    known = sorted(set(values))
    return str(known[0]) if len(known) == 1 else f"{known[0]} to {known[-1]}"
