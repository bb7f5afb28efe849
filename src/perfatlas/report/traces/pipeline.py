"""A pipeline schedule as a timeline in the Trace Event format, which ui.perfetto.dev opens."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

MICROSECONDS: Final = 1e6
TITLES: Final = {
    "forward": "forward",
    "input_gradient": "input gradient",
    "weight_gradient": "weight gradient",
    "backward": "backward",
}
COMPUTE, OVERLAPPED = 1, 2  # threads of a rank


def pipeline_trace_text(
    timeline: Mapping[str, Any], later_s: Mapping[str, float] | None = None
) -> str:
    """Return the passes of a pipeline as JSON of the Trace Event format.

    A rank of the pipeline is a process. The backward pass of an overlapped pair is on a second
    line below its forward pass.

    Args:
        timeline: Columns rank, stage, chunk, micro_batch, pass, overlapped, start_s and end_s.
        later_s: Parts of the step that follow the last pass on all ranks, in their order [s].

    Example:
        >>> import json
        >>> from perfatlas.report.traces import pipeline_trace_text
        >>> timeline = {"rank": [0], "stage": [0], "chunk": [0], "micro_batch": [3],
        ...     "pass": ["forward"], "overlapped": [False], "start_s": [0.5], "end_s": [0.75]}
        >>> spans = json.loads(pipeline_trace_text(timeline))["traceEvents"]
        >>> [(e["name"], e["ts"], e["dur"]) for e in spans if e["ph"] == "X"]
        [('forward 3', 500000.0, 250000.0)]
    """
    rows = [
        dict(zip(timeline, values, strict=True)) for values in zip(*timeline.values(), strict=True)
    ]
    events = [_event(row) for row in rows]
    end_s = max((float(row["end_s"]) for row in rows), default=0.0)
    for rank in sorted({int(row["rank"]) for row in rows}):
        events.append(_name("process_name", rank, 0, f"pipeline rank {rank}"))
        events.append(_name("thread_name", rank, COMPUTE, "passes"))
        events += _later(rank, end_s, later_s or {})
    events += [
        _name("thread_name", rank, OVERLAPPED, "overlapped backward passes")
        for rank in sorted({int(row["rank"]) for row in rows if row["overlapped"]})
    ]
    trace = {"traceEvents": events, "displayTimeUnit": "ms"}
    return json.dumps(trace, separators=(",", ":"), allow_nan=False)


def _event(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the complete event of a pass."""
    name = str(row["pass"])
    second = bool(row["overlapped"]) and name == "backward"
    return {
        "name": f"{TITLES[name]} {int(row['micro_batch'])}",
        "cat": name,
        "ph": "X",
        "ts": float(row["start_s"]) * MICROSECONDS,
        "dur": (float(row["end_s"]) - float(row["start_s"])) * MICROSECONDS,
        "pid": int(row["rank"]) + 1,
        "tid": OVERLAPPED if second else COMPUTE,
        "args": {key: int(row[key]) for key in ("stage", "chunk", "micro_batch")},
    }


def _later(rank: int, start_s: float, later_s: Mapping[str, float]) -> list[dict[str, Any]]:
    """Return the complete events of the parts that follow the passes on a rank."""
    events = []
    for name, time_s in later_s.items():
        if time_s > 0.0:
            span = {"ts": start_s * MICROSECONDS, "dur": time_s * MICROSECONDS}
            part = {"name": name, "cat": "step", "ph": "X", "pid": rank + 1, "tid": COMPUTE}
            events.append(part | span)
            start_s += time_s
    return events


def _name(kind: str, rank: int, thread: int, title: str) -> dict[str, Any]:
    """Return the metadata event that names a process or thread."""
    return {"name": kind, "ph": "M", "pid": rank + 1, "tid": thread, "args": {"name": title}}
