"""The event loop in the interpreter: compiled functions are plain Python over columns.

Compiling the loop for different engine types takes 15 s; the interpreter simulates a few requests
in milliseconds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from perfatlas.serving.config import Control, EngineFleet
from perfatlas.serving.engine import advance
from perfatlas.serving.requests import Requests
from perfatlas.serving.run.initial_state import initial_states
from perfatlas.serving.state import SimulationState

LAST = 2**62


class Record:
    """A row with fields as attributes, as in compiled code."""

    def __init__(self, row: np.void) -> None:
        object.__setattr__(self, "_row", row)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - a number or an array
        found = self._row[name]
        return found.item() if isinstance(found, np.generic) else found

    def __setattr__(self, name: str, value: Any) -> None:  # noqa: ANN401 - a number
        self._row[name] = value


class Records:
    """Rows of a table."""

    def __init__(self, rows: np.ndarray[Any, Any]) -> None:
        self.rows, self.shape = rows, rows.shape

    def __getitem__(self, place: Any) -> Record | Records:  # noqa: ANN401 - one index or several
        found = self.rows[place]
        return Record(found) if isinstance(found, np.void) else Records(found)

    def __setitem__(self, place: Any, row: Record) -> None:  # noqa: ANN401 - an index
        self.rows[place] = row._row


def interpreted(requests: Requests, fleet: EngineFleet) -> SimulationState:
    """Return the results of requests, from the state of the first engine type."""
    return interpreted_groups(requests, fleet)[0]


def interpreted_groups(
    requests: Requests, fleet: EngineFleet, concurrency: int = 0
) -> tuple[SimulationState, ...]:
    """Return the state of each engine type at the end."""
    sims = initial_states(requests, fleet, concurrency=concurrency, control=Control())
    plain = []
    for sim in sims:
        tables: dict[str, Any] = {
            name: Records(value)
            for name, value in sim._asdict().items()
            if isinstance(value, np.ndarray) and value.dtype.names
        }
        plain.append(sim._replace(**tables))
    assert advance.function(tuple(plain), LAST, LAST) > 0  # nothing more was to come
    return sims
