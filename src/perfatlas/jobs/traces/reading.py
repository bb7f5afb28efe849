"""Rows of a trace while it is read, and what became of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.quantities import InvalidSpecError, counted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from perfatlas.jobs.model import Jobs

NO_GPU: Final = "asked for no GPU"
NEVER_RAN: Final = "never ran"
NO_END: Final = "still ran, or its end was not recorded"
DONE: Final = ("completed", "pass", "terminated")  # Slurm, Philly, Alibaba
MOST_JOBS: Final = 5_000_000  # some 500 bytes each while they are read
MOST_ENDS: Final = 4  # that are told in a sentence


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
        ends: How jobs ended, as recorded, to how many; empty where not told.
        cut_short: Share of the GPU time of jobs that are not recorded as completed.
    """

    jobs: Jobs
    total: int
    ignored: Mapping[str, int]
    first: Mapping[str, int]
    moved: int
    start_s: float
    ends: Mapping[str, int] = field(default_factory=dict)
    cut_short: float = 0.0

    def ends_text(self) -> str:
        """Return how jobs that were recorded as not completed are taken, "" where none were."""
        others = {state: n for state, n in self.ends.items() if state.lower() not in DONE}
        if not others:
            return ""
        ordered = sorted(others, key=lambda state: -others[state])
        told = [f"{others[state]:,} {state}" for state in ordered[:MOST_ENDS]]
        rest = sum(others[state] for state in ordered[MOST_ENDS:])
        told += [f"{rest:,} otherwise"] if rest else []
        return (
            f"recorded as not completed: {', '.join(told)}, {100.0 * self.cut_short:.3g} % of the"
            " GPU time; a job runs as long as its record tells, whatever ended it then, and counts"
            " as completed here, its work as useful"
        )

    def text(self) -> str:
        """Return one sentence for people."""
        reasons = [f"{n:,} {why}, first at {self.first[why]}" for why, n in self.ignored.items()]
        told = f" ({'; '.join(reasons)})" if reasons else ""
        ignored = sum(self.ignored.values())
        sorted_in = f", {self.moved:,} not in the order of submission" if self.moved else ""
        rows, jobs = counted(self.total, "row"), counted(self.jobs.size, "job")
        return f"{rows}, {jobs}{sorted_in}, {ignored:,} ignored{told}"


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
        state: How it ended, as recorded.
    """

    line: int
    submit_s: float
    run_s: float
    gpus: int
    nodes: int
    user: str
    kind: str
    state: str


@dataclass
class Reading:
    """Rows while a trace is read; total = jobs + ignored.

    Args:
        path: The file.
        most: Jobs it may have.
    """

    path: Path
    most: int = MOST_JOBS
    rows: list[Row] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)
    first: dict[str, int] = field(default_factory=dict)

    def add(self, row: Row) -> None:
        """Take a row as a job.

        Args:
            row: It.

        Raises:
            InvalidSpecError: There are more jobs than memory should hold.
        """
        if len(self.rows) == self.most:
            most = counted(self.most, "job")
            raise self.wrong(row.line, f"over {most}: schedule a part of it, such as a month")
        self.rows.append(row)

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
