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

from perfatlas.profiles.events import NO_WAIT, NONE, WAIT_FOR_ALL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from perfatlas.profiles.events import Profile

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]

QUEUED: Final = 500  # launches ahead of the device; CUDA holds about 1,000 and then blocks
BLOCKED: Final = 10.0  # median times of a launch, from which a call waited for room in the queue
RETURN, CALL, START = range(3)  # moments at one time, in the order in which they cause others


class Cause(NamedTuple):
    """What a moment comes after.

    Args:
        moment: Number of the earlier moment.
        is_end: Whether it counts from the end of that activity, not from its start.
        lag_s: Time in between [s].
    """

    moment: int
    is_end: bool
    lag_s: float


class CriticalPath(NamedTuple):
    """What the last activity of a profile waited for, back to the first one.

    Args:
        time_s_N: Time of each activity on the path, 0 off it (N,) [s].
        host_s: Time in and between calls of the host [s].
        launch_s: Time between a launch, or the end of an activity, and the start of another [s].
    """

    time_s_N: FloatArray
    host_s: float
    launch_s: float


class _Known(NamedTuple):
    """A possible cause in the profile, and the time that usually follows it [s]."""

    moment: int
    is_end: bool
    time_s: float
    usual_s: float


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """A profile with other durations.

    Args:
        profile: The profile with new times.
        time_T: Time of each moment [s].
        causes_T: What each moment waited for last; None for those that keep their time.
    """

    profile: Profile
    time_T: Sequence[float]
    causes_T: Sequence[Cause | None]

    def critical_path(self) -> CriticalPath:
        """Return the critical path."""
        of = self.profile.activities
        on_path_N, other_s = np.zeros(len(of.time_s_N)), {True: 0.0, False: 0.0}
        first_s = float(of.start_s_N.min(initial=np.inf))
        moment = int(np.argmax(of.start_s_N + of.time_s_N))
        until_s = float(of.start_s_N[moment] + of.time_s_N[moment])
        while until_s > first_s:
            if moment < len(on_path_N):
                on_path_N[moment] += max(0.0, until_s - self.time_T[moment])
                until_s = min(until_s, self.time_T[moment])
            cause = self.causes_T[moment]
            if cause is None:
                break
            before_s = max(first_s, self.time_T[moment] - cause.lag_s)
            other_s[moment >= len(on_path_N)] += max(0.0, until_s - before_s)
            moment, until_s = cause.moment, min(until_s, before_s)
        return CriticalPath(on_path_N, other_s[True], other_s[False])


