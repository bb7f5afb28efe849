"""Number of fitted, selected and fixed parameters of a cell."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from perfatlas.fitting.cells import cells_by_key
from validation.scoring.tables import Row, table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perfatlas.fitting.cells import Cell


class Counted(NamedTuple):
    """Origin of the parameters of a cell."""

    fitted: int  # Number of fitted parameters
    chosen: tuple[str, ...]  # Names of parameters that differ between alternatives
    held: int  # Number of parameters equal in all alternatives: from a source, the table or zero
    alternatives: int  # Number of alternatives, of which the rows select one


def counted(cell: Cell) -> Counted:
    """Return the origin of the parameters of a cell.

    Args:
        cell: Any cell.
    """
    fixed = {name for alternative in cell.grid for name in alternative}
    chosen = {name for name in fixed if len({row.get(name) for row in cell.grid}) > 1}
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
    """Return "min to max", or the single value."""
    known = sorted(set(values))
    return str(known[0]) if len(known) == 1 else f"{known[0]} to {known[-1]}"
