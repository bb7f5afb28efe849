"""A profile beside its prediction in the Trace Event format, which ui.perfetto.dev opens."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Columns = Mapping[str, Sequence[Any]]

MICROSECONDS: Final = 1e6
TITLES: Final = ("measured", "at the predicted durations")


def profile_trace_text(columns: Columns) -> str:
    """Return the activities of a profile, measured and predicted, as JSON of the format.

    Each GPU has two processes, one with measured and one with predicted durations; streams are
    threads.

    Args:
        columns: Activities as columns: device, stream, name, class, operator, start_s, time_s,
            predicted_s, predicted_s_low and predicted_s_high (None for those without a prediction,
            which keep their time), predicted_start_s.

    Example:
        >>> from perfatlas.report.traces import profile_trace_text
        >>> columns = {"device": ["GPU 0"], "stream": [7], "name": ["gemm"], "class": ["gemm"],
        ...     "operator": ["aten::mm"], "start_s": [0.0], "time_s": [4e-6], "predicted_s": [3e-6],
        ...     "predicted_s_low": [2e-6], "predicted_s_high": [5e-6], "predicted_start_s": [0.0]}
        >>> import json
        >>> spans = json.loads(profile_trace_text(columns))["traceEvents"]
        >>> [(event["pid"], event["dur"]) for event in spans if event["ph"] == "X"]
        [(1, 4.0), (2, 3.0)]
    """
    devices = list(dict.fromkeys(columns["device"]))
    events: list[dict[str, Any]] = [
        {
            "ph": "M",
            "name": "process_name",
            "pid": 1 + index,
            "tid": 0,
            "args": {"name": f"{devices[index // 2]}, {TITLES[index % 2]}"},
        }
        for index in range(2 * len(devices))
    ]
    first = {device: 1 + 2 * index for index, device in enumerate(devices)}
    for values in zip(*columns.values(), strict=True):
        row = dict(zip(columns, values, strict=True))
        events += _spans(row, first[row["device"]])
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}, separators=(",", ":"))


def _spans(row: Mapping[str, Any], process: int) -> Iterator[dict[str, Any]]:
    """Yield the measured and the predicted span of an activity."""
    predicted_s = row["time_s"] if row["predicted_s"] is None else row["predicted_s"]
    facts = {
        name.replace("_s", "_us"): row[name] * MICROSECONDS
        for name in ("time_s", "predicted_s", "predicted_s_low", "predicted_s_high")
        if row[name] is not None
    }
    if row["predicted_s_high"] is not None:
        facts["slower than predicted"] = row["time_s"] > row["predicted_s_high"]
    spans = ((row["start_s"], row["time_s"]), (row["predicted_start_s"], predicted_s))
    for index, (start_s, time_s) in enumerate(spans):
        yield {
            "ph": "X",
            "name": row["name"],
            "cat": row["class"],
            "pid": process + index,
            "tid": row["stream"],
            "ts": start_s * MICROSECONDS,
            "dur": time_s * MICROSECONDS,
            "args": {"operator": row["operator"], **facts},
        }
