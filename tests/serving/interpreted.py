"""The event loop as the interpreter runs it: what is compiled is plain Python over columns.

Compiling the loop for kinds of engines that differ takes a quarter of a minute; a few requests take
the interpreter milliseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfatlas.serving.config import Control
from perfatlas.serving.engine import advance
from perfatlas.serving.run.initial_state import build_worlds

if TYPE_CHECKING:
    from perfatlas.serving.config import Fleet
    from perfatlas.serving.requests import Requests
    from perfatlas.serving.state import World

LAST = 2**62


class Record:
    """A row whose fields are attributes, as compiled code has them."""

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


def interpreted(requests: Requests, fleet: Fleet) -> World:
    """Return what comes of requests, in the columns of the first kind of engines."""
    worlds = build_worlds(requests, fleet, concurrency=0, control=Control())
    plain = []
    for world in worlds:
        tables: dict[str, Any] = {
            name: Records(value)
            for name, value in world._asdict().items()
            if isinstance(value, np.ndarray) and value.dtype.names
        }
        plain.append(world._replace(**tables))
    assert advance.function(tuple(plain), LAST, LAST) > 0  # nothing more was to come
    return worlds[0]
