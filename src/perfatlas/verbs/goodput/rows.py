"""Tables of goodput: simulated rows have random numbers of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import PerfatlasError
from perfatlas.verbs.goodput.answer import goodput, is_simulated
from perfatlas.verbs.goodput.question import Goodput

MOST_SEEDS: Final = 1000  # of one row

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.answer import Answer


def goodput_row(number: int, fields: Mapping[str, Any]) -> Answer:
    """Return the answer of a row; a simulated one without a seed has its number as seed.

    Rows are then independent, also with several seeds each. Rows with the same seed, set by a
    column or for all rows, meet the same failures.

    Args:
        number: The row, from 0.
        fields: Its fields, without empty cells.

    Raises:
        PerfatlasError: The row cannot be answered.
    """
    if "seed" in fields:
        return goodput(**fields)
    try:
        inputs = Goodput.read(fields)
    except PerfatlasError:
        return goodput(**fields)  # raises the same error
    if not is_simulated(inputs):
        return goodput(**fields)
    first = number if inputs.num_seeds == 1 else (1 + number) * MOST_SEEDS
    return goodput(**fields, seed=first)
