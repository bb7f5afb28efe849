"""Rows of a trace while it is read, with counts of ignored rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.quantities import InvalidSpecError, counted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from perfatlas.reliability.jobs.model import Jobs

NO_GPU: Final = "no GPUs requested"
NEVER_RAN: Final = "never ran"
NO_END: Final = "still running, or without a recorded end"
DONE: Final = ("completed", "pass", "terminated")  # Slurm, Philly, Alibaba
MOST_JOBS: Final = 5_000_000  # about 500 bytes each while they are read
MOST_ENDS: Final = 4  # number of states named in a sentence


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Jobs of a trace.

    Args:
        jobs: Jobs in the order of submission, the first at time 0.
        ignored: Number of ignored rows by reason.
        first: First ignored row by reason.
        moved: Jobs that precede one submitted earlier in the trace.
        start_s: Time of the first submission in the clock of the trace [s].
        ends: Number of jobs by recorded final state; empty where not recorded.
        cut_short: Share of the GPU time of jobs not recorded as completed.
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
        """Return a note on jobs recorded as not completed, "" where there are none."""
        others = {state: n for state, n in self.ends.items() if state.lower() not in DONE}
        if not others:
            return ""
        ordered = sorted(others, key=lambda state: -others[state])
        told = [f"{others[state]:,} {state}" for state in ordered[:MOST_ENDS]]
        rest = sum(others[state] for state in ordered[MOST_ENDS:])
        told += [f"{rest:,} otherwise"] if rest else []
        return (
            f"recorded as not completed: {', '.join(told)}, {100.0 * self.cut_short:.3g}% of the"
            " GPU time; each job runs as long as recorded and counts as completed here, with"
            " useful work"
        )

    def text(self) -> str:
        """Return a summary sentence."""
        reasons = [f"{n:,} {why}, first at {self.first[why]}" for why, n in self.ignored.items()]
        told = f" ({'; '.join(reasons)})" if reasons else ""
        ignored = sum(self.ignored.values())
        sorted_in = f", {self.moved:,} not in the order of submission" if self.moved else ""
        rows, jobs = counted(self.total, "row"), counted(self.jobs.size, "job")
        return f"{rows}, {jobs}{sorted_in}, {ignored:,} ignored{told}"


class Row(NamedTuple):
    """A job of a trace.

    Args:
        line: Line or record number, from 1.
        submit_s: Submission time [s].
        run_s: Run time [s].
        nodes: Nodes, 0 where not recorded.
        kind: Class in the results, usually its final state.
        state: Recorded final state.
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
        most: Maximum number of jobs.
    """

    path: Path
    most: int = MOST_JOBS
    rows: list[Row] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)
    first: dict[str, int] = field(default_factory=dict)

    def add(self, row: Row) -> None:
        """Add a row as a job.

        Raises:
            InvalidSpecError: There are too many jobs for memory.
        """
        if len(self.rows) == self.most:
            most = counted(self.most, "job")
            raise self.wrong(row.line, f"more than {most}: schedule a part of it, such as a month")
        self.rows.append(row)

    def ignore(self, reason: str, line: int) -> None:
        """Count an ignored row."""
        self.ignored[reason] += 1
        self.first.setdefault(reason, line)

    def wrong(self, line: int, problem: str) -> InvalidSpecError:
        """Return an error for a line."""
        return InvalidSpecError(f"trace '{self.path}', row {line}: {problem}")
