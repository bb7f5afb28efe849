"""Job runs from scheduler accounting: hosts, times and final states.

A requeued job is several runs with one job id: each appears once, even if files repeat it.

Shape legend: R runs.
"""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.reliability.telemetry.history.labels import LabelBuilder, Labels
from perfatlas.reliability.telemetry.history.occupancy import Occupancy

if TYPE_CHECKING:
    from numpy.typing import NDArray

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


_LABELS: Final = ("job", "state", "hosts", "failed_node")
_TIMES: Final = ("submit_s", "start_s", "end_s")
_COUNTS: Final = ("host_count", "gpus")


class RunsBuilder:
    """Builder of runs; of several records of a run the one that ends last is kept."""

    def __init__(self) -> None:
        """Start without runs."""
        self._labels = {name: LabelBuilder() for name in _LABELS}
        self._times = {name: array("d") for name in _TIMES}
        self._counts = {name: array("q") for name in _COUNTS}
        self._file, self._line = array("i"), array("q")
        self._rows: dict[tuple[str, str, float, float], int] = {}
        self._files: list[FileCounts] = []

    def add(self, run: JobRun, line: int, tally: FileCounts) -> None:
        """Add a record, or merge it with an earlier one."""
        submit_s = -1.0 if math.isnan(run.submit_s) else run.submit_s
        key = (run.job, run.run, submit_s, run.start_s)
        row = self._rows.get(key)
        if row is None:
            tally.parsed += 1
            self._rows[key] = len(self._line)
            self._append(run, line)
        elif self._same(row, run):
            tally.merge("identical to an earlier record", line)
        elif math.isnan(self._times["end_s"][row]) or run.end_s > self._times["end_s"][row]:
            tally.merge("newer record of an earlier run", line)
            self._replace(row, run)
        else:
            tally.merge("older record of an earlier run", line)

    def end_file(self, counts: FileCounts) -> None:
        """End a file: further runs belong to the next one."""
        self._files.append(counts)

    def close(self) -> JobRuns:
        """Return the runs sorted by start; nothing can be added afterwards."""
        self._rows.clear()
        start_s_R = np.array(self._times["start_s"], np.float64)
        order_R = np.argsort(start_s_R, kind="stable")
        labels = {name: column.close(order_R) for name, column in self._labels.items()}
        times = {f"{n}_R": np.array(c, np.float64)[order_R] for n, c in self._times.items()}
        counts = {f"{n}_R": np.array(c, np.int64)[order_R] for n, c in self._counts.items()}
        columns: dict[str, Any] = {**labels, **times, **counts}
        return JobRuns(
            **columns,
            file_E=np.array(self._file, np.int32)[order_R],
            line_E=np.array(self._line, np.int64)[order_R],
            files=tuple(self._files),
        )

    def _append(self, run: JobRun, line: int) -> None:
        for name, labels in self._labels.items():
            labels.add(getattr(run, name))
        for name, times in self._times.items():
            times.append(getattr(run, name))
        for name, counts in self._counts.items():
            counts.append(getattr(run, name))
        self._file.append(len(self._files))
        self._line.append(line)

    def _same(self, row: int, run: JobRun) -> bool:
        state = self._labels["state"]
        end_s = self._times["end_s"][row]
        same_end = end_s == run.end_s or (math.isnan(end_s) and math.isnan(run.end_s))
        return same_end and state.codes[row] == state.code_of.get(run.state, -1)

    def _replace(self, row: int, run: JobRun) -> None:
        for name, labels in self._labels.items():
            value = getattr(run, name)
            labels.codes[row] = labels.code_of.setdefault(value, len(labels.code_of))
        for name, times in self._times.items():
            times[row] = getattr(run, name)
        for name, counts in self._counts.items():
            counts[row] = getattr(run, name)


def why_no_run(step: str, state: str, written: str, *, waiting: bool) -> str:
    """Return why an accounting record is not a job run, "" where it is one.

    Args:
        step: Step of the job, "" for the job itself.
        state: State, "" where unknown.
        waiting: Whether the record represents pending tasks.
    """
    if step:
        return "step of a job"
    if not state:
        return f"state {(written.split() or ['?'])[0]} is unknown"
    if waiting or state == "PENDING":
        return "job that never started"
    return ""
