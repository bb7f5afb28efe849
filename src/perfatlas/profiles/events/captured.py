"""Operators of kernels behind a graph launch, from the profile of the graph's capture.

Shape legend: L launches of the capture, K kernels of one replay.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfatlas.profiles.events.columns import NO_INDEX
from perfatlas.quantities import counted

if TYPE_CHECKING:
    from perfatlas.profiles.events.columns import IntArray, Profile


class _Capture(NamedTuple):
    """Kernels that a capture launched, in order, with their operators."""

    name_L: IntArray  # Number of the name, shared with the replays
    call_L: IntArray
    instance_L: IntArray  # Execution of the operator


def with_capture(profile: Profile, capture: Profile) -> Profile:
    """Return a profile whose kernels behind graph launches have the operators of their capture.

    A replay runs the kernels of its graph in the order of their capture: the names of its kernels
    are looked for as a run of names among the launches of the capture. Kernels of a graph that is
    not there, or there more than once with other operators, stay without.

    Args:
        capture: The profile in which the graphs were captured, with names of kernels at launches.
    """
    activities, launches = profile.activities, profile.launches
    numbers = {name: number for number, name in enumerate(profile.names)}
    captured = _captured(capture, numbers)
    offset, step = len(profile.calls), int(captured.instance_L.max(initial=0)) + 1
    call_N, instance_N = activities.call_N.copy(), activities.instance_N.copy()
    first = int(instance_N.max(initial=0)) + 1
    is_kernel_N, start_s_N = activities.are_kernels(), activities.start_s_N
    replays = [
        kernels[np.argsort(start_s_N[kernels], kind="stable")]
        for launch in np.flatnonzero(launches.is_graph_L).tolist()
        if len(kernels := np.flatnonzero((activities.launch_N == launch) & is_kernel_N))
    ]
    named = 0
    for replay, kernels in enumerate(replays):
        start = _run_start(activities.name_N[kernels], captured)
        if start == NO_INDEX:
            continue
        run = slice(start, start + len(kernels))
        call_K, instance_K = captured.call_L[run], captured.instance_L[run]
        named += int((call_K != NO_INDEX).sum())
        call_N[kernels] = np.where(call_K == NO_INDEX, NO_INDEX, call_K + offset)
        instance_N[kernels] = np.where(
            instance_K == NO_INDEX, NO_INDEX, instance_K + first + replay * step
        )
    kernels_in_graphs = sum(len(column) for column in replays)
    named_launches = len(captured.name_L)
    why = "" if named_launches else ": its launches have no names of kernels, as those of CUDA"
    note = (
        f"the capture names the operators of {named:,} of"
        f" {counted(kernels_in_graphs, 'kernel')} of graphs{why}"
    )
    return replace(
        profile,
        activities=replace(activities, call_N=call_N, instance_N=instance_N),
        calls=(*profile.calls, *capture.calls),
        integrity=(*profile.integrity, note),
    )


def _captured(capture: Profile, numbers: dict[str, int]) -> _Capture:
    """Return the named launches of a capture, with numbers of another profile's names."""
    launches = capture.launches
    order = np.argsort(launches.start_s_L, kind="stable")
    order = order[(launches.name_L != NO_INDEX)[order]]
    translated = np.array([numbers.get(name, NO_INDEX) for name in capture.names], np.int64)
    return _Capture(
        translated[launches.name_L[order]] if len(order) else np.zeros(0, np.int64),
        launches.call_L[order],
        launches.instance_L[order],
    )


def _run_start(name_K: IntArray, captured: _Capture) -> int:
    """Return where a run of names begins in a capture, NO_INDEX if nowhere or ambiguous."""
    starts = np.flatnonzero(captured.name_L == name_K[0])
    length = len(name_K)
    names_L = captured.name_L
    runs = [i for i in starts.tolist() if np.array_equal(names_L[i : i + length], name_K)]
    calls = {captured.call_L[start : start + length].tobytes() for start in runs}
    return runs[0] if len(calls) == 1 else NO_INDEX
