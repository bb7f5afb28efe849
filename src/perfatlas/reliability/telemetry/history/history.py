"""Histories of events: a columnar form that every reader produces.

An event happened to one component: it started, and may have been detected and recovered. Values
that a log does not record stay empty (an empty name, NaN) and are never guessed.

Shape legend: E events.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.reliability.telemetry.history.labels import (
    NAME,
    ColumnBuilder,
    Labels,
    joined_columns,
)
from perfatlas.reliability.telemetry.history.occupancy import joined_occupancy

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from perfatlas.reliability.telemetry.history.occupancy import Occupancy
    from perfatlas.reliability.telemetry.reading import FileCounts

    Float = NDArray[np.float64]

NOT_TOLD: Final = float("nan")
NODE_STATE: Final = "node"  # component of states that a scheduler gives a whole node
# Kinds of events, the strongest claim first.
FAILURE: Final = "failure"  # a component failed
UNCLEAR: Final = "unclear"  # infrastructure or the user's program: unknown from the log
EFFECT: Final = "effect"  # usually an application error caused by something else
NOTICE: Final = "notice"  # recorded; nothing stopped
PLANNED: Final = "planned"  # planned: maintenance, preemption
OVERHEAD: Final = "overhead"  # time of a job outside of work, without a failure
KINDS: Final = (FAILURE, UNCLEAR, EFFECT, NOTICE, PLANNED, OVERHEAD)
# What ends an event, as documented for it, the lightest action first.
PROCESS: Final = "process"  # a restart of the program
GPU_RESET: Final = "gpu_reset"
NODE_REBOOT: Final = "node_reboot"
REPAIR: Final = "repair"  # diagnosis, replacement, vendor
ACTIONS: Final = (PROCESS, GPU_RESET, NODE_REBOOT, REPAIR)


class Event(NamedTuple):
    """One event."""

    start_s: float  # Time of the event as recorded [s since 1970-01-01 UTC]
    component: str  # Affected component: gpu, hbm, nvlink, nic, host, job, ..
    cause: str  # Cause as an identifier: xid_79, node_fail, ..
    kind: str  # One of `KINDS`
    line: int  # Line or record in the log
    node: str = ""  # Host, "" where not recorded
    device: str = ""  # Device of the host (PCI address, UUID), "" where not recorded
    job: str = ""  # Job, "" for none
    detected_s: float = NOT_TOLD  # Detection time [s], NaN where not recorded
    recovered_s: float = NOT_TOLD  # Recovery time [s], NaN where not recorded or not recovered
    # Documented action that ends it, one of `ACTIONS`; "" where none is documented
    action: str = ""


@dataclass(frozen=True, kw_only=True)
class History:
    """Events in order of start time, as columns."""

    start_s_E: Float  # Time of each event [s since 1970-01-01 UTC] (E,)
    detected_s_E: Float  # Detection time [s] (E,), NaN where not recorded
    recovered_s_E: Float  # Recovery time [s] (E,), NaN where not recorded or not recovered
    node: Labels  # Host (E,)
    device: Labels  # Device of the host (E,)
    component: Labels  # Kind of component (E,)
    cause: Labels  # Cause (E,)
    kind: Labels  # One of `KINDS` (E,)
    job: Labels  # Job (E,)
    file_E: NDArray[np.int32]  # Index of the file (E,)
    line_E: NDArray[np.int64]  # Line in the file (E,)
    action: Labels  # Documented action, "" for none (E,)
    files: tuple[FileCounts, ...]  # Line counts of every file
    occupancy: Occupancy | None = None  # When nodes ran jobs, None where no log has it

    @property
    def size(self) -> int:
        """Number of events."""
        return int(self.start_s_E.shape[0])

    def unit(self, event: int) -> str:
        """Return the unit of an event: its node, node/device, or job for job failures."""
        if self.component.at(event) == "job":
            return self.job.at(event)
        node, device = self.node.at(event), self.device.at(event)
        return f"{node}/{device}" if device else node

    def units(self) -> list[str]:
        """Return the unit of every event."""
        return [self.unit(event) for event in range(self.size)]

    def place(self, event: int) -> str:
        """Return file and line of an event."""
        return f"{self.files[self.file_E[event]].path}:{self.line_E[event]}"


# Columns of a history, in the order of the values of an event and of its file.
_COLUMNS: Final = {
    "start_s_E": "d", "component": NAME, "cause": NAME, "kind": NAME, "line_E": "q", "node": NAME,
    "device": NAME, "job": NAME, "detected_s_E": "d", "recovered_s_E": "d", "action": NAME,
    "file_E": "i",
}  # fmt: skip


class HistoryBuilder:
    """Builder of a history: 60 bytes per event and each name once."""

    def __init__(self) -> None:
        """Start without events."""
        self._events = ColumnBuilder(_COLUMNS)
        self._files: list[FileCounts] = []

    def add(self, event: Event) -> int:
        """Append an event of the current file, and return its index."""
        return self._events.append(*event, len(self._files))

    def recover(self, event: int, recovered_s: float) -> None:
        """Set the recovery time of an event."""
        self._events.columns["recovered_s_E"][event] = recovered_s

    def end_file(self, counts: FileCounts) -> None:
        """End a file: further events belong to the next one."""
        self._files.append(counts)

    def close(self, occupancy: Occupancy | None = None) -> History:
        """Return the history, sorted by start; ties keep the order of reading.

        Args:
            occupancy: When nodes ran jobs, with the same files.
        """
        columns = self._events.close("start_s_E")
        return History(**columns, files=tuple(self._files), occupancy=occupancy)


def joined(histories: Sequence[History]) -> History:
    """Return one history of several logs, sorted by start.

    Args:
        histories: At least one. A failure in two logs remains two events: do not join kernel lines
            and exporter metrics of the same GPUs.
    """
    shift = [0, *accumulate(len(h.files) for h in histories[:-1])]
    return History(
        **joined_columns(histories, _COLUMNS, "start_s_E", "file_E", shift),
        files=tuple(file for h in histories for file in h.files),
        occupancy=joined_occupancy([h.occupancy for h in histories], shift),
    )
