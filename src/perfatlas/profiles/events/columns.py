"""Columns of a profile.

Shape legend: N activities of devices (kernels and copies), L launches (calls of the host).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.quantities import printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]
    BoolArray = NDArray[np.bool_]

Pairs = tuple[tuple[int, int], ...]
KERNEL, COPY = 0, 1  # kinds of activities; memsets are copies
NO_INDEX: Final = -1  # index of what an activity does not have
_LAUNCH: Final = re.compile(r"(?:cuda|hip|cu|musa)\w*Launch(?!HostFunc)")
_WAIT: Final = re.compile(r"(?:cuda|hip|cu|musa)\w*?(Device|Ctx|Stream|Event)Synchronize")
NO_WAIT, WAIT_FOR_SOME, WAIT_FOR_ALL = 0, 1, 2  # what a call waits for: nothing, a stream, a device


class OperatorCall(NamedTuple):
    """What the host called: an operator of a framework, or a measured case of a benchmark."""

    name: str  # Its name, such as "aten::mm" or "all_reduce"
    # Shape of each input, () for a scalar; empty if not recorded
    shapes: tuple[tuple[int, ...], ...] = ()
    dtypes: tuple[str, ...] = ()  # Type of each input, as the profiler writes it
    case: str = ""  # The shape in words, where it is not that of inputs
    bytes: float = 0.0  # Size of the buffer of a collective, as nccl-tests counts it; 0 for others
    ranks: int = 0  # Ranks of a collective; 0 for others
    nodes: int = 0  # Nodes of a collective; 0 if unknown
    causal: bool | None = None  # Whether attention is causal; None if unknown


@dataclass(frozen=True, kw_only=True)
class Activities:
    """What devices did."""

    name_N: IntArray  # Index of the name in `Profile.names`
    kind_N: IntArray  # KERNEL or COPY
    device_N: IntArray  # Number of the device in its file
    stream_N: IntArray  # Number of the stream on its device, NO_INDEX if unknown
    start_s_N: FloatArray  # Start, relative to the earliest record of the file [s]
    time_s_N: FloatArray  # Duration [s]
    launch_N: IntArray  # Index of the launch, NO_INDEX for a kernel without a launch record
    call_N: IntArray  # Index of the operator call in `Profile.calls`, NO_INDEX if unknown
    instance_N: IntArray  # Number of that execution of the operator, NO_INDEX if unknown
    count_N: IntArray | None = None  # Executions that a row sums up; None where each row is one

    def counts(self) -> IntArray:
        """Return how many executions each activity stands for (N,)."""
        return np.ones_like(self.name_N) if self.count_N is None else self.count_N

    def end_s(self) -> FloatArray:
        """Return the ends (N,) [s]."""
        return self.start_s_N + self.time_s_N

    def are_kernels(self) -> BoolArray:
        """Return whether each activity is a kernel (N,)."""
        is_kernel_N: BoolArray = self.kind_N == KERNEL
        return is_kernel_N


@dataclass(frozen=True, kw_only=True)
class Launches:
    """Calls of the host that start kernels and copies, or wait for them."""

    start_s_L: FloatArray  # Start on the clock of the activities [s]
    end_s_L: FloatArray  # End [s]
    process_L: IntArray  # Number of the process that called
    wait_L: IntArray  # NO_WAIT, WAIT_FOR_SOME (a stream or an event) or WAIT_FOR_ALL (the device)
    # Whether the call starts a kernel or a graph; others start copies, or wait
    is_kernel_L: BoolArray
    is_graph_L: BoolArray  # Whether the call starts a graph of kernels
    # Index of the name of the kernel in `Profile.names`, NO_INDEX if the call does not tell
    name_L: IntArray
    call_L: IntArray  # Index of the operator call around it in `Profile.calls`, NO_INDEX if unknown
    instance_L: IntArray  # Number of that execution of the operator, NO_INDEX if unknown


@dataclass(frozen=True, kw_only=True)
class Profile:
    """One imported file."""

    path: str
    format: str
    device: str  # Name of the device as the profiler gives it, "" if it does not
    activities: Activities  # Kernels and copies (N)
    launches: Launches  # Launching calls (L)
    names: tuple[str, ...]  # Names of kernels and copies
    calls: tuple[OperatorCall, ...]  # Operator calls, or measured cases
    has_timeline: bool = True  # Whether times of start are known; a table of benchmarks has none
    rank: int = NO_INDEX  # Rank of the process, NO_INDEX if unknown
    world_size: int = 0  # Number of ranks of the job, 0 if unknown
    # Activities that waited for an event of another stream, each with the one it waited for, as far
    # as recorded
    waits: Pairs = ()
    # Calls of the host, each with the activity it waited for, as far as recorded
    host_waits: Pairs = ()
    integrity: tuple[str, ...] = ()  # What is missing from the file or could not be read, sentences


def launch_kind(name: str) -> str:
    """Return what a call of the host starts: "kernel", "graph", or "" for neither.

    Example:
        >>> from perfatlas.profiles.events import launch_kind
        >>> [launch_kind(name) for name in ("hipGraphLaunch", "cuLaunchKernelEx", "cudaMalloc")]
        ['graph', 'kernel', '']
    """
    if _LAUNCH.match(name) is None:
        return ""
    return "graph" if "GraphLaunch" in name else "kernel"


def wait_kind(name: str) -> int:
    """Return what a call of the host waits for.

    Example:
        >>> from perfatlas.profiles.events import wait_kind
        >>> [wait_kind(name) for name in ("cudaMalloc", "hipStreamSynchronize", "cuCtxSynchronize")]
        [0, 1, 2]
    """
    match = _WAIT.match(name)
    if match is None:
        return NO_WAIT
    return WAIT_FOR_ALL if match[1] in {"Device", "Ctx"} else WAIT_FOR_SOME


def no_launches() -> Launches:
    """Return launches of a profile that has none."""
    flags, numbers = np.zeros(0, np.bool_), np.zeros(0, np.int64)
    return Launches(
        start_s_L=np.zeros(0),
        end_s_L=np.zeros(0),
        process_L=numbers,
        wait_L=numbers,
        is_kernel_L=flags,
        is_graph_L=flags,
        name_L=numbers,
        call_L=numbers,
        instance_L=numbers,
    )


def profile_of_cases(
    path: str | Path,
    format_name: str,
    calls: Sequence[OperatorCall],
    time_s: Sequence[float],
    notes: Sequence[str],
    device: str = "",
) -> Profile:
    """Return a profile of measured cases (N) [s]: each has its name and call, and none a start."""
    index_N = np.arange(len(time_s), dtype=np.int64)
    return Profile(
        path=str(path),
        format=format_name,
        device=printable(device),
        activities=Activities(
            name_N=index_N,
            kind_N=np.full_like(index_N, KERNEL),
            device_N=np.zeros_like(index_N),
            stream_N=np.full_like(index_N, NO_INDEX),
            start_s_N=np.zeros(len(time_s)),
            time_s_N=np.asarray(time_s, dtype=np.float64),
            launch_N=np.full_like(index_N, NO_INDEX),
            call_N=index_N,
            instance_N=index_N,
        ),
        launches=no_launches(),
        names=tuple(call.name for call in calls),
        calls=tuple(calls),
        has_timeline=False,
        integrity=tuple(notes),
    )
