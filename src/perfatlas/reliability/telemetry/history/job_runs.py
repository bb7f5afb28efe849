"""Job runs from scheduler accounting: hosts, times and final states.

A requeued job is several runs with one job id: each appears once, even if files repeat it.

Shape legend: R runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.reliability.telemetry.history.labels import NAME, ColumnBuilder
from perfatlas.reliability.telemetry.history.occupancy import Occupancy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from perfatlas.reliability.telemetry.history.labels import Labels
    from perfatlas.reliability.telemetry.reading import FileCounts

    Float = NDArray[np.float64]
    Int = NDArray[np.int64]

UNFINISHED: Final = ("RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "RESIZING", "STOPPED")


class JobRun(NamedTuple):
    """One run of a job."""

    job: str  # Job id with array task or component
    state: str  # Slurm state
    # Time of submission or requeue [s since 1970-01-01 UTC], NaN where not recorded
    submit_s: float
    start_s: float  # Start time [s]
    end_s: float  # End time [s], NaN while it runs or where not recorded
    hosts: str  # Host list
    host_count: int  # Nodes in the list
    gpus: int  # Allocated GPUs, 0 where not recorded
    failed_node: str = ""  # Failed node named by Slurm, "" for none
    run: str = ""  # Identifier of this run where the accounting has one (SLUID, or restart count)


@dataclass(frozen=True, kw_only=True)
class JobRuns:
    """Runs in order of start time, as columns."""

    job: Labels  # Job id (R,)
    state: Labels  # Slurm state (R,)
    # Time of submission or requeue [s since 1970-01-01 UTC] (R,), NaN where not recorded
    submit_s_R: Float
    start_s_R: Float  # Start time [s] (R,)
    end_s_R: Float  # End time [s] (R,), NaN while it runs or where not recorded
    hosts: Labels  # Host list, as written (R,)
    host_count_R: Int  # Nodes in the list (R,)
    gpus_R: Int  # Allocated GPUs (R,), 0 where not recorded
    failed_node: Labels  # Failed node named by Slurm (R,)
    file_E: NDArray[np.int32]  # Index of the file (R,)
    line_E: Int  # First line of the record (R,)
    files: tuple[FileCounts, ...]  # Line counts of every file

    @property
    def size(self) -> int:
        """Number of runs."""
        return int(self.start_s_R.shape[0])

    def occupancy(self) -> Occupancy:
        """Return when nodes ran jobs."""
        return Occupancy(
            start_s_R=self.start_s_R,
            end_s_R=self.end_s_R,
            hosts=self.hosts,
            job=self.job,
            state=self.state,
            file_R=self.file_E,
            line_R=self.line_E,
        )


# Columns of runs, in the order of the values of a run, its file and its line.
_COLUMNS: Final = {
    "job": NAME, "state": NAME, "submit_s_R": "d", "start_s_R": "d", "end_s_R": "d", "hosts": NAME,
    "host_count_R": "q", "gpus_R": "q", "failed_node": NAME, "file_E": "i", "line_E": "q",
}  # fmt: skip


class RunsBuilder:
    """Builder of runs; of several records of a run the one that ends last is kept."""

    def __init__(self) -> None:
        """Start without runs."""
        self._runs = ColumnBuilder(_COLUMNS)
        self._rows: dict[tuple[str, str, float, float], int] = {}
        self._files: list[FileCounts] = []

    def add(self, run: JobRun, line: int, tally: FileCounts) -> None:
        """Add a record, or merge it with an earlier one."""
        submit_s = -1.0 if math.isnan(run.submit_s) else run.submit_s
        key = (run.job, run.run, submit_s, run.start_s)
        row = self._rows.get(key)
        if row is None:
            tally.parsed += 1
            self._rows[key] = self._runs.append(*run[:-1], len(self._files), line)
            return
        columns = self._runs.columns
        known_s, state = columns["end_s_R"][row], columns["state"]
        same_end = known_s == run.end_s or (math.isnan(known_s) and math.isnan(run.end_s))
        if same_end and state.codes[row] == state.code_of.get(run.state):
            tally.merge("identical to an earlier record", line)
        elif math.isnan(known_s) or run.end_s > known_s:
            tally.merge("newer record of an earlier run", line)
            for column, value in zip(columns.values(), run[:-1], strict=False):
                column[row] = value
        else:
            tally.merge("older record of an earlier run", line)

    def end_file(self, counts: FileCounts) -> None:
        """End a file: further runs belong to the next one."""
        self._files.append(counts)

    def close(self) -> JobRuns:
        """Return the runs sorted by start."""
        return JobRuns(**self._runs.close("start_s_R"), files=tuple(self._files))
