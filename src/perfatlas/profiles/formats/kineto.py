"""Kineto traces of PyTorch (CUDA, ROCm): JSON events of one process, plain or gzip."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from perfatlas.profiles.events import (
    COPY,
    KERNEL,
    NO_INDEX,
    Activities,
    Launches,
    OperatorCall,
    Profile,
    launch_kind,
    wait_kind,
)
from perfatlas.profiles.formats.json_stream import JsonStream
from perfatlas.profiles.formats.nesting import innermost
from perfatlas.profiles.formats.waits import pairs_of, wait_of
from perfatlas.quantities import NANOSECOND_S, InvalidSpecError, counted, printable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from perfatlas.profiles.events.columns import IntArray, Pairs
    from perfatlas.profiles.formats.waits import Wait

_Value = TypeVar("_Value", str, OperatorCall, tuple[str, str])
FORMAT_NAME: Final = "kineto"
DEVICE_KINDS: Final = {"kernel": KERNEL, "gpu_memcpy": COPY, "gpu_memset": COPY}
HOST_CALLS: Final = ("cuda_runtime", "cuda_driver", "hip_runtime", "runtime")
SYNCHRONIZATION: Final = "cuda_sync"
OPERATORS: Final = ("cpu_op", "operator")
# Categories that are no activity of a device: read for names, or of no use here.
OTHER_CATEGORIES: Final = frozenset(
    (
        *("python_function", "user_annotation", "gpu_user_annotation", "Trace"),
        *("ac2g", "async_cpu_to_gpu", "fwdbwd", "async_gpu", "cpu_instant_event", "overhead"),
    )
)
_BEGINNING: Final = re.compile(r"\s*(?:\{|\[\s*\{)")
LAUNCH_KINDS: Final = ("", "kernel", "graph")
MAX_MICROSECONDS: Final = 1e18
UNREAD: Final = {
    "nodes": "a PyTorch execution trace; pass the Kineto trace of the same run",
}


def matches(head: str) -> bool:
    """Return whether a file begins as one of this format."""
    others = ('"nvbench"', '"rocprofiler-sdk-tool"')
    return _BEGINNING.match(head) is not None and not any(other in head for other in others)


def _number(numbers: dict[_Value, int], value: _Value) -> int:
    """Return the number of a value, the next one for a new value."""
    return numbers.setdefault(value, len(numbers))


class _Records:
    """What a trace has, as flat arrays."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.calls: dict[OperatorCall, int] = {}
        self.threads: dict[tuple[str, str], int] = {}
        self.processes: dict[str, int] = {}
        # rows in one array: a row is made whole before it is appended, so that none is half there
        self.activities, self.launches = array("q"), array("q")
        self.operators: list[array[int]] = []  # of each thread
        self.waits: list[Wait] = []
        self.other: Counter[str] = Counter()
        self.unreadable = 0

    def add(self, event: object) -> None:
        """Add one event; one that is not as Kineto writes them is counted."""
        if not isinstance(event, dict):
            self.unreadable += 1
            return
        category = event.get("cat")
        if type(category) is not str or category in OTHER_CATEGORIES or event.get("ph") != "X":
            return
        category = category.lower()
        try:
            start_ns, time_ns = _nanoseconds(event)
            if category in DEVICE_KINDS:
                self._add_activity(event, DEVICE_KINDS[category], start_ns, time_ns)
            elif category in OPERATORS:
                thread = _number(self.threads, (str(event.get("pid")), str(event.get("tid"))))
                while len(self.operators) <= thread:
                    self.operators.append(array("q"))
                row = (start_ns, start_ns + time_ns, _number(self.calls, _operator_call(event)))
                self.operators[thread].extend(array("q", row))
            elif category in HOST_CALLS:
                self._add_host_call(event, start_ns, time_ns)
            elif category == SYNCHRONIZATION:
                if (wait := wait_of(event)) is not None:
                    self.waits.append(wait)
            else:
                self.other[category[:40]] += 1
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            self.unreadable += 1

    def _add_activity(
        self, event: Mapping[str, Any], kind: int, start_ns: int, time_ns: int
    ) -> None:
        args = event["args"]
        name = _number(self.names, str(event["name"]))
        device, correlation = int(args.get("device", 0)), int(args.get("correlation", NO_INDEX))
        call = _number(self.calls, _collective(args)) if "Collective name" in args else NO_INDEX
        stream = int(args.get("stream", NO_INDEX))
        row = (name, kind, device, start_ns, time_ns, correlation, call, stream)
        self.activities.extend(array("q", row))

    def _add_host_call(self, event: Mapping[str, Any], start_ns: int, time_ns: int) -> None:
        correlation = int(event["args"]["correlation"])
        kind = LAUNCH_KINDS.index(launch_kind(str(event["name"])))
        thread = _number(self.threads, (str(event.get("pid")), str(event.get("tid"))))
        process = _number(self.processes, str(event.get("pid")))
        kernel = event["args"].get("kernel")  # ROCm records its name
        name = NO_INDEX if kernel is None else _number(self.names, str(kernel))
        wait = wait_kind(str(event["name"]))
        row = (correlation, thread, start_ns, kind, name, start_ns + time_ns, process, wait)
        self.launches.extend(array("q", row))


