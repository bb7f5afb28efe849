"""Jobs of a trace, with counts of ignored rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from perfatlas.quantities import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.reliability.jobs.model import Jobs

NO_GPU: Final = "no GPUs requested"
NEVER_RAN: Final = "never ran"
DONE: Final = ("completed",)
MAX_ENDS: Final = 4  # number of states named in a sentence


@dataclass(frozen=True, kw_only=True)
class JobTrace:
    """Jobs of a trace."""

    jobs: Jobs  # Jobs in the order of submission, the first at time 0
    total: int
    ignored: Mapping[str, int]  # Number of ignored rows by reason
    first: Mapping[str, int]  # First ignored row by reason
    moved: int  # Jobs that precede one submitted earlier in the trace
    start_s: float  # Time of the first submission in the clock of the trace [s]
    # Number of jobs by recorded final state; empty where not recorded
    ends: Mapping[str, int] = field(default_factory=dict)
    cut_short: float = 0.0  # Share of the GPU time of jobs not recorded as completed

    def ends_text(self) -> str:
        """Return a note on jobs recorded as not completed, "" where there are none."""
        others = {state: n for state, n in self.ends.items() if state.lower() not in DONE}
        if not others:
            return ""
        ordered = sorted(others, key=lambda state: -others[state])
        notes = [f"{others[state]:,} {state}" for state in ordered[:MAX_ENDS]]
        rest = sum(others[state] for state in ordered[MAX_ENDS:])
        notes += [f"{rest:,} otherwise"] if rest else []
        return (
            f"recorded as not completed: {', '.join(notes)}, {100.0 * self.cut_short:.3g}% of the"
            " GPU time; each job runs as long as recorded and counts as completed here, with"
            " useful work"
        )

    def text(self) -> str:
        """Return a summary sentence."""
        reasons = [f"{n:,} {why}, first at {self.first[why]}" for why, n in self.ignored.items()]
        message = f" ({'; '.join(reasons)})" if reasons else ""
        ignored = sum(self.ignored.values())
        sorted_in = f", {self.moved:,} not in the order of submission" if self.moved else ""
        rows, jobs = counted(self.total, "row"), counted(self.jobs.size, "job")
        return f"{rows}, {jobs}{sorted_in}, {ignored:,} ignored{message}"
