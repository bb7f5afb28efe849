"""Kernels that rocprof, rocprofv3 and rocprof-compute recorded: CSV tables and JSON."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.profiles.events import KERNEL, NO_INDEX, Activities, Profile, no_launches
from perfatlas.profiles.formats.lines import DAMAGED, json_values, table_rows, text_lines
from perfatlas.quantities import NANOSECOND_S, InvalidSpecError, counted, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

FORMAT_NAME: Final = "rocprof"
COLUMNS: Final = ("Kernel_Name", "Start_Timestamp", "End_Timestamp")
# Columns of rocprof (v1), which has times with --timestamp on.
_V1_COLUMNS: Final = ("KernelName", "BeginNs", "EndNs", "gpu-id", "queue-id")
_V1: Final = dict(zip(_V1_COLUMNS, (*COLUMNS, "Agent_Id", "Queue_Id"), strict=True))
MAX_NANOSECONDS: Final = 1 << 62
_TOOL: Final = '"rocprofiler-sdk-tool"'
_NUMBER: Final = re.compile(r"\d+$")


class Dispatch(NamedTuple):
    """One kernel [ns]."""

    name: str
    device: int
    queue: int
    start_ns: int
    end_ns: int


def matches(head: str) -> bool:
    """Return whether a file begins as one of this format."""
    first = next(iter(head.splitlines()), "")
    return _TOOL in head or any(
        all(column in first for column in columns)
        for columns in (COLUMNS, ("KernelName", "gpu-id"))
    )


def read(path: str | Path) -> Profile:
    """Return the kernels of a trace."""
    shown, device, option = printable(str(path)), "", "rocprofv3 --kernel-trace"
    try:
        first = next(text_lines(path)).lstrip()
        if "KernelName" in first:
            option, rows = "rocprof --timestamp on", table_rows(path, _V1_COLUMNS[:3])
            dispatches = [_of_row({_V1.get(name, name): row[name] for name in row}) for row in rows]
        elif not first.startswith("{"):
            dispatches = [_of_row(row) for row in table_rows(path, COLUMNS)]
        else:
            tools = [
                tool for json_value in json_values(path) for tool in json_value[_TOOL.strip('"')]
            ]
            dispatches = [dispatch for tool in tools for dispatch in _of_tool(tool)]
            device = _device_of(tools)
    except DAMAGED as error:
        raise InvalidSpecError(
            f"profile {shown!r} is no complete trace of rocprofv3 ({type(error).__name__}"
            f" {printable(str(error))[:80]}); write it again with --kernel-trace"
        ) from error
    kernels = [dispatch for dispatch in dispatches if dispatch is not None]
    if not kernels:
        raise InvalidSpecError(
            f"profile {shown!r} has no kernel with a valid time; write it again with {option}"
        )
    unreadable = len(dispatches) - len(kernels)
    notes = [f"{counted(unreadable, 'kernel')} without a valid time left out"] if unreadable else []
    names = {name: i for i, name in enumerate(dict.fromkeys(kernel.name for kernel in kernels))}
    start_ns_N = np.array([kernel.start_ns for kernel in kernels], np.int64)
    none_N = np.full(len(kernels), NO_INDEX, np.int64)
    return Profile(
        path=str(path),
        format=FORMAT_NAME,
        device=device,
        activities=Activities(
            name_N=np.array([names[kernel.name] for kernel in kernels], np.int64),
            kind_N=np.full(len(kernels), KERNEL, np.int64),
            device_N=np.array([kernel.device for kernel in kernels], np.int64),
            stream_N=np.array([kernel.queue for kernel in kernels], np.int64),
            start_s_N=(start_ns_N - start_ns_N.min()) * NANOSECOND_S,
            time_s_N=np.array([kernel.end_ns - kernel.start_ns for kernel in kernels])
            * NANOSECOND_S,
            launch_N=none_N,
            call_N=none_N,
            instance_N=none_N,
        ),
        launches=no_launches(),
        names=tuple(names),
        calls=(),
        integrity=tuple(notes),
    )


def _of_row(row: Mapping[str, str]) -> Dispatch | None:
    """Return the kernel in a row of a table; "Agent 4", "4" and GPU_ID number a device."""
    agent, queue = (
        int(match[0]) if (match := _NUMBER.search(text)) else NO_INDEX
        for text in (row.get("Agent_Id") or row.get("GPU_ID") or "0", row.get("Queue_Id") or "")
    )
    try:
        times = int(row["Start_Timestamp"]), int(row["End_Timestamp"])
    except ValueError:
        return None
    return _valid(Dispatch(row["Kernel_Name"], agent, queue, *times))


def _of_tool(tool: Mapping[str, Any]) -> Iterator[Dispatch | None]:
    """Yield the kernels of one process."""
    names = {row["kernel_id"]: row["formatted_kernel_name"] for row in tool["kernel_symbols"]}
    number = {agent["id"]["handle"]: int(agent["node_id"]) for agent in tool["agents"]}
    for record in tool["buffer_records"]["kernel_dispatch"]:
        info = record["dispatch_info"]
        yield _valid(
            Dispatch(
                str(names[info["kernel_id"]]),
                number[info["agent_id"]["handle"]],
                int(info["queue_id"]["handle"]),
                int(record["start_timestamp"]),
                int(record["end_timestamp"]),
            )
        )


def _device_of(tools: list[Any]) -> str:
    """Return the name of the devices, "" if they have several."""
    ran = {
        (index, record["dispatch_info"]["agent_id"]["handle"])
        for index, tool in enumerate(tools)
        for record in tool["buffer_records"]["kernel_dispatch"]
    }
    names = {
        str(agent["product_name"])
        for index, tool in enumerate(tools)
        for agent in tool["agents"]
        if (index, agent["id"]["handle"]) in ran
    }
    return printable(next(iter(names))) if len(names) == 1 else ""


def _valid(dispatch: Dispatch) -> Dispatch | None:
    valid = dispatch.name and 0 <= dispatch.start_ns <= dispatch.end_ns < MAX_NANOSECONDS
    return dispatch if valid and abs(dispatch.queue) < MAX_NANOSECONDS else None
