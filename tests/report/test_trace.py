from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from perfatlas.report.traces import chrome_trace_text
from perfatlas.report.traces.step import MAX_EVENTS, chrome_trace


def complete(trace: dict[str, Any], process: str) -> list[dict[str, Any]]:
    names = {
        event["args"]["name"]: event["pid"]
        for event in trace["traceEvents"]
        if event["name"] == "process_name"
    }
    return [
        event
        for event in trace["traceEvents"]
        if event["ph"] == "X" and event["pid"] == names[process]
    ]


def test_the_step_lasts_as_long_as_its_rows(answer: dict[str, Any]) -> None:
    trace = chrome_trace(answer)
    for phase in ("prefill", "decode"):
        events = complete(trace, f"{phase}: step")
        end_us = max(event["ts"] + event["dur"] for event in events)
        rows = [row for row in answer["breakdown"] if row["phase"] == phase]
        assert end_us == pytest.approx(1e6 * sum(row["time_s"] for row in rows))
        counts = Counter(event["name"] for event in events)
        assert counts == {row["name"]: row["count"] for row in rows}


def test_events_of_a_stream_never_overlap(answer: dict[str, Any]) -> None:
    ends: dict[tuple[int, int], float] = {}
    for event in chrome_trace(answer)["traceEvents"]:
        if event["ph"] == "X":
            stream = (event["pid"], event["tid"])
            assert event["ts"] >= ends.get(stream, 0.0) - 1e-6
            ends[stream] = event["ts"] + event["dur"]


def test_a_layer_holds_what_repeats_with_it(answer: dict[str, Any]) -> None:
    layer = Counter(event["name"] for event in complete(chrome_trace(answer), "decode: one layer"))
    # 80 layers: 160 all-reduces are 2 in each, 161 norms are 2 in each and one after the last
    assert layer["all_reduce"] == 2
    assert layer["rms_norm"] == 2
    assert "lm_head" not in layer


def test_host_time_comes_first_and_the_head_last(answer: dict[str, Any]) -> None:
    events = complete(chrome_trace(answer), "prefill: step")
    assert events[-1]["name"] == "lm_head"
    assert complete(chrome_trace(answer), "decode: step")[0]["cat"] == "host"


def test_the_file_stays_small(answer: dict[str, Any]) -> None:
    for row in answer["breakdown"]:
        row["count"] *= 10_000
    trace = chrome_trace(answer)
    assert len(trace["traceEvents"]) < 2 * MAX_EVENTS
    assert len(complete(trace, "decode: step")) == 10


def test_the_text_is_json_without_nan(answer: dict[str, Any]) -> None:
    trace = json.loads(chrome_trace_text(answer))
    assert trace["displayTimeUnit"] == "ms"
    keys = {"name", "ph", "ts", "dur", "pid", "tid"}
    assert all(keys <= set(e) for e in trace["traceEvents"] if e["ph"] == "X")


def test_an_answer_without_breakdown_is_an_empty_trace() -> None:
    assert chrome_trace({"breakdown": []})["traceEvents"] == []
