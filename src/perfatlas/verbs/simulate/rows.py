"""Tables of `simulate`: one deployment per row."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from perfatlas.answer import step_bounds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perfatlas.answer import Answer
    from perfatlas.verbs.simulate.answer import Simulation


def simulate_row(**fields: object) -> Answer:
    """Return the answer of a row of `simulate`.

    Args:
        **fields: Its fields, without empty cells.

    Raises:
        PerfatlasError: The row cannot be answered.
    """
    from perfatlas.verbs.simulate.answer import simulate

    return simulated_row(simulate, fields)


def simulated_row(function: Callable[..., Simulation], fields: Mapping[str, Any]) -> Answer:
    """Return the answer of a row, with its tier and what binds its steps.

    Args:
        function: `simulate`, or a search for a rate or a number of replicas.
        fields: Its fields, without empty cells.

    Raises:
        PerfatlasError: The row cannot be answered.
    """
    answer = function(**fields).answer
    told = {"tier": answer.evidence.tier, **step_bounds(answer.breakdown)}
    return replace(answer, results={**answer.results, **told})
