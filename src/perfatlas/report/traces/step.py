"""A step as a timeline in the Trace Event format, which ui.perfetto.dev opens."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from perfatlas.report.text import rows_by_phase

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Row = Mapping[str, Any]

THREADS: Final = {"compute": 1, "communication": 2, "host": 3}
# Steps with more kernels than this are drawn with one event per operator.
MAX_EVENTS: Final = 20_000
MICROSECONDS: Final = 1e6


def chrome_trace(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return a trace with two processes per phase: one layer, and the whole step.

    Returns:
        The JSON object of the Trace Event format: complete events ("X"), times in microseconds.

    Limits: The breakdown has durations that sum to the step, but no start times: exposed host time
        comes first, then kernels and communication follow in the order of the breakdown, each on
        its stream.

    Example:
        >>> from perfatlas.report.traces.step import chrome_trace
        >>> row = {"name": "gemm", "phase": "decode", "count": 2, "time_s": 4e-6,
        ...        "stream": "compute"}
        >>> [e["ts"] for e in chrome_trace({"breakdown": [row]})["traceEvents"] if e["ph"] == "X"]
        [0.0, 0.0, 2.0]
    """
    events: list[dict[str, Any]] = []
    process = 0
    for phase, rows in rows_by_phase(answer.get("breakdown") or []).items():
        timed = [row for row in rows if float(row.get("time_s") or 0.0) > 0]
        timed.sort(key=lambda row: row.get("stream") != "host")
        times: dict[int, float] = {}  # by number of layers; most of the time decides
        for entry in timed:
            if entry.get("stream") != "host":
                times[_repeats(entry)] = times.get(_repeats(entry), 0.0) + float(entry["time_s"])
        layers = max(times, key=times.__getitem__, default=1)
        for title, kernels in (
            (f"{phase}: one layer", _layer(timed, layers)),
            (f"{phase}: step", _step(timed, layers)),
        ):
            process += 1
            names = [
                ("process_name", 0, title),
                *(("thread_name", t, s) for s, t in THREADS.items()),
            ]
            events += [
                {"name": kind, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}
                for kind, thread, name in names
            ]
            events += _timeline(process, kernels)
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "perfatlas": str(answer.get("version") or ""),
            "scenario": json.dumps(answer.get("scenario") or {}, default=str),
            "results": json.dumps(answer.get("results") or {}, default=str),
        },
    }


def chrome_trace_text(answer: Mapping[str, Any]) -> str:
    """Return the trace as JSON text."""
    return json.dumps(chrome_trace(answer), separators=(",", ":"), allow_nan=False)


def _repeats(row: Row) -> int:
    return max(1, round(float(row.get("count") or 1)))


def _layer(rows: Sequence[Row], layers: int) -> Iterator[tuple[Row, int]]:
    """Yield (row, kernels per event) of one layer."""
    for row in rows:
        for _ in range(_repeats(row) // layers):
            yield row, 1


def _step(rows: Sequence[Row], layers: int) -> Iterator[tuple[Row, int]]:
    """Yield the events of a step: before the layers, the layers, after them."""
    if sum(map(_repeats, rows)) > MAX_EVENTS:
        yield from ((row, _repeats(row)) for row in rows)
        return
    inside = [row for row in rows if _repeats(row) >= layers]
    first = next((i for i, row in enumerate(rows) if _repeats(row) >= layers), len(rows))
    once = [(i, row) for i, row in enumerate(rows) if _repeats(row) < layers]
    for i, row in once:
        if i < first:
            yield from ((row, 1) for _ in range(_repeats(row)))
    for layer in range(layers):
        for row in inside:
            # 161 norms over 80 layers: two per layer, the remaining one in the last
            before, after = (_repeats(row) * (layer + edge) // layers for edge in (0, 1))
            yield from ((row, 1) for _ in range(after - before))
    for i, row in once:
        if i > first:
            yield from ((row, 1) for _ in range(_repeats(row)))


def _timeline(process: int, kernels: Iterator[tuple[Row, int]]) -> Iterator[dict[str, Any]]:
    now_us = 0.0
    for row, merged in kernels:
        stream = str(row.get("stream") or "compute")
        duration_us = merged * float(row["time_s"]) * MICROSECONDS / _repeats(row)
        yield {
            "name": str(row.get("name") or "operator"),
            "cat": stream,
            "ph": "X",
            "ts": now_us,
            "dur": duration_us,
            "pid": process,
            "tid": THREADS.get(stream, THREADS["compute"]),
            "args": {"kernels": merged} | _arguments(row),
        }
        now_us += duration_us


def _arguments(row: Row) -> dict[str, Any]:
    names = ("bound", "share", "tier", "calibration")
    return {name: row[name] for name in names if row.get(name) is not None}
