"""When nodes ran jobs: runs of jobs with their host lists, and the operating time of each node.

A failure that accounting reports was observed because a job ran on the node, so its exposure is the
time under jobs and not the whole observation window.

Shape legend: R runs, I busy intervals of nodes, N nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.reliability.telemetry.history.hostlist import expand_hosts
from perfatlas.reliability.telemetry.history.labels import NAME, ColumnBuilder, joined_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from perfatlas.reliability.telemetry.history.labels import Labels

    Float = NDArray[np.float64]
    Int = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Occupancy:
    """Runs of jobs in the logs of a history."""

    start_s_R: Float  # Start of each run [s since 1970-01-01 UTC] (R,)
    end_s_R: Float  # End [s] (R,), NaN while it runs or where not recorded
    hosts: Labels  # Host list, "" where not recorded (R,)
    job: Labels  # Job id (R,)
    state: Labels  # Final state (R,)
    file_R: NDArray[np.int32]  # Index of the file in the history (R,)
    line_R: Int  # Line in the file (R,)

    @property
    def size(self) -> int:
        """Number of runs."""
        return int(self.start_s_R.shape[0])

    def job_seconds(self, window_s: tuple[float, float]) -> float:
        """Return the total running time of all jobs in a window [s].

        Args:
            window_s: Start and end of the window [s since 1970-01-01 UTC].
        """
        start_s_R, end_s_R = self._clipped(window_s)
        return float(np.maximum(end_s_R - start_s_R, 0.0).sum())

    def operating_time(self, window_s: tuple[float, float]) -> OperatingTime:
        """Return the time that each node ran jobs in a window; shared nodes count once.

        Args:
            window_s: Start and end of the window [s since 1970-01-01 UTC].
        """
        start_s_R, end_s_R = self._clipped(window_s)
        codes: dict[str, int] = {}
        nodes_of = [
            np.array([codes.setdefault(name, len(codes)) for name in expand_hosts(text)], np.int64)
            for text in self.hosts.names
        ]
        inside_R = np.flatnonzero(end_s_R > start_s_R)
        of_R = [nodes_of[code] for code in self.hosts.code_E[inside_R].tolist()]
        count_R = np.array([nodes.size for nodes in of_R], np.int64)
        node_I = np.concatenate([np.zeros(0, np.int64), *of_R])
        run_I = np.repeat(inside_R, count_R)
        return _united(tuple(codes), node_I, start_s_R[run_I], end_s_R[run_I])

    def _clipped(self, window_s: tuple[float, float]) -> tuple[Float, Float]:
        """Return starts and ends inside a window (R,); runs without an end last until its end."""
        low_s, high_s = window_s
        end_s_R = np.where(np.isnan(self.end_s_R), high_s, self.end_s_R)
        return np.clip(self.start_s_R, low_s, high_s), np.clip(end_s_R, low_s, high_s)


@dataclass(frozen=True, kw_only=True)
class OperatingTime:
    """Busy intervals of nodes, without overlap, by node and start."""

    names: tuple[str, ...]  # Nodes that ran jobs (N,)
    first_N: Int  # First interval of each node, and the number of intervals (N + 1,)
    start_s_I: Float  # Start of each interval [s since 1970-01-01 UTC] (I,)
    end_s_I: Float  # End [s] (I,)
    before_s_I: Float  # Operating time of the node before it [s] (I,)
    seconds_N: Float  # Operating time of each node [s] (N,)

    @property
    def total_s(self) -> float:
        """Operating time of all nodes [s]."""
        return float(self.seconds_N.sum())

    def by_node(self) -> Mapping[str, float]:
        """Return the operating time by node [s]."""
        return dict(zip(self.names, self.seconds_N.tolist(), strict=True))

    def is_busy(self, node: int, time_s: float) -> bool:
        """Return whether a node ran a job at a moment.

        Args:
            time_s: The moment [s since 1970-01-01 UTC].
        """
        index = self._interval_at(node, time_s)
        return index >= int(self.first_N[node]) and time_s <= float(self.end_s_I[index])

    def at(self, node: int, time_s: float) -> float:
        """Return the operating time of a node until a moment [s].

        Args:
            time_s: The moment [s since 1970-01-01 UTC].
        """
        index = self._interval_at(node, time_s)
        if index < int(self.first_N[node]):
            return 0.0
        inside_s = min(time_s, float(self.end_s_I[index])) - float(self.start_s_I[index])
        return float(self.before_s_I[index]) + inside_s

    def _interval_at(self, node: int, time_s: float) -> int:
        """Return the last interval of a node that begins before a moment, or the one before."""
        low, high = int(self.first_N[node]), int(self.first_N[node + 1])
        return low + int(np.searchsorted(self.start_s_I[low:high], time_s, side="right")) - 1


# Columns of the runs, in the order in which a builder gets them.
_COLUMNS: Final = {
    "start_s_R": "d", "end_s_R": "d", "hosts": NAME, "job": NAME, "state": NAME, "file_R": "i",
    "line_R": "q",
}  # fmt: skip


class OccupancyBuilder:
    """Builder of the runs of jobs."""

    def __init__(self) -> None:
        """Start without runs."""
        self._runs = ColumnBuilder(_COLUMNS)

    def add(
        self, times_s: tuple[float, float], names: tuple[str, str, str], file: int, line: int
    ) -> None:
        """Add a run.

        Args:
            times_s: Start and end [s since 1970-01-01 UTC], NaN for no end.
            names: Host list, job and state.
        """
        self._runs.append(*times_s, *names, file, line)

    def close(self) -> Occupancy | None:
        """Return the runs sorted by start, None without runs."""
        return Occupancy(**self._runs.close("start_s_R")) if self._runs.rows else None


def _united(names: tuple[str, ...], node_I: Int, start_s_I: Float, end_s_I: Float) -> OperatingTime:
    """Return the union of intervals per node."""
    order_I = np.lexsort((start_s_I, node_I))
    node_I, start_s_I, end_s_I = node_I[order_I], start_s_I[order_I], end_s_I[order_I]
    # nodes are shifted apart, so that one running maximum serves all of them
    span_s = float(end_s_I.max() - start_s_I.min()) + 1.0 if start_s_I.size else 1.0
    low_s = float(start_s_I.min()) if start_s_I.size else 0.0
    start_I = start_s_I - low_s + node_I * span_s
    reach_I = np.maximum.accumulate(end_s_I - low_s + node_I * span_s)
    opens_I = np.ones(node_I.size, bool)
    opens_I[1:] = (start_I[1:] > reach_I[:-1]) | (np.diff(node_I) != 0)
    first_I = np.flatnonzero(opens_I)
    last_I = np.append(first_I[1:], node_I.size) - 1 if first_I.size else first_I
    node_I = node_I[first_I]
    start_s_I = start_s_I[first_I]
    end_s_I = reach_I[last_I] + low_s - node_I * span_s
    length_s_I = end_s_I - start_s_I
    first_N = np.searchsorted(node_I, np.arange(len(names) + 1))
    total_s_I = np.concatenate([[0.0], np.cumsum(length_s_I)])
    return OperatingTime(
        names=names,
        first_N=first_N,
        start_s_I=start_s_I,
        end_s_I=end_s_I,
        before_s_I=total_s_I[:-1] - total_s_I[first_N[node_I]],
        seconds_N=np.diff(total_s_I[first_N]),
    )


def joined_occupancy(parts: Sequence[Occupancy | None], shift: Sequence[int]) -> Occupancy | None:
    """Return the runs of several histories, with their file indices shifted; None for no runs."""
    kept = [(part, first) for part, first in zip(parts, shift, strict=True) if part is not None]
    if not kept:
        return None
    runs, shifts = zip(*kept, strict=True)
    return Occupancy(**joined_columns(runs, _COLUMNS, "start_s_R", "file_R", shifts))
