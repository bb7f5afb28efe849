"""One failure in several logs of a cluster: matched, counted once, and where the logs disagree.

An Xid names the device, accounting the job that it ended, a node state how long the node was away.
The most specific record remains the failure: a device, then a node state, then accounting, which
sees only nodes with jobs. It takes over the job and the recovery of the others, which become
effects.

Shape legend: E events.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.reliability.telemetry.history import (
    EFFECT,
    FAILURE,
    NODE_STATE,
    NOTICE,
    PLANNED,
    Labels,
    expand_hosts,
)
from perfatlas.reliability.telemetry.reading import check_time_span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from perfatlas.reliability.telemetry.history import History

    Bool = NDArray[np.bool_]

MATCH_S: Final = 600.0
NOT_READY: Final = "not_ready"  # of a pod: its node failed (data/telemetry/reasons.toml)
LATE_S: Final = 60.0  # by which the consequence may be recorded before its cause


@dataclass(kw_only=True)
class LogAgreement:
    """How far several logs of a cluster agree."""

    job_ends_explained: int = 0  # Ends of jobs with a device failure on one of their nodes
    job_ends_repeated: int = 0  # Ends of further jobs on a failed node
    node_failures_only_in_accounting: int = 0  # Node failures without a device failure on the node
    device_failures_without_job_end: int = 0  # Device failures on a node whose job went on
    device_failures_on_idle_nodes: int = 0  # Device failures on nodes that ran no job
    node_states_explained: int = 0  # Node states with a failure in another log
    node_states_alone: int = 0  # Failed node states that no other log explains

    def counts(self) -> dict[str, int]:
        """Return the counts above zero by name."""
        return {name: count for name, count in asdict(self).items() if count}


def match_logs(history: History, window_s: float = MATCH_S) -> tuple[History, LogAgreement | None]:
    """Return the history with each failure once, and the agreement of its logs, None for one log.

    Args:
        window_s: An end of a job or a node state within this time after a device failure on the
            node is its effect [s]. Assumption: ten minutes, above Slurm's default SlurmdTimeout
            (300 s) and PyTorch's default NCCL timeout (600 s).

    Raises:
        InvalidSpecError: The window is negative or not finite.

    Limits: Two failures of a node within the window are taken as one. A job that ends without a
        recorded host list is not matched.
    """
    check_time_span("match_s", window_s)
    ends_E = of_accounting(history)
    states_E = history.component.is_any([NODE_STATE])
    devices_E = ~ends_E & ~states_E & history.kind.is_any([FAILURE])
    if not (ends_E.any() or states_E.any()):
        return history, None
    matching = _Matching(history, window_s)
    if ends_E.any():
        matching.repeat_ends(np.flatnonzero(ends_E & history.component.is_any(["host"])))
    if ends_E.any() and devices_E.any():
        matching.explain_ends(np.flatnonzero(ends_E), np.flatnonzero(devices_E))
    if states_E.any():
        of_node_E = history.component.is_any(["host"]) | history.cause.is_any([NOT_READY])
        others_E = devices_E | (ends_E & of_node_E)
        matching.explain_states(np.flatnonzero(states_E), np.flatnonzero(others_E))
    several = sum(bool(rows_E.any()) for rows_E in (ends_E, states_E, devices_E)) > 1
    stated = several or bool(matching.agreement.counts())
    return matching.close(), matching.agreement if stated else None


def of_accounting(history: History) -> Bool:
    """Return which events were observed because a job ran (E,).

    Node states cover idle nodes too, also where Kubernetes objects contain runs of pods.
    """
    if history.occupancy is None:
        return np.zeros(history.size, bool)
    in_file_E = np.isin(history.file_E, np.unique(history.occupancy.file_R))
    return in_file_E & ~history.component.is_any([NODE_STATE])


class _Matching:
    """Changes of a history while its logs are matched."""

    def __init__(self, history: History, window_s: float) -> None:
        self.history = history
        self.window_s = window_s
        self.agreement = LogAgreement()
        self.effects: set[int] = set()
        self.job: dict[int, str] = {}
        self.recovered_s: dict[int, float] = {}
        self.time_s = history.start_s_E.tolist()
        self.node = history.node.text()
        self.hosts: dict[tuple[str, float], str] = {}  # host list of each run by job and end
        if history.occupancy is not None:
            runs = history.occupancy
            ends = zip(runs.job.text(), runs.end_s_R.tolist(), strict=True)
            self.hosts = dict(zip(ends, runs.hosts.text(), strict=True))
        self.names: dict[str, frozenset[str]] = {}

    def repeat_ends(self, ends: NDArray[np.int64]) -> None:
        """Count the failure of a node once that ends several of its jobs."""
        latest: dict[str, float] = {}
        for event in ends.tolist():
            node, time_s = self.node[event], self.time_s[event]
            if node and time_s - latest.get(node, -math.inf) < LATE_S:
                self.effects.add(event)
                self.agreement.job_ends_repeated += 1
            elif node:
                latest[node] = time_s

    def explain_ends(self, ends: NDArray[np.int64], devices: NDArray[np.int64]) -> None:
        """Match the ends of jobs with device failures on their nodes; count the other failures."""
        jobs = self.history.job.text()
        is_host_E = self.history.component.is_any(["host"])
        counts_E = ~self.history.kind.is_any([NOTICE, PLANNED])
        used: set[int] = set()
        for end in ends.tolist():
            if end in self.effects or not counts_E[end]:
                continue
            nodes = self._nodes_of(jobs[end], end)
            errors = [
                device for device in self._causes_of(devices, end) if self.node[device] in nodes
            ]
            if not errors:
                self.agreement.node_failures_only_in_accounting += int(is_host_E[end])
                continue
            used.update(errors)
            self.effects.add(end)
            self.agreement.job_ends_explained += 1
            for device in errors:
                self.job.setdefault(device, jobs[end])
        occupancy = self.history.occupancy
        alone = [device for device in devices.tolist() if device not in used]
        if occupancy is None or not alone:
            return
        busy = occupancy.operating_time((-math.inf, math.inf))
        index_of = {name: index for index, name in enumerate(busy.names)}
        for device in alone:
            node = index_of.get(self.node[device])
            if node is not None and busy.is_busy(node, self.time_s[device]):
                self.agreement.device_failures_without_job_end += 1
            else:
                self.agreement.device_failures_on_idle_nodes += 1

    def explain_states(self, states: NDArray[np.int64], others: NDArray[np.int64]) -> None:
        """Match node states with the failures that led to them."""
        failed_E = self.history.kind.is_any([FAILURE])
        device_E = ~of_accounting(self.history)
        planned_E = self.history.kind.is_any([NOTICE, PLANNED])
        jobs, at_E = self.history.job.text(), self.history.recovered_s_E
        for state in states.tolist():
            if planned_E[state]:
                continue
            node = self.node[state]
            ended = [
                other
                for other in self._causes_of(others, state)
                if other not in self.effects and node in self._nodes_of(jobs[other], other)
            ]
            if not ended:
                self.agreement.node_states_alone += int(failed_E[state])
                continue
            self.agreement.node_states_explained += 1
            if failed_E[state] and not any(device_E[other] for other in ended):
                # accounting sees only busy nodes: the state stays, with the job that it ended
                self.effects.update(ended)
                self.agreement.job_ends_explained += len(ended)
                self.job[state] = jobs[ended[0]]
                continue
            self.effects.add(state)
            for other in ended:
                if math.isnan(at_E[other]) and not math.isnan(at_E[state]):
                    self.recovered_s.setdefault(other, float(at_E[state]))

    def close(self) -> History:
        """Return the changed history."""
        history = self.history
        recovered_s_E = history.recovered_s_E.copy()
        for event, recovered_s in self.recovered_s.items():
            recovered_s_E[event] = max(recovered_s, self.time_s[event])
        job_E = history.job.code_E.copy()
        code_of = {name: code for code, name in enumerate(history.job.names)}
        for event, job in self.job.items():
            if not history.job.at(event):
                job_E[event] = code_of[job]
        return replace(
            history,
            kind=history.kind.replaced(sorted(self.effects), EFFECT),
            recovered_s_E=recovered_s_E,
            job=Labels(job_E, history.job.names),
        )

    def _causes_of(self, events: NDArray[np.int64], later: int) -> Iterator[int]:
        """Yield the events that may have led to a later one; events are in time order."""
        time_s = self.time_s[later]
        low = bisect_left(self.time_s, time_s - self.window_s)
        high = bisect_right(self.time_s, time_s + LATE_S)
        first, last = np.searchsorted(events, [low, high])
        yield from events[first:last].tolist()

    def _nodes_of(self, job: str, event: int) -> frozenset[str]:
        """Return the node of an event, or all nodes of its job where it names none."""
        if self.node[event]:
            return frozenset((self.node[event],))
        text = self.hosts.get((job, self.time_s[event]), "")
        if text not in self.names:
            self.names[text] = frozenset(expand_hosts(text))
        return self.names[text]


CASCADE_S: Final = 60.0


def without_cascades(history: History, window_s: float = CASCADE_S) -> tuple[History, int]:
    """Return the history with secondary failures marked as effects, and their number.

    Args:
        window_s: A failure of another cause within this time after the first one on its device is
            its effect [s]. Assumption: a minute, as drivers log consequences at once. 0 keeps every
            failure.

    Raises:
        InvalidSpecError: The window is negative or not finite.

    Limits: The first line is taken as the cause, which may be wrong within a second. Events without
        a node are unchanged; devices of the same node are separate.
    """
    check_time_span("cascade_s", window_s)
    first: dict[str, tuple[float, int]] = {}
    follows_E = np.zeros(history.size, bool)
    cause_E = history.cause.code_E
    has_node_E = ~history.node.is_any([""])
    for event in np.flatnonzero(history.kind.is_any([FAILURE]) & has_node_E).tolist():
        time_s, cause = float(history.start_s_E[event]), int(cause_E[event])
        unit = history.unit(event)
        begun_s, root = first.get(unit, (-np.inf, -1))
        if time_s - begun_s >= window_s:
            first[unit] = (time_s, cause)
        else:
            follows_E[event] = cause != root
    if not follows_E.any():
        return history, 0
    kind = history.kind.replaced(follows_E, EFFECT)
    return replace(history, kind=kind), int(np.count_nonzero(follows_E))
