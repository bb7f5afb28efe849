"""Job runs from a scheduler's accounting: who ran where from when to when, and how it ended.

A requeued job is several runs with one job id: each is told once, however often files repeat it.

Shape legend: R runs.
"""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.telemetry.history.history import LabelBuilder, Labels
from perfatlas.telemetry.history.hostlist import expand_hosts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from perfatlas.telemetry.reading import FileCounts, Tally

    Float = NDArray[np.float64]
    Int = NDArray[np.int64]

UNFINISHED: Final = ("RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "RESIZING", "STOPPED")


class Run(NamedTuple):
    """One run of a job.

    Args:
        job: Job id with array task or part.
        state: How it ended, or is.
        submit_s: When it was submitted or requeued [s since 1970-01-01 UTC], NaN where not told.
        start_s: When it started [s].
        end_s: When it ended [s], NaN while it runs or where accounting lost the end.
        hosts: Host list.
        host_count: Nodes of the list.
        gpus: GPUs allocated, 0 where none are told.
        status: Exit status.
        signal: Signal that ended it, 0 for none.
        failed_node: Node Slurm blames, "" for none.
        reason: Reason Slurm gives, "" for none.
        run: Identifier of this run where the accounting has one (SLUID, or restart count).
    """

    job: str
    state: str
    submit_s: float
    start_s: float
    end_s: float
    hosts: str
    host_count: int
    gpus: int
    status: int = 0
    signal: int = 0
    failed_node: str = ""
    reason: str = ""
    run: str = ""


@dataclass(frozen=True, kw_only=True)
class JobRuns:
    """Runs in the order of their start, as columns.

    Args:
        job: Job id (R,).
        state: Slurm state (R,).
        submit_s_R: When submitted or requeued [s since 1970-01-01 UTC] (R,), NaN where not told.
        start_s_R: When started [s] (R,).
        end_s_R: When ended [s] (R,), NaN where it had not, or accounting lost it.
        hosts: Host list, as written (R,).
        host_count_R: Nodes of the list (R,).
        gpus_R: GPUs allocated (R,), 0 where none are told.
        status_R: Exit status (R,).
        signal_R: Signal (R,), 0 for none.
        failed_node: Node Slurm blames (R,).
        file_E: Index of the file (R,).
        line_E: First line of the record (R,).
        files: What became of every file.
    """

    job: Labels
    state: Labels
    submit_s_R: Float
    start_s_R: Float
    end_s_R: Float
    hosts: Labels
    host_count_R: Int
    gpus_R: Int
    status_R: Int
    signal_R: Int
    failed_node: Labels
    file_E: NDArray[np.int32]
    line_E: Int
    files: tuple[FileCounts, ...]

    @property
    def size(self) -> int:
        """Return how many runs there are."""
        return int(self.start_s_R.shape[0])

    @property
    def last_s(self) -> float:
        """Return the last time any run tells of [s]; the log watched at least so long."""
        return float(np.nanmax(np.concatenate([self.start_s_R, self.end_s_R])))

    def node_seconds(self, until_s: float) -> Mapping[str, float]:
        """Return how long each node ran jobs [s].

        Args:
            until_s: When runs without an end are taken to be still running [s].

        Limits: Jobs that share a node each count: with shared nodes this is more than wall time.
            Every node of every list is visited; it is the one place where lists are expanded.
        """
        end_s_R = np.where(np.isnan(self.end_s_R), until_s, self.end_s_R)
        length_s_R = np.maximum(end_s_R - self.start_s_R, 0.0)
        length_s_L = np.bincount(
            self.hosts.code_E, weights=length_s_R, minlength=len(self.hosts.names)
        )
        seconds: dict[str, float] = {}
        for text, length_s in zip(self.hosts.names, length_s_L.tolist(), strict=True):
            for host in expand_hosts(text):
                seconds[host] = seconds.get(host, 0.0) + length_s
        return seconds


_LABELS: Final = ("job", "state", "hosts", "failed_node")
_TIMES: Final = ("submit_s", "start_s", "end_s")
_COUNTS: Final = ("host_count", "gpus", "status", "signal")


class RunsBuilder:
    """Runs while they are read; of several records of a run the one that ends last is kept."""

    def __init__(self) -> None:
        """Begin with no run."""
        self._labels = {name: LabelBuilder() for name in _LABELS}
        self._times = {name: array("d") for name in _TIMES}
        self._counts = {name: array("q") for name in _COUNTS}
        self._file, self._line = array("i"), array("q")
        self._rows: dict[tuple[str, str, float, float], int] = {}
        self._files: list[FileCounts] = []

    def add(self, run: Run, line: int, tally: Tally) -> None:
        """Add a record, or find that it repeats one.

        Args:
            run: The run.
            line: First line of the record.
            tally: Counts of the file.
        """
        submit_s = -1.0 if math.isnan(run.submit_s) else run.submit_s
        key = (run.job, run.run, submit_s, run.start_s)
        row = self._rows.get(key)
        if row is None:
            tally.parsed += 1
            self._rows[key] = len(self._line)
            self._append(run, line)
        elif self._same(row, run):
            tally.merge("identical to a record above", line)
        elif self._is_newer(row, run):
            tally.merge("newer record of a run above", line)
            self._replace(row, run)
        else:
            tally.merge("older record of a run above", line)

    def end_file(self, counts: FileCounts) -> None:
        """End a file: the next runs are of the next one.

        Args:
            counts: What became of its lines.
        """
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

    def _append(self, run: Run, line: int) -> None:
        for name, labels in self._labels.items():
            labels.add(getattr(run, name))
        for name, times in self._times.items():
            times.append(getattr(run, name))
        for name, counts in self._counts.items():
            counts.append(getattr(run, name))
        self._file.append(len(self._files))
        self._line.append(line)

    def _same(self, row: int, run: Run) -> bool:
        state = self._labels["state"]
        end_s = self._times["end_s"][row]
        same_end = end_s == run.end_s or (math.isnan(end_s) and math.isnan(run.end_s))
        return same_end and state.codes[row] == state.known.get(run.state, -1)

    def _is_newer(self, row: int, run: Run) -> bool:
        """Tell whether a record was written later: once told, an end only moves on."""
        end_s = self._times["end_s"][row]
        return math.isnan(end_s) or run.end_s > end_s

    def _replace(self, row: int, run: Run) -> None:
        for name, labels in self._labels.items():
            value = getattr(run, name)
            labels.codes[row] = labels.known.setdefault(value, len(labels.known))
        for name, times in self._times.items():
            times[row] = getattr(run, name)
        for name, counts in self._counts.items():
            counts[row] = getattr(run, name)


def why_no_run(step: str, state: str, written: str, *, waiting: bool) -> str:
    """Return why a record of accounting is no run of a job, "" where it is one.

    Args:
        step: Step of the job, "" for the job itself.
        state: State, "" where it is not known.
        written: State as written.
        waiting: Whether the record stands for tasks that have not started.
    """
    if step:
        return "step of a job"
    if not state:
        return f"state {(written.split() or ['?'])[0]} is not known"
    if waiting or state == "PENDING":
        return "job that never started"
    return ""
