"""The timeline of a profile with other durations of its activities.

Every activity starts after what it started after in the profile: its launch, the activity before it
in its stream, one that it waited for in another stream. Every call of the host follows the call
before it, after the same time; a call that waits returns after the activities it waited for.

Shape legend: N activities, L calls of the host, T moments.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.profiles.classes import CLASSES
from perfatlas.profiles.events import NO_INDEX, NO_WAIT, WAIT_FOR_ALL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from perfatlas.profiles.events import Profile

    BoolArray = NDArray[np.bool_]
    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]

MIN_QUEUED: Final = 500  # launches ahead of the device; CUDA holds about 1,000 and then blocks
MIN_BLOCKED: Final = 10.0  # median launch times, from which a call waited for room in the queue
PARTS: Final = (*CLASSES, "host", "launch")  # of a critical path
_HOST, _LAUNCH = len(CLASSES), len(CLASSES) + 1
RETURN, CALL, START = range(3)  # moments at one time, in the order in which they cause others


class Dependency(NamedTuple):
    """What a moment comes after."""

    moment: int  # Number of the earlier moment
    is_end: bool  # Whether it counts from the end of that activity, not from its start
    time_s: float  # When it was in the profile [s]
    lag_s: float  # Time in between; while causes are looked for, what it usually is [s]


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """A profile with other durations."""

    profile: Profile  # The profile with new times
    time_T: Sequence[float]  # Time of each moment [s]
    # What each moment waited for last; None for those that keep their time
    causes_T: Sequence[Dependency | None]

    def critical_path(self, class_N: IntArray) -> FloatArray:
        """Return the time of each of `PARTS` that the last activity waited for [s]."""
        activities, time_s = self.profile.activities, np.zeros(len(PARTS))
        end_s_N = activities.end_s()
        first_s, moment = float(activities.start_s_N.min()), int(np.argmax(end_s_N))
        until_s = float(end_s_N[moment])
        while until_s > first_s:
            is_host = moment >= len(class_N)
            if not is_host:
                time_s[class_N[moment]] += max(0.0, until_s - self.time_T[moment])
                until_s = min(until_s, self.time_T[moment])
            cause = self.causes_T[moment]
            if cause is None:
                break
            before_s = max(first_s, self.time_T[moment] - cause.lag_s)
            time_s[_HOST if is_host else _LAUNCH] += max(0.0, until_s - before_s)
            moment, until_s = cause.moment, min(until_s, before_s)
        return time_s


class Replay:
    """The causes of all moments of a profile.

    Moments are the starts of activities (N), the starts of calls (L) and the returns of calls (L).

    Args:
        profile: Profile with a timeline.
    """

    def __init__(self, profile: Profile) -> None:
        """Find what each moment waited for."""
        self.profile = profile
        activities, calls = profile.activities, profile.launches
        self._N, self._L = len(activities.time_s_N), len(calls.start_s_L)
        self._start_N, self._end_N = activities.start_s_N.tolist(), activities.end_s().tolist()
        self._start_L, self._end_L = calls.start_s_L.tolist(), calls.end_s_L.tolist()
        called_N = np.append(calls.start_s_L, -np.inf)[activities.launch_N]
        self._key_N = np.maximum(activities.start_s_N, called_N)
        pairs = np.stack([activities.device_N, activities.stream_N], axis=1)
        self._stream_N = np.unique(pairs, axis=0, return_inverse=True)[1].ravel()
        order = np.lexsort((self._key_N, self._stream_N))
        same = self._stream_N[order[1:]] == self._stream_N[order[:-1]]
        # the activity before each one in its stream
        self._before_N = np.full(len(order), NO_INDEX, np.int64)
        self._before_N[order[1:][same]] = order[:-1][same]
        process_N = np.append(calls.process_L, NO_INDEX)[activities.launch_N]
        self._of_process = {
            process: np.isin(process_N, (process, NO_INDEX))
            for process in np.unique(calls.process_L).tolist()
        }
        self._launch_s, self._gap_s = self._usual_lags(called_N)
        self._ended_N = np.argsort(activities.end_s(), kind="stable").tolist()
        ended_L = np.argsort(calls.end_s_L, kind="stable")
        self._ended_L = {
            process: ended_L[calls.process_L[ended_L] == process].tolist()
            for process in self._of_process
        }
        self._device_N = activities.device_N.tolist()
        devices = np.unique(activities.device_N).tolist()
        self._on_device = {device: activities.device_N == device for device in devices}
        self._awaited: dict[int, list[int]] = {}  # by events of other streams
        for later, earlier in profile.waits:
            self._awaited.setdefault(later, []).append(earlier)
        self._returned = self._returns()
        self._done = bytearray(self._N + 2 * self._L)
        self._latest: dict[int, int] = {}  # activity by stream
        self._causes = list(self._dependencies())

    def run(self, time_s_N: FloatArray) -> Replayed:
        """Return the profile with other durations.

        Args:
            time_s_N: Duration of each activity (N) [s].
        """
        time_T = [*self._start_N, *self._start_L, *self._end_L]
        last_T: list[Dependency | None] = [None] * len(time_T)
        durations = time_s_N.tolist()
        for moment, causes in self._causes:
            latest_s = -np.inf
            for cause in causes:
                before, is_end, _, lag_s = cause
                at_s = time_T[before] + lag_s + (durations[before] if is_end else 0.0)
                if at_s > latest_s:
                    latest_s, last_T[moment] = at_s, cause
            if causes:
                time_T[moment] = latest_s
        calls = self.profile.launches
        start_s_L = np.array(time_T[self._N : self._N + self._L])
        end_s_L = start_s_L + calls.end_s_L - calls.start_s_L
        end_s_L[list(self._returned)] = [
            time_T[self._N + self._L + number] for number in self._returned
        ]
        new = replace(
            self.profile,
            activities=replace(
                self.profile.activities, start_s_N=np.array(time_T[: self._N]), time_s_N=time_s_N
            ),
            launches=replace(calls, start_s_L=start_s_L, end_s_L=end_s_L),
        )
        return Replayed(profile=new, time_T=time_T, causes_T=last_T)

    def _usual_lags(self, called_N: FloatArray) -> tuple[float, float]:
        """Return the medians of launch latency and of the gap between queued kernels [s].

        Without a launch to an idle stream, the latency is that of the call and of a gap.
        """
        start_N, calls = self.profile.activities.start_s_N, self.profile.launches
        free_N = np.append(self._end_N, np.nan)[self._before_N]
        gap_N = (start_N - free_N)[(called_N < free_N) & (start_N >= free_N)]
        gap_s = float(np.median(gap_N)) if len(gap_N) else 0.0
        launch_N = (start_N - called_N)[(called_N > free_N) & (start_N >= called_N)]
        if len(launch_N):
            return float(np.median(launch_N)), gap_s
        call_L = (calls.end_s_L - calls.start_s_L)[calls.is_kernel_L]
        return gap_s + (float(np.median(call_L)) if len(call_L) else 0.0), gap_s

    def _dependencies(self) -> Iterator[tuple[int, list[Dependency]]]:
        """Yield moments in order, each with its causes; those before it have been yielded."""
        first, calls = self._N + self._L, self.profile.launches
        returned = np.array(sorted(self._returned), np.int64)
        moment_T = np.concatenate([np.arange(first), first + returned])
        key_T = np.concatenate([self._key_N, calls.start_s_L, calls.end_s_L[returned]])
        kind_T = np.repeat([START, CALL, RETURN], [self._N, self._L, len(returned)])
        for moment in moment_T[np.lexsort((kind_T, key_T))].tolist():
            if moment < self._N:
                yield moment, self._lags(self._start_N[moment], self._starts_after(moment))
                self._latest[int(self._stream_N[moment])] = moment
            elif moment < first:
                at_s = self._start_L[moment - self._N]
                yield moment, self._lags(at_s, self._call_after(moment - self._N))
            else:
                at_s = self._end_L[moment - first]
                yield moment, self._lags(at_s, self._returns_after(moment - first))
            self._done[moment] = 1

    def _lags(self, time_s: float, causes: Sequence[Dependency]) -> list[Dependency]:
        """Return causes with their lags: that of the last one is as recorded, others are usual."""
        done = [cause for cause in causes if self._done[cause.moment]]
        last = max(done, key=lambda cause: cause.time_s + cause.lag_s, default=None)
        lags = [time_s - cause.time_s for cause in done]
        return [
            cause._replace(lag_s=lag_s if cause is last else min(cause.lag_s, lag_s))
            for cause, lag_s in zip(done, lags, strict=True)
        ]

    def _starts_after(self, activity: int) -> list[Dependency]:
        """Return the launch of an activity, what its stream ran before, and what it waited for."""
        start_s, call = self._start_N[activity], int(self.profile.activities.launch_N[activity])
        before = int(self._before_N[activity])
        causes = [self._call(call, self._launch_s)] if call != NO_INDEX else []
        causes += [self._end(before, self._gap_s)] if before != NO_INDEX else []
        causes += [self._end(number, self._gap_s) for number in self._awaited.get(activity, ())]
        explained_s = max((cause.time_s + cause.lag_s for cause in causes), default=-np.inf)
        other = self._last_ended(start_s, self._on_device[self._device_N[activity]], activity)
        if other in {NO_INDEX, before} or self._end_N[other] <= explained_s:
            return causes
        # idle although launched: an event of a stream that had just ended; without a launch, any
        if call == NO_INDEX or start_s - self._end_N[other] <= self._launch_s:
            causes.append(self._end(other, self._gap_s))
        return causes

    def _call(self, call: int, usual_s: float) -> Dependency:
        return Dependency(self._N + call, is_end=False, time_s=self._start_L[call], lag_s=usual_s)

    def _end(self, activity: int, usual_s: float) -> Dependency:
        return Dependency(activity, is_end=True, time_s=self._end_N[activity], lag_s=usual_s)

    def _call_after(self, call: int) -> list[Dependency]:
        """Return the call of the process that ended last before a call."""
        ended = self._ended_L[int(self.profile.launches.process_L[call])]
        ended_count = bisect_right(ended, self._start_L[call], key=self._end_L.__getitem__)
        for position in range(ended_count - 1, -1, -1):
            before, returned = ended[position], self._N + self._L + ended[position]
            if before in self._returned and self._done[returned]:
                return [Dependency(returned, is_end=False, time_s=self._end_L[before], lag_s=0.0)]
            if self._done[self._N + before]:
                return [self._call(before, 0.0)]
        return []

    def _returns(self) -> dict[int, int]:
        """Return calls that wait, with the activity they wait for, NO_INDEX if unknown."""
        activities, calls = self.profile.activities, self.profile.launches
        returns = dict.fromkeys(np.flatnonzero(calls.wait_L != NO_WAIT).tolist(), NO_INDEX)
        # a copy is over when its call returns: the call waited for it
        copies = np.flatnonzero((activities.launch_N >= 0) & ~activities.are_kernels())
        call_of_copy = activities.launch_N[copies]
        over = activities.end_s()[copies] <= calls.end_s_L[call_of_copy]
        returns |= dict(zip(call_of_copy[over].tolist(), copies[over].tolist(), strict=True))
        recorded = {call: activity for call, activity in self.profile.host_waits if call in returns}
        return returns | recorded | self._blocked()

    def _blocked(self) -> dict[int, int]:
        """Return launches that waited for room in the queue, with the activity that made it."""
        activities, calls = self.profile.activities, self.profile.launches
        time_L = calls.end_s_L - calls.start_s_L
        launch_U, first_U = np.unique(activities.launch_N, return_index=True)
        first_U = first_U[launch_U >= 0]
        if not len(first_U):
            return {}
        begun_U = first_U[np.argsort(activities.start_s_N[first_U], kind="stable")]
        called_U = np.sort(calls.start_s_L[launch_U[launch_U >= 0]])
        started_L = np.searchsorted(activities.start_s_N[begun_U], calls.end_s_L, "right")
        queued_L = np.searchsorted(called_U, calls.end_s_L, "right") - started_L
        usual_s = float(np.median(time_L[calls.is_kernel_L])) if calls.is_kernel_L.any() else 0.0
        blocked = calls.is_kernel_L & (queued_L >= MIN_QUEUED) & (time_L > MIN_BLOCKED * usual_s)
        at_L = np.flatnonzero(blocked & (started_L > 0))
        return dict(zip(at_L.tolist(), begun_U[started_L[at_L] - 1].tolist(), strict=True))

    def _returns_after(self, call: int) -> list[Dependency]:
        """Return the start of a call and what it waited for."""
        calls, awaited, usual_s = self.profile.launches, self._returned[call], self._launch_s
        start_s, end_s = self._start_L[call], self._end_L[call]
        if awaited == NO_INDEX:
            of_process_N = self._of_process[int(calls.process_L[call])]
            every = calls.wait_L[call] == WAIT_FOR_ALL
            last = list(self._latest.values()) if every else [self._last_ended(end_s, of_process_N)]
            causes = [
                self._end(number, usual_s)
                for number in last
                if number != NO_INDEX and of_process_N[number]
            ]
        elif calls.wait_L[call] != NO_WAIT or self.profile.activities.launch_N[awaited] == call:
            # a copy is over with its end, and so is what a recorded wait waited for
            causes = [self._end(awaited, usual_s)]
        else:  # room in the queue comes with a start
            causes = [
                Dependency(awaited, is_end=False, time_s=self._start_N[awaited], lag_s=usual_s)
            ]
        waited_s = max((cause.time_s for cause in causes), default=-np.inf)
        # a call that did not wait takes its time
        call_s = min(max(0.0, end_s - waited_s), usual_s) if waited_s > start_s else np.inf
        return [*causes, self._call(call, call_s)]

    def _last_ended(self, until_s: float, among_N: BoolArray, excluded: int = NO_INDEX) -> int:
        """Return which of some activities, started so far, ended last by a time."""
        ended_count = bisect_right(self._ended_N, until_s, key=self._end_N.__getitem__)
        for position in range(ended_count - 1, -1, -1):
            other: int = self._ended_N[position]
            if among_N[other] and other != excluded and self._done[other]:
                return other
        return NO_INDEX
