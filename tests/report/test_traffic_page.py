from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from perfatlas.report.pages import page_html
from perfatlas.report.text import format_value
from perfatlas.report.traces import requests_trace_text
from perfatlas.verbs.simulate import SimulatedRun, Simulation, simulate, traffic_page
from tests.report.support import parsed


def run_of(done: Simulation) -> SimulatedRun:
    return SimulatedRun(done.per_request(), done.series(), done.out_of_service(), done.seed)


SMALL: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "system": "h200_sxm",
    "isl": 512,
    "osl": 32,
    "num_requests": 80,
    "request_rate": 40,
}
DONE = simulate(**SMALL, dp=2)


def page_of(done: Simulation, run: SimulatedRun | None = None) -> str:
    answer = done.answer.to_dict()
    return page_html(
        traffic_page(answer, run or run_of(done), reproduce="perfatlas"), script="none"
    )


def test_a_page_shows_every_answer() -> None:
    page = page_of(DONE)
    assert len(page) < 200_000  # but for the library that draws
    read = parsed(page)
    assert list(read.figures) == [
        "Latency distributions",
        "Time to first token by arrival",
        "Requests in the engines",
        "KV cache in use",
        "Power",
        *(title for title in read.texts["h2"] if title.startswith("Slowest request by")),
    ]
    results = DONE.answer.results
    assert "time to first token (TTFT)" in read.shown
    assert f"{results['steps']:,}" in read.texts["td"]
    assert read.texts["dd"][0] == format_value("ttft_s", results["ttft_s"]["mean"])
    assert "90% interval" in read.texts["dd"][1]
    assert read.texts["h2"][-2:] == ["Sources", "Reproduce"]


def test_a_page_of_requests_that_were_all_rejected_is_a_page() -> None:
    none = simulate(
        model="meta-llama/Llama-3.1-8B-Instruct",
        system="h200_sxm",
        num_requests=3,
        request_rate=1,
        kv_blocks=2,
    )
    read = parsed(page_of(none))
    assert "requests rejected" in read.texts["td"]
    assert "Latency distributions" not in read.figures


def spans(**window: float) -> list[dict[str, Any]]:
    events = json.loads(requests_trace_text(DONE.per_request(), None, **window))["traceEvents"]
    return [event for event in events if event["ph"] == "X"]


def test_the_spans_of_a_request_are_its_latencies() -> None:
    rows = DONE.per_request()
    found = [event for event in spans() if event["args"]["request"] == 7]
    names = ["tokenize", "queue", "prompt", "output", "stream and HTTP"]
    assert [event["name"] for event in found] == names
    whole_us = sum(event["dur"] for event in found)
    assert whole_us / 1e6 == pytest.approx(rows["request_latency_s"][7], abs=1e-8)
    prompt_s = (found[2]["ts"] + found[2]["dur"]) / 1e6 - rows["arrival_s"][7]
    assert prompt_s == pytest.approx(rows["prefilled_s"][7], abs=1e-8)
    assert rows["prefilled_s"][7] < rows["ttft_s"][7]  # what follows is the way to the client


def test_prompts_of_one_step_start_together_in_a_trace() -> None:
    all_at_once = simulate(**{**SMALL, "request_rate": float("inf"), "num_requests": 8, "isl": 64})
    events = json.loads(requests_trace_text(all_at_once.per_request()))["traceEvents"]
    rows = all_at_once.per_request()
    starts = {e["args"]["request"]: e["ts"] for e in events if e.get("name") == "prompt"}
    for i, start_us in starts.items():
        scheduled_s = rows["arrival_s"][i] + rows["read_s"][i] + rows["queue_s"][i]
        assert start_us / 1e6 == pytest.approx(scheduled_s, abs=1e-8)
    assert {event["pid"] for event in spans()} == {1, 2}


def test_two_requests_never_share_a_line_at_a_time() -> None:
    lines: dict[tuple[int, int], list[tuple[int, int]]] = {}  # nanoseconds
    for event in spans():
        start, duration = (round(1e3 * event[name]) for name in ("ts", "dur"))
        lines.setdefault((event["pid"], event["tid"]), []).append((start, duration))
    for taken in lines.values():
        taken.sort()
        for (start, duration), (following, _) in itertools.pairwise(taken):
            assert following >= start + duration


def test_the_state_of_the_deployment_is_counters() -> None:
    series = DONE.series()
    text = requests_trace_text(DONE.per_request(), series, start_s=0.2)
    events = json.loads(text)["traceEvents"]
    found = [e for e in events if e["ph"] == "C" and e["name"] == "running requests"]
    values = [e["args"]["running requests"] for e in found]
    assert max(values) == max(series["running"])
    assert all(before != after for before, after in itertools.pairwise(values))
    assert min(e["ts"] for e in found) >= 0.2e6
    named = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert "request line 1" in named


def test_a_window_shows_the_requests_that_are_there() -> None:
    rows = DONE.per_request()
    found = {event["args"]["request"] for event in spans(start_s=0.5, duration_s=0.25)}
    there = {
        request
        for request, at, takes in zip(
            rows["request"], rows["arrival_s"], rows["request_latency_s"], strict=True
        )
        if at < 0.75 and at + takes > 0.5
    }
    assert found == there
    assert 0 < len(there) < 80


def test_many_requests_are_thinned_and_the_slowest_stay() -> None:
    count = 20_000
    columns = {
        "arrival_s": [0.01 * i for i in range(count)],
        "ttft_s": [9.0 if i == 12_345 else 0.1 for i in range(count)],
    }
    read = parsed(page_of(DONE, run_of(DONE)._replace(columns=columns)))
    assert "Shows one in 10 requests, and the 500 slowest." in read.texts["p"]
    (dots,) = read.figures["Time to first token by arrival"]["data"]
    assert 2_000 <= len(dots["x"]) <= 2_500
    assert max(dots["y"]) == 9.0
