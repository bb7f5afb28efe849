"""Simulated requests as a timeline in the Trace Event format, which ui.perfetto.dev opens."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Columns = Mapping[str, Sequence[Any]]

MICROSECONDS: Final = 1e6
DEPLOYMENT: Final = 0  # process of the counters
# Column of the series -> name and unit of its counter.
COUNTERS: Final = {
    "running": ("running requests", 1.0),
    "waiting": ("waiting requests", 1.0),
    "kv_used_share": ("KV cache in use (%)", 100.0),
    "replicas": ("replicas in service", 1.0),
    "deployment_power_w": ("power of all GPUs (W)", 1.0),
}
MAX_REQUESTS: Final = 50_000  # limit of what a viewer can show


def requests_trace_text(
    columns: Columns,
    series: Columns | None = None,
    *,
    start_s: float = 0.0,
    duration_s: float | None = None,
) -> str:
    """Return the requests of a window as JSON of the Trace Event format.

    A replica is a process. A request occupies the lowest free line while it is active, with its
    time in tokenization, queue, prefill and output; with two pools also, under its prefill worker,
    its KV cache transfer. Times are those of the engine; the latency between engine and client is
    at the end. The state of the deployment is counters of a process of its own.

    Args:
        columns: Requests as columns: request, state, arrival_s, replica, read_s,
            queue_s, prefilled_s, generated_s, request_latency_s, isl, osl, preemptions,
            cached_tokens; with two pools also kv_transfer_s; optionally seed, which the trace
            then names.
        series: State over time: time_s and any of running, waiting, kv_used_share, replicas,
            deployment_power_w.
        start_s: Start of the window [s].
        duration_s: Length of the window [s]; unlimited by default.

    Limits: Only completed requests; the first 50,000 in the window.

    Example:
        >>> from perfatlas.report.traces import requests_trace_text
        >>> columns = {"request": [0], "state": ["completed"], "arrival_s": [1.0], "replica": [0],
        ...     "read_s": [0.25], "queue_s": [0.5], "prefilled_s": [1.0], "generated_s": [1.5],
        ...     "request_latency_s": [2.0], "isl": [8], "osl": [4], "preemptions": [0],
        ...     "cached_tokens": [0]}
        >>> import json
        >>> spans = json.loads(requests_trace_text(columns))["traceEvents"]
        >>> [(e["name"], e["ts"], e["dur"]) for e in spans if e["ph"] == "X"][:2]
        [('tokenize', 1000000.0, 250000.0), ('queue', 1250000.0, 500000.0)]
    """
    end_s = float("inf") if duration_s is None else start_s + duration_s
    rows = [
        row
        for row in _rows(columns)
        if row["arrival_s"] < end_s and row["arrival_s"] + row["request_latency_s"] > start_s
    ][:MAX_REQUESTS]
    events: list[dict[str, Any]] = []
    free: dict[int, list[float]] = {}
    for row in sorted(rows, key=lambda row: (row["arrival_s"], row["request"])):
        ends = free.setdefault(row["replica"], [])
        line = _line(ends, row["arrival_s"], row["arrival_s"] + row["request_latency_s"])
        events += _spans(row, line)
    for replica, ends in sorted(free.items()):
        events.append(_name("process_name", replica + 1, 0, f"replica {replica}"))
        events += [
            _name("thread_name", replica + 1, line + 1, f"request line {line + 1}")
            for line in range(len(ends))
        ]
    events += _counters(series or {}, start_s, end_s)
    trace: dict[str, Any] = {"traceEvents": events, "displayTimeUnit": "ms"}
    if columns.get("seed"):
        trace["otherData"] = {"seed": columns["seed"][0]}
    return json.dumps(trace)


def _name(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}


def _counters(series: Columns, start_s: float, end_s: float) -> list[dict[str, Any]]:
    """Return the state of the deployment as counters, a value at each change."""
    events = [_name("process_name", DEPLOYMENT, 0, "deployment")]
    for column, (name, scale) in COUNTERS.items():
        before = None
        for at_s, value in zip(series.get("time_s", ()), series.get(column, ()), strict=False):
            if value != before and start_s <= at_s < end_s:
                args = {name: round(value * scale, 3)}
                counter = {"ph": "C", "name": name, "pid": DEPLOYMENT, "args": args}
                events.append({**counter, "ts": round(at_s * MICROSECONDS, 3)})
                before = value
    return events if len(events) > 1 else []


def _rows(columns: Columns) -> Iterator[dict[str, Any]]:
    for values in zip(*columns.values(), strict=True):
        row = dict(zip(columns, values, strict=True))
        if row["state"] == "completed":
            yield row


def _line(ends: list[float], arrival_s: float, end_s: float) -> int:
    """Return the lowest line that is free at an arrival, and occupy it until an end."""
    for line, until_s in enumerate(ends):
        if until_s <= arrival_s:
            ends[line] = end_s
            return line
    ends.append(end_s)
    return len(ends) - 1


def _spans(row: Mapping[str, Any], line: int) -> list[dict[str, Any]]:
    names = ["tokenize", "queue", "prompt", "output", "stream and HTTP"]
    borders = [row["prefilled_s"]]
    if row.get("kv_transfer_s") is not None:
        names.insert(3, "transfer")
        borders.append(row["prefilled_s"] + row["kv_transfer_s"])
    starts = row["read_s"] + row["queue_s"]
    ends = [row["generated_s"], row["request_latency_s"]]
    borders = [0.0, row["read_s"], starts, *borders, *ends]
    # One rounding of each border: spans that follow each other never overlap.
    ns = [round((row["arrival_s"] + border) * 1e9) for border in borders]
    details = {
        name: row[name] for name in ("request", "isl", "osl", "preemptions", "cached_tokens")
    }
    return [
        {
            "ph": "X",
            "name": name,
            "pid": row["replica"] + 1,
            "tid": line + 1,
            "ts": start_ns / 1e3,
            "dur": (until_ns - start_ns) / 1e3,
            "args": details,
        }
        for name, (start_ns, until_ns) in zip(names, pairwise(ns), strict=True)
        if until_ns > start_ns
    ]
