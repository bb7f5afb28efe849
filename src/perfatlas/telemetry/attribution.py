"""Ends of job runs explained by what happened on their nodes just before.

FAILED says nothing of why. A component that failed on one of the run's nodes shortly before its end
is a probable reason, and of several the strongest claim, then the nearest in time. This is what
tells the two published rates of one cluster apart: failures attributed to hardware, and all ends.

Source: attribution by what was found around a job's end, after Kokolis et al., Revisiting
Reliability in Large-Scale Machine Learning Research Clusters, 2024 (arXiv 2410.21680). The widths
of the window, minutes, are an assumption: `by_chance` tells whether they are too wide.

Shape legend: E events, R runs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.quantities import InvalidSpecError
from perfatlas.telemetry.history import FAILURE, KINDS, UNCLEAR
from perfatlas.telemetry.hostlist import expand_hosts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.telemetry.history import History
    from perfatlas.telemetry.job_runs import JobRuns

BEFORE_S: Final = 600.0
AFTER_S: Final = 300.0
NONE: Final = -1
_ENDED_WELL: Final = ("COMPLETED", "RUNNING", "PENDING", "PREEMPTED", "REVOKED", "SUSPENDED")


class Attribution(NamedTuple):
    """What stands behind the ends of runs.

    Args:
        event_R: Index of the event that explains the end of each run (R,), -1 where none does.
        asked: Runs that did not end well.
        explained: Of them, those that an event explains.
        by_chance: Runs that ended well and had such an event in the same window: how often one is
            there without ending the run.
        well: Runs that ended well.
    """

    event_R: NDArray[np.int64]
    asked: int
    explained: int
    by_chance: int
    well: int


def attribute_runs(
    runs: JobRuns,
    history: History,
    *,
    kinds: Sequence[str] = (FAILURE, UNCLEAR),
    before_s: float = BEFORE_S,
    after_s: float = AFTER_S,
) -> Attribution:
    """Return the events that explain why runs ended.

    Args:
        runs: Runs of jobs.
        history: Events of the nodes they ran on; the names of nodes must be those of accounting.
        kinds: Kinds of events that can end a run.
        before_s: So long before the end of the run an event may lie [s].
        after_s: So long after [s]: logs are written late.

    Raises:
        InvalidSpecError: A kind is none, or a window is negative.

    Limits: An attribution, not a proof; compare `explained` of `asked` with `by_chance` of `well`.
        Events without a node explain nothing.
    """
    wrong = [kind for kind in kinds if kind not in KINDS]
    if wrong or before_s < 0.0 or after_s < 0.0:
        raise InvalidSpecError(
            f"kinds {', '.join(wrong)} are none of {', '.join(KINDS)}"
            if wrong
            else f"window from {before_s:g} s before to {after_s:g} s after: at least 0 s each"
        )
    by_node = _by_node(history, kinds)
    event_R = np.full(runs.size, NONE, np.int64)
    state = runs.state.text()
    hosts = runs.hosts.text()
    asked = explained = by_chance = well = 0
    for run, end_s in enumerate(runs.end_s_R.tolist()):
        if not np.isfinite(end_s):
            continue
        window = (end_s - before_s, end_s + after_s)
        event = _strongest(history, by_node, expand_hosts(hosts[run]), window)
        if state[run] in _ENDED_WELL:
            well += 1
            by_chance += event != NONE
            continue
        asked += 1
        explained += event != NONE
        event_R[run] = event
    return Attribution(event_R, asked, explained, by_chance, well)


def _by_node(history: History, kinds: Sequence[str]) -> dict[str, tuple[list[float], list[int]]]:
    """Return times and indices of the events of each node, in the order of time."""
    by_node: dict[str, tuple[list[float], list[int]]] = {}
    node = history.node.text()
    for event in np.flatnonzero(history.kind.is_any(kinds)).tolist():
        if node[event]:
            times, events = by_node.setdefault(node[event], ([], []))
            times.append(float(history.start_s_E[event]))
            events.append(event)
    return by_node


def _strongest(
    history: History,
    by_node: dict[str, tuple[list[float], list[int]]],
    hosts: Sequence[str],
    window: tuple[float, float],
) -> int:
    """Return the event with the strongest claim, then the latest one; -1 for none."""
    found: list[tuple[int, float, int]] = []
    for host in hosts:
        times, events = by_node.get(host, ([], []))
        for place in range(bisect_left(times, window[0]), bisect_right(times, window[1])):
            event = events[place]
            kind = history.kind.names[history.kind.code_E[event]]
            found.append((KINDS.index(kind), -times[place], event))
    return min(found)[2] if found else NONE