def read(path: str | Path) -> Profile:
    """Return the profile of a trace."""
    records = _Records()
    events = 0
    with JsonStream(path, "traceEvents") as stream:
        for event in stream.elements():
            records.add(event)
            events += 1
    if not stream.has_array or (events and events == records.unreadable):
        raise _no_events(str(path), stream)
    notes = []
    if stream.truncated:
        notes.append(
            f"the file ends, or is damaged, after {counted(events, 'event')}: later events are"
            " missing from all figures"
        )
    if records.unreadable:
        notes.append(f"{counted(records.unreadable, 'event')} without a valid time were left out")
    notes += [
        f"{counted(count, 'event')} of category {printable(name)} are no activity of a GPU that"
        " perfatlas knows: not counted"
        for name, count in records.other.most_common()
    ]
    if not records.activities:
        operators = sum(len(rows) // 3 for rows in records.operators)
        notes.append(
            f"no GPU activity in this trace ({counted(operators, 'operator')} on the host): record"
            " with ProfilerActivity.CUDA, and synchronize before the profiler stops"
        )
    rank, world_size = _ranks(stream.members.get("distributedInfo"))
    return _profile(str(path), records, stream.members, (rank, world_size), notes)


def _profile(
    path: str,
    records: _Records,
    members: Mapping[str, object],
    ranks: tuple[int, int],
    notes: list[str],
) -> Profile:
    columns_N, calls_L = _columns(records.activities, 8), _columns(records.launches, 8)
    name_N, kind_N, device_N, start_ns_N, time_ns_N, correlation_N, collective_N, stream_N = (
        columns_N
    )
    launch_N = _positions(correlation_N, calls_L[0])
    is_kept_L = (calls_L[3] > 0) | (calls_L[7] > 0)  # allocations neither launch nor wait
    is_kept_L[launch_N[launch_N >= 0]] = True
    waits, host_waits = _waits(records, calls_L, columns_N, launch_N)
    new_index = np.cumsum(is_kept_L) - 1
    launch_N = _taken(new_index, launch_N, NO_INDEX)
    _, thread_L, start_ns_L, kind_L, name_L, end_ns_L, process_L, wait_L = calls_L[:, is_kept_L]
    call_L, instance_L = _calls_of(records, thread_L, start_ns_L)
    call_L[kind_L == LAUNCH_KINDS.index("graph")] = NO_INDEX  # its kernels come of many operators
    call_N = np.where(collective_N >= 0, collective_N, _taken(call_L, launch_N, NO_INDEX))
    origin_ns = min((starts.min() for starts in (start_ns_N, start_ns_L) if len(starts)), default=0)
    return Profile(
        path=path,
        format=FORMAT_NAME,
        device=_device_name(members.get("deviceProperties"), device_N),
        activities=Activities(
            name_N=name_N,
            kind_N=kind_N,
            device_N=device_N,
            stream_N=stream_N,
            start_s_N=(start_ns_N - origin_ns) * NANOSECOND_S,
            time_s_N=time_ns_N * NANOSECOND_S,
            launch_N=launch_N,
            call_N=call_N,
            instance_N=_taken(instance_L, launch_N, NO_INDEX),
        ),
        launches=Launches(
            start_s_L=(start_ns_L - origin_ns) * NANOSECOND_S,
            end_s_L=(end_ns_L - origin_ns) * NANOSECOND_S,
            process_L=process_L,
            wait_L=wait_L,
            is_kernel_L=kind_L > 0,
            is_graph_L=kind_L == LAUNCH_KINDS.index("graph"),
            name_L=name_L,
            call_L=call_L,
            instance_L=instance_L,
        ),
        names=tuple(records.names),
        calls=tuple(records.calls),
        rank=ranks[0],
        world_size=ranks[1],
        waits=waits,
        host_waits=tuple(
            (int(new_index[call]), earlier) for call, earlier in host_waits if is_kept_L[call]
        ),
        integrity=tuple(notes),
    )


def _waits(
    records: _Records, calls_L: IntArray, columns_N: IntArray, launch_N: IntArray
) -> tuple[Pairs, Pairs]:
    """Return recorded waits of activities, and of calls of the host by their position."""
    if not records.waits:
        return (), ()
    correlations = calls_L[0].tolist()
    called = dict(zip(correlations, calls_L[2].tolist(), strict=True))
    called_N = _taken(calls_L[2], launch_N, NO_INDEX)
    waits, of_host = pairs_of(records.waits, called, columns_N[[2, 7]].T, called_N)
    position = {correlation: at for at, correlation in enumerate(correlations)}
    return waits, tuple((position[correlation], earlier) for correlation, earlier in of_host)


def _columns(rows: array[int], columns: int) -> IntArray:
    """Return rows of one array as columns (columns, rows)."""
    return np.array(rows, np.int64).reshape(-1, columns).T


def _taken(values_L: IntArray, index_N: IntArray, missing: int) -> IntArray:
    """Return values by index (N), another where the index is NO_INDEX."""
    padded = np.append(values_L, missing)
    return padded[np.where(index_N >= 0, index_N, len(values_L))]


def _positions(key_N: IntArray, key_L: IntArray) -> IntArray:
    """Return the position of each key in the others, NO_INDEX where it is not there."""
    if not len(key_L):
        return np.full(len(key_N), NO_INDEX, np.int64)
    order = np.argsort(key_L, kind="stable")
    sorted_L = key_L[order]
    candidate = np.minimum(np.searchsorted(sorted_L, key_N), len(key_L) - 1)
    return np.where((sorted_L[candidate] == key_N) & (key_N >= 0), order[candidate], NO_INDEX)


def _calls_of(
    records: _Records, thread_L: IntArray, start_ns_L: IntArray
) -> tuple[IntArray, IntArray]:
    """Return the innermost operator around each launch and the number of its execution (L)."""
    call_L, instance_L = (np.full(len(thread_L), NO_INDEX, np.int64) for _ in range(2))
    executions = 0
    for thread, rows in enumerate(records.operators):
        indices = np.flatnonzero(thread_L == thread)
        start_ns_K, end_ns_K, call_K = _columns(rows, 3)
        if len(indices) and len(call_K):
            operator = innermost(start_ns_K, end_ns_K, start_ns_L[indices])
            call_L[indices] = _taken(call_K, operator, NO_INDEX)
            instance_L[indices] = np.where(operator >= 0, operator + executions, NO_INDEX)
        executions += len(call_K)
    return call_L, instance_L


def _nanoseconds(event: Mapping[str, Any]) -> tuple[int, int]:
    """Return start and duration of an event [ns]."""
    start_us, time_us = event["ts"], event["dur"]
    if not (abs(start_us) < MAX_MICROSECONDS and 0 <= time_us < MAX_MICROSECONDS):
        raise ValueError
    return round(start_us * 1000), round(time_us * 1000)


def _operator_call(event: Mapping[str, Any]) -> OperatorCall:
    """Return an operator with the shapes of its inputs, if they were recorded."""
    args, name = event.get("args") or {}, str(event["name"])
    if "Collective name" in args:
        return _collective(args)
    dims = args.get("Input Dims") or args.get("Input dims") or ()
    if not dims:
        return OperatorCall(name)
    return OperatorCall(
        name,
        tuple(_shape(dim) for dim in dims),
        tuple(str(dtype) for dtype in args.get("Input type") or ()),
        causal=_is_causal(args) if "dot_product" in name or "flash_attention" in name else None,
    )


def _is_causal(args: Mapping[str, Any]) -> bool | None:
    """Return the first flag among the inputs of attention, which says whether it is causal."""
    flags = [value for value in args.get("Concrete Inputs") or () if value in ("True", "False")]
    return flags[0] == "True" if flags else None


def _shape(dims: object) -> tuple[int, ...]:
    """Return the shape of a tensor, () for scalars and lists of tensors."""
    if not isinstance(dims, list) or not all(type(size) is int and size >= 0 for size in dims):
        return ()
    return tuple(dims)


_ELEMENT_BYTES: Final = {
    **dict.fromkeys(("Byte", "Char", "Bool", "Float8_e4m3fn", "Float8_e5m2"), 1),
    **dict.fromkeys(("Half", "BFloat16"), 2),
    **dict.fromkeys(("Float", "Int"), 4),
    **dict.fromkeys(("Long", "Double"), 8),
}
# First letters of the names of ProcessGroupNCCL, which differ by version.
_COLLECTIVES: Final = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "_allgather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "_reduce_scatter": "reduce_scatter",
    "all_to_all": "all_to_all",
    "alltoall": "all_to_all",
    "send": "send_recv",
    "recv": "send_recv",
}


