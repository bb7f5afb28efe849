"""Busy, idle and overlapped time of the devices of a profile.

Shape legend: N activities, I intervals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfatlas.profiles.classes import COMMUNICATION, COPIES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.profiles.events import Profile

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]


class Intervals(NamedTuple):
    """Disjoint intervals in order."""

    start_I: FloatArray  # Starts [s]
    end_I: FloatArray  # Ends [s]

    @property
    def length_s(self) -> float:
        """Their total length [s]."""
        return float((self.end_I - self.start_I).sum())


class DeviceTimes(NamedTuple):
    """Times of one device; the wall time is that from its first to its last activity [s]."""

    wall_s: float
    busy_s: float  # Time with at least one activity
    communication_s: float
    exposed_communication_s: float  # Time with communication and no other kernel
    idle_host_s: float  # Idle time before the host called the launch of the next activity
    idle_device_s: float  # Idle time after that call: launch latency, dependencies, full queues
    idle_unknown_s: float  # Idle time before activities without a launch record, and inside graphs

    @property
    def idle_s(self) -> float:
        """Wall time without any activity [s]."""
        return max(0.0, self.wall_s - self.busy_s)


def union(start_N: FloatArray, end_N: FloatArray) -> Intervals:
    """Return the time covered by at least one interval.

    Args:
        start_N: Starts [s].
        end_N: Ends [s].

    Example:
        >>> import numpy as np
        >>> from perfatlas.profiles.timeline.occupancy import union
        >>> union(np.array([0.0, 1.0, 5.0]), np.array([2.0, 3.0, 6.0])).length_s
        4.0
    """
    if not len(start_N):
        return Intervals(np.zeros(0), np.zeros(0))
    order = np.argsort(start_N, kind="stable")
    start, reached = start_N[order], np.maximum.accumulate(end_N[order])
    opens = np.concatenate([[True], start[1:] > reached[:-1]])
    closes = np.concatenate([opens[1:], [True]])
    return Intervals(start[opens], reached[closes])


def device_times(profile: Profile, class_N: IntArray) -> list[DeviceTimes]:
    """Return the times of each device with activity; none without a timeline."""
    if not profile.has_timeline:
        return []
    devices = np.unique(profile.activities.device_N).tolist()
    return [_times(profile, class_N, int(device)) for device in devices]


def _times(profile: Profile, class_N: IntArray, device: int) -> DeviceTimes:
    activities = profile.activities
    indices = np.flatnonzero(activities.device_N == device)
    start, end = activities.start_s_N[indices], activities.end_s()[indices]
    code = class_N[indices]
    busy = union(start, end)
    communicates = code == COMMUNICATION
    computes = ~communicates & (code != COPIES)
    communication = union(start[communicates], end[communicates])
    compute = union(start[computes], end[computes])
    kernels = union(start[communicates | computes], end[communicates | computes])
    return DeviceTimes(
        float(end.max() - start.min()),
        busy.length_s,
        communication.length_s,
        min(max(0.0, kernels.length_s - compute.length_s), communication.length_s),
        *_idle_causes(profile, indices[np.argsort(start, kind="stable")], busy),
    )


def _idle_causes(profile: Profile, order: IntArray, busy: Intervals) -> tuple[float, float, float]:
    """Return idle time before and after the launch of what ends each gap, and without one [s]."""
    activities, launches = profile.activities, profile.launches
    gap_start, gap_end = busy.end_I[:-1], busy.start_I[1:]
    launch = activities.launch_N[order[np.searchsorted(activities.start_s_N[order], gap_end)]]
    has_launch = launch >= 0
    call_s = np.append(launches.start_s_L, 0.0)[launch]
    # later kernels of a graph share the launch of its first one: a gap between them has no call
    in_graph = np.append(launches.is_graph_L, [False])[launch]
    has_launch &= ~(in_graph & (call_s < gap_start))
    called = np.clip(call_s, gap_start, gap_end)
    host_s = float((called - gap_start)[has_launch].sum())
    device_s = float((gap_end - called)[has_launch].sum())
    return host_s, device_s, float((gap_end - gap_start)[~has_launch].sum())