class Replay:
    """The causes of all moments of a profile.

    Moments are the starts of activities (N), the starts of calls (L) and the returns of calls (L).

    Args:
        profile: Profile with a timeline.
    """

    def __init__(self, profile: Profile) -> None:
        """Find what each moment waited for."""
        self.profile = profile
        of, calls = profile.activities, profile.launches
        self._N, self._L = len(of.time_s_N), len(calls.start_s_L)
        self._start_N, self._end_N = of.start_s_N.tolist(), (of.start_s_N + of.time_s_N).tolist()
        self._start_L, self._end_L = calls.start_s_L.tolist(), calls.end_s_L.tolist()
        called_N = np.append(calls.start_s_L, -np.inf)[of.launch_N]
        self._key_N = np.maximum(of.start_s_N, called_N)
        self._stream_N = _numbered(of.device_N, of.stream_N)
        self._before_N = _previous(self._stream_N, self._key_N)
        self._launch_s, self._gap_s = self._usual_lags(called_N)
        self._ended_N = np.argsort(of.start_s_N + of.time_s_N, kind="stable")
        self._ends = (of.start_s_N + of.time_s_N)[self._ended_N].tolist()
        self._process_N = np.append(calls.process_L, NONE)[of.launch_N]
        self._done = bytearray(self._N + 2 * self._L)
        self._latest: dict[int, int] = {}  # activity by stream
        self._causes: list[tuple[int, list[Cause]]] = list(self._found())

    def run(self, time_s_N: FloatArray) -> Replayed:
        """Return the profile with other durations.

        Args:
            time_s_N: Duration of each activity (N) [s].
        """
        time_T = [*self._start_N, *self._start_L, *self._end_L]
        last_T: list[Cause | None] = [None] * len(time_T)
        durations = time_s_N.tolist()
        for moment, causes in self._causes:
            latest_s = -np.inf
            for cause in causes:
                before, is_end, lag_s = cause
                at_s = time_T[before] + lag_s + (durations[before] if is_end else 0.0)
                if at_s > latest_s:
                    latest_s, last_T[moment] = at_s, cause
            if causes:
                time_T[moment] = latest_s
        of, calls = self.profile.activities, self.profile.launches
        new = replace(
            self.profile,
            activities=replace(of, start_s_N=np.array(time_T[: self._N]), time_s_N=time_s_N),
            launches=replace(calls, start_s_L=np.array(time_T[self._N : self._N + self._L])),
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

    def _found(self) -> Iterator[tuple[int, list[Cause]]]:
        """Yield moments in order, each with its causes; those before it have been yielded."""
        returns = self._returns()
        moments_T = np.concatenate(
            [np.arange(self._N + self._L), self._N + self._L + np.array(sorted(returns), np.int64)]
        )
        end_L = self.profile.launches.end_s_L
        key_T = np.concatenate([self._key_N, self._start_L, end_L[sorted(returns)]])
        kind_T = np.repeat([START, CALL, RETURN], [self._N, self._L, len(returns)])
        processes = self.profile.launches.process_L
        ended = {one: _Ended([], []) for one in np.unique(processes).tolist()}
        for call in np.argsort(end_L, kind="stable").tolist():
            ended[int(processes[call])].add(call, self._end_L[call])
        for at in np.lexsort((kind_T, key_T)).tolist():
            moment = int(moments_T[at])
            if kind_T[at] == START:
                yield moment, self._lags(self._start_N[moment], self._starts_after(moment))
                self._latest[int(self._stream_N[moment])] = moment
            elif kind_T[at] == CALL:
                call = moment - self._N
                yield moment, self._call_after(call, ended[int(processes[call])], returns)
            else:
                call = moment - self._N - self._L
                known = self._returns_after(call, returns[call])
                yield moment, self._lags(self._end_L[call], known)
            self._done[moment] = 1

    def _lags(self, time_s: float, known: Sequence[_Known]) -> list[Cause]:
        """Return causes with their lags: that of the last one is as recorded, others are usual."""
        known = [one for one in known if self._done[one.moment]]
        if not known:
            return []
        last = max(known, key=lambda one: one.time_s + one.usual_s)
        return [
            Cause(one.moment, one.is_end, lag_s if one is last else min(one.usual_s, lag_s))
            for one in known
            for lag_s in (time_s - one.time_s,)
        ]

    def _starts_after(self, activity: int) -> list[_Known]:
        """Return the launch of an activity, what its stream ran before, and what it waited for."""
        start_s = self._start_N[activity]
        before, call = int(self._before_N[activity]), self.profile.activities.launch_N[activity]
        known = []
        if call != NONE:
            known.append(self._call(int(call), self._launch_s))
        if before != NONE:
            known.append(self._end(before, self._gap_s))
        explained_s = max((one.time_s + one.usual_s for one in known), default=-np.inf)
        other = self._last_ended(start_s, activity, NONE)
        if other in {NONE, before} or self._end_N[other] <= explained_s:
            return known
        # idle although launched: an event of a stream that had just ended; without a launch, any
        if call == NONE or start_s - self._end_N[other] <= self._launch_s:
            known.append(self._end(other, self._gap_s))
        return known

    def _call(self, call: int, usual_s: float) -> _Known:
        return _Known(self._N + call, is_end=False, time_s=self._start_L[call], usual_s=usual_s)

    def _end(self, activity: int, usual_s: float) -> _Known:
        return _Known(activity, is_end=True, time_s=self._end_N[activity], usual_s=usual_s)

    def _last_ended(self, until_s: float, activity: int, process: int) -> int:
        """Return the started activity of a device, or of a process, that ended last by a time."""
        of = self.profile.activities
        for at in range(bisect_right(self._ends, until_s) - 1, -1, -1):
            other = int(self._ended_N[at])
            same = (
                of.device_N[other] == of.device_N[activity]
                if process == NONE
                else self._process_N[other] in (process, NONE)
            )
            if same and other != activity and self._done[other]:
                return other
        return NONE

    def _call_after(self, call: int, ended: _Ended, returns: dict[int, int]) -> list[Cause]:
        """Return the call of the process that ended last before a call."""
        start_s = self._start_L[call]
        before = next((one for one in ended.until(start_s) if self._done[self._N + one]), NONE)
        if before == NONE:
            return []
        if before in returns and self._done[self._N + self._L + before]:
            lag_s = start_s - self._end_L[before]
            return [Cause(self._N + self._L + before, is_end=False, lag_s=lag_s)]
        lag_s = start_s - self._start_L[before]
        return [Cause(self._N + before, is_end=False, lag_s=lag_s)]

    def _returns(self) -> dict[int, int]:
        """Return calls that wait, with the activity they wait for; NONE where the wait tells it."""
        of, calls = self.profile.activities, self.profile.launches
        returns = dict.fromkeys(np.flatnonzero(calls.wait_L != NO_WAIT).tolist(), NONE)
        # a copy is over when its call returns: the call waited for it
        copies = np.flatnonzero((of.launch_N >= 0) & ~of.are_kernels())
        over = (of.start_s_N + of.time_s_N)[copies] <= calls.end_s_L[of.launch_N[copies]]
        returns |= dict(zip(of.launch_N[copies[over]].tolist(), copies[over].tolist(), strict=True))
        return returns | self._blocked()

    def _blocked(self) -> dict[int, int]:
        """Return launches that waited for room in the queue, with the activity that made it."""
        of, calls = self.profile.activities, self.profile.launches
        time_L = calls.end_s_L - calls.start_s_L
        launch_U, first_U = np.unique(of.launch_N, return_index=True)
        first_U = first_U[launch_U >= 0]
        if not len(first_U):
            return {}
        begun_U = first_U[np.argsort(of.start_s_N[first_U], kind="stable")]
        called_U = np.sort(calls.start_s_L[launch_U[launch_U >= 0]])
        started_L = np.searchsorted(of.start_s_N[begun_U], calls.end_s_L, "right")
        queued_L = np.searchsorted(called_U, calls.end_s_L, "right") - started_L
        usual_s = float(np.median(time_L[calls.is_kernel_L])) if calls.is_kernel_L.any() else 0.0
        blocked = calls.is_kernel_L & (queued_L >= QUEUED) & (time_L > BLOCKED * usual_s)
        at_L = np.flatnonzero(blocked & (started_L > 0))
        return dict(zip(at_L.tolist(), begun_U[started_L[at_L] - 1].tolist(), strict=True))

    def _returns_after(self, call: int, awaited: int) -> list[_Known]:
        """Return the start of a call and what it waited for."""
        calls, end_s = self.profile.launches, self._end_L[call]
        process = int(calls.process_L[call])
        if awaited != NONE:
            # room in the queue comes with the start of an activity, a copy is over with its end
            is_over = self.profile.activities.launch_N[awaited] == call
            begun = self._end(awaited, self._launch_s)._replace(
                is_end=False, time_s=self._start_N[awaited]
            )
            known = [self._end(awaited, self._launch_s) if is_over else begun]
        else:
            last = (
                self._latest.values()
                if calls.wait_L[call] == WAIT_FOR_ALL
                else [self._last_ended(end_s, NONE, process)]
            )
            known = [
                self._end(one, self._launch_s)
                for one in last
                if one != NONE and self._process_N[one] in (process, NONE)
            ]
        waited_s = max((one.time_s for one in known), default=-np.inf)
        start_s = self._start_L[call]
        usual_s = np.inf  # without a wait, a call takes its time
        if waited_s > start_s:
            usual_s = min(max(0.0, end_s - waited_s), self._launch_s)
        return [*known, self._call(call, usual_s)]


class _Ended(NamedTuple):
    """Calls of one process in the order of their ends."""

    calls: list[int]
    ends: list[float]

    def add(self, call: int, end_s: float) -> None:
        """Append a call that ended after the others."""
        self.calls.append(call)
        self.ends.append(end_s)

    def until(self, time_s: float) -> Iterator[int]:
        """Yield the calls that ended by a time, the last one first."""
        for at in range(bisect_right(self.ends, time_s) - 1, -1, -1):
            yield self.calls[at]


def _numbered(device_N: IntArray, stream_N: IntArray) -> IntArray:
    """Return a number for each pair of device and stream (N)."""
    pairs = np.stack([device_N, stream_N], axis=1)
    return np.unique(pairs, axis=0, return_inverse=True)[1].ravel()


def _previous(stream_N: IntArray, key_N: FloatArray) -> IntArray:
    """Return the activity before each one in its stream, NONE for the first (N)."""
    order = np.lexsort((key_N, stream_N))
    before_N = np.full(len(order), NONE, np.int64)
    same = stream_N[order[1:]] == stream_N[order[:-1]]
    before_N[order[1:][same]] = order[:-1][same]
    return before_N
