"""Rows of a trace while it is read, and what became of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from perfatlas.jobs.model import Jobs

NO_GPU: Final = "asked for no GPU"
NEVER_RAN: Final = "never ran"
NO_END: Final = "still ran, or its end was not recorded"


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Jobs of a trace.

    Args:
        jobs: In the order of submission, the first at time 0.
        total: Rows the trace has.
        ignored: Reason to how many rows were left out.
        first: Reason to the first such row.
        moved: Jobs that stood in the trace before one submitted earlier.
        start_s: Time of the first submission, as the trace counts [s].
    """

    jobs: Jobs
    total: int
    ignored: Mapping[str, int]
    first: Mapping[str, int]
    moved: int
    start_s: float

    def text(self) -> str:
        """Return one sentence for people."""
        reasons = [f"{n} {why}, first at {self.first[why]}" for why, n in self.ignored.items()]
        told = f" ({'; '.join(reasons)})" if reasons else ""
        ignored = sum(self.ignored.values())
        sorted_in = f", {self.moved} not in the order of submission" if self.moved else ""
        return f"{self.total} rows, {self.jobs.size} jobs{sorted_in}, {ignored} ignored{told}"


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