def _collective(args: Mapping[str, Any]) -> OperatorCall:
    """Return a collective with its buffer, the larger of both messages."""
    recorded = str(args["Collective name"])
    name = next(
        (name for start, name in _COLLECTIVES.items() if recorded.startswith(start)), recorded
    )
    elements = max(int(args.get("In msg nelems") or 0), int(args.get("Out msg nelems") or 0))
    dtype, ranks = str(args.get("dtype")), int(args.get("Group size") or 0)
    size = float(elements * _ELEMENT_BYTES.get(dtype, 0))
    case = f"{elements} x {dtype}, {ranks} ranks"
    return OperatorCall(name, (), (dtype,), case=case, bytes=size, ranks=ranks)


def _ranks(info: object) -> tuple[int, int]:
    """Return rank and number of ranks, NO_INDEX and 0 if unknown."""
    if not isinstance(info, dict):
        return NO_INDEX, 0
    numbers = [info.get("rank"), info.get("world_size")]
    rank, size = (
        number if type(number) is int and 0 <= number < 2**31 else None for number in numbers
    )
    return NO_INDEX if rank is None else rank, size or 0


def _device_name(properties: object, device_N: IntArray) -> str:
    """Return the name of the devices of a trace, "" if it does not have one.

    Numbers of ROCm devices may be those of the machine, so that the table is not indexed by them.
    """
    if not isinstance(properties, list):
        return ""
    named = {
        str(row.get("id")): str(row.get("name") or "")
        for row in properties
        if isinstance(row, dict)
    }
    used = [named[device] for device in map(str, np.unique(device_N)) if device in named]
    return printable((used or list(named.values()) or [""])[0])


def _no_events(path: str, stream: JsonStream) -> InvalidSpecError:
    """Return why a JSON file is no trace."""
    what = next((text for key, text in UNREAD.items() if key in stream.members), None)
    if what is None:
        keys = ", ".join(printable(key)[:40] for key in list(stream.members)[:6]) or "none"
        what = f"JSON without events of a trace (members: {keys})"
        if stream.has_array:
            what = "a trace without an event that has a valid time; record it again"
        if stream.truncated:
            what = "cut off before its traceEvents; copy it again"
    return InvalidSpecError(f"profile {printable(path)!r} is {what}")
