"""Rows of a trace while it is read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from pathlib import Path

NO_GPU: Final = "asked for no GPU"
NEVER_RAN: Final = "never ran"
NO_END: Final = "still ran, or its end was not recorded"


class Row(NamedTuple):
    """A job as a trace tells it.

    Args:
        line: Line or record it was read from, from 1.
        submit_s: When submitted [s].
        run_s: How long it ran [s].
        gpus: GPUs.
        nodes: Nodes, 0 where not told.
        user: Who.
        kind: Class it is counted in, mostly how it ended.
    """

    line: int
    submit_s: float
    run_s: float
    gpus: int
    nodes: int
    user: str
    kind: str


@dataclass
class Reading:
    """Rows while a trace is read; total = jobs + ignored.

    Args:
        path: The file.
    """

    path: Path
    rows: list[Row] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)
    first: dict[str, int] = field(default_factory=dict)

    def ignore(self, reason: str, line: int) -> None:
        """Count a row that is left out.

        Args:
            reason: Why.
            line: Where it is.
        """
        self.ignored[reason] += 1
        self.first.setdefault(reason, line)

    def wrong(self, line: int, problem: str) -> InvalidSpecError:
        """Return the error of a place.

        Args:
            line: Where.
            problem: What is wrong.
        """
        return InvalidSpecError(f"trace '{self.path}', row {line}: {problem}")
