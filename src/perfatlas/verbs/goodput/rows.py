"""Tables of goodput: simulated rows have random numbers of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfatlas.commands.output import columns_of_rows
from perfatlas.quantities import PerfatlasError
from perfatlas.verbs.goodput.answer import goodput, is_simulated
from perfatlas.verbs.goodput.question import Goodput

if TYPE_CHECKING:
    from collections.abc import Mapping


def goodput_columns(questions: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """Return columns of answers; a simulated row without a seed has its number, from 0, as seed.

    Rows are then independent. Rows with the same seed, set by a column or for all rows, meet the
    same failures.

    Args:
        questions: Input columns by name.
    """
    rows = len(next(iter(questions.values()), ()))
    seeds = list(questions.get("seed", [None] * rows))
    for number, cells in enumerate(zip(*questions.values(), strict=True)):
        fields = dict(zip(questions, cells, strict=True))
        if seeds[number] in (None, "") and _draws(fields):
            seeds[number] = number
    return columns_of_rows(goodput, {**questions, "seed": seeds})


def _draws(fields: Mapping[str, Any]) -> bool:
    """Return whether a row is simulated; one that cannot be read is answered by its error."""
    try:
        return is_simulated(Goodput.read(fields))
    except PerfatlasError:
        return False
