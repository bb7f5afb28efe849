from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from perfatlas.report.pages import page_html
from perfatlas.report.text import format_value
from perfatlas.report.traces import requests_trace_text
from perfatlas.verbs.simulate import SimulatedRun, Simulation, simulate, traffic_page
from perfatlas.verbs.simulate.page import MEANS, OBJECTIVES, RATES
from perfatlas.vocabulary.metrics import METRICS
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


def test_a_page_begins_with_metrics() -> None:
    assert {*OBJECTIVES, *MEANS, *RATES} <= set(METRICS)
    met = simulate(**SMALL, dp=2, slo_ttft_s=10.0)
    labels = parsed(page_of(met)).texts["dt"]
    reported = [name for name in OBJECTIVES if name in met.answer.results]
    assert reported == ["goodput_requests_per_s", "slo_attainment"]
    assert labels[:2] == [METRICS[name].label for name in reported]
    assert labels[2] == "TTFT, mean"


def test_a_page_of_limits_marks_them() -> None:
    bound = simulate(**SMALL, tier="bound")
    page = page_of(bound)
    read = parsed(page)
    results = bound.answer.results
    assert read.texts["dd"][0] == f"≥{format_value('ttft_s', results['ttft_s']['mean'])}"
    assert f"≤{format_value('requests_per_s', results['requests_per_s'])}" in read.texts["dd"]
    assert "latency, at least" in page
    assert "≥" not in page_of(DONE)


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


def test_a_trace_of_one_run_of_several_names_its_seed() -> None:
    several = simulate(**SMALL, seed=5, num_seeds=2)
    assert json.loads(requests_trace_text(several.per_request()))["otherData"] == {"seed": 5}
    assert "otherData" not in json.loads(requests_trace_text(DONE.per_request()))


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


def test_the_time_series_is_shown() -> None:
    series = DONE.series()
    states = {"time_s", "running", "waiting", "kv_used_share", "replicas"}
    assert set(series) == states | {"deployment_power_w"}
    assert len({len(column) for column in series.values()}) == 1
    assert max(series["running"]) > 0
    assert 0.0 < max(series["kv_used_share"]) < 1.0


def test_the_page_splits_the_tail_into_parts_that_make_it_whole() -> None:
    read = parsed(page_of(DONE))
    tails = [figure for title, figure in read.figures.items() if "Slowest request" in title]
    assert len(tails) == 2  # 1 % of 80
    for figure in tails:
        assert sum(trace["x"][0] for trace in figure["data"]) == pytest.approx(1.0, abs=1e-5)
    for part in ("queue", "own prefill", "prefill interference", "HTTP"):
        assert part in read.texts["td"]


def test_the_page_shades_outages_and_marks_what_an_autoscaler_does() -> None:
    events = [
        {"replica": 0, "fails_at_s": 0.5, "down_for_s": 1},
        {"replica": 1, "fails_at_s": 1.0, "back_at_s": 2, "kind": "drain"},
    ]
    failing = simulate(**SMALL, dp=2, replica_events=events)
    figures = parsed(page_of(failing)).figures
    shaded = {
        title: [trace["text"] for trace in figure["data"] if trace.get("fill") == "toself"]
        for title, figure in figures.items()
    }
    crash = "replica 0 out of service (crash) from 0.5 s to 1.5 s"
    drain = "replica 1 out of service (drained) from 1 s to 2 s"
    over_time = ("Time to first token by arrival", "Requests in the engines", "KV cache in use")
    for title in (*over_time, "Serving replicas"):
        assert shaded[title] == [crash, drain]
    assert shaded["Latency distributions"] == []
    scaled = simulate(
        **SMALL, max_replicas=3, autoscale_target=2, autoscale_period_s=0.5, start_up_s=0.2
    )
    serving = parsed(page_of(scaled)).figures["Serving replicas"]
    names = [trace["name"] for trace in serving["data"]]
    assert "replicas start to serve" in names
    calm = parsed(page_of(DONE)).figures
    assert [len(figure["data"]) for figure in calm.values()][1:4] == [1, 2, 1]


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
