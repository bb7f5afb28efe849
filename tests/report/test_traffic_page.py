from __future__ import annotations

import itertools
import json
import re
from typing import Any

import pytest

from perfatlas.report.traces import requests_trace_text
from perfatlas.verbs.simulate import SimulatedRun, Simulation, simulate, traffic_page


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


def test_a_page_needs_no_network_and_shows_every_answer() -> None:
    answer = DONE.answer.to_dict()
    page = traffic_page(answer, run_of(DONE), reproduce="perfatlas <&>")
    assert len(page) < 200_000  # no plot library inside
    own = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert "perfatlas &lt;&amp;&gt;" in own
    assert not re.search(r"(src|href)=[\"']?http", own)
    assert own.count("<h2>") == 7  # two tails, four charts and how sure
    assert own.count("<svg") == 4
    assert "time to first token (TTFT)" in own
    assert f"{answer['results']['steps']:,}" in own


def test_a_page_of_requests_that_were_all_rejected_is_a_page() -> None:
    none = simulate(
        model="meta-llama/Llama-3.1-8B-Instruct",
        system="h200_sxm",
        num_requests=3,
        request_rate=1,
        kv_blocks=2,
    )
    page = traffic_page(none.answer.to_dict(), run_of(none), reproduce="x")
    assert "requests rejected" in page


def spans(**window: float) -> list[dict[str, Any]]:
    events = json.loads(requests_trace_text(DONE.per_request(), **window))["traceEvents"]
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
    lines: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for event in spans():
        lines.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["dur"]))
    for taken in lines.values():
        taken.sort()
        for (start, duration), (following, _) in itertools.pairwise(taken):
            assert following >= start + duration - 1e-2  # microseconds, rounded to 1e-3


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


def test_the_state_over_time_is_told() -> None:
    series = DONE.series()
    assert set(series) == {"time_s", "running", "waiting", "kv_used_share", "replicas"}
    assert len({len(column) for column in series.values()}) == 1
    assert max(series["running"]) > 0
    assert 0.0 < max(series["kv_used_share"]) < 1.0


def test_the_page_splits_the_tail_into_parts_that_make_it_whole() -> None:
    page = traffic_page(DONE.answer.to_dict(), run_of(DONE), reproduce="x")
    bars = re.findall(r'<div class="bar">(.*?)</div>', page)
    assert len(bars) == 2
    for bar in bars:
        widths = [float(width) for width in re.findall(r"width:([\d.]+)%", bar)]
        assert sum(widths) == pytest.approx(100.0, abs=0.01)
    assert "slowest request by TTFT" in page  # 1 % of 80
    for part in ("queue", "own prefill", "prefill interference", "HTTP"):
        assert f"</i>{part}</td>" in page


def test_the_page_shades_outages_and_marks_what_an_autoscaler_does() -> None:
    events = [
        {"replica": 0, "fails_at_s": 0.5, "down_for_s": 1},
        {"replica": 1, "fails_at_s": 1.0, "back_at_s": 2, "kind": "drain"},
    ]
    failing = simulate(**SMALL, dp=2, replica_events=events)
    page = traffic_page(failing.answer.to_dict(), run_of(failing), reproduce="x")
    # TTFT by arrival, requests, cache and replicas, with two outages each
    assert page.count('<rect class="span"') == 8
    assert "replica 0 out of service (crash) from 0.5 s to 1.5 s" in page
    assert "a replica out of service (drained)" in page
    scaled = simulate(
        **SMALL, max_replicas=3, autoscale_target=2, autoscale_period_s=0.5, start_up_s=0.2
    )
    page = traffic_page(scaled.answer.to_dict(), run_of(scaled), reproduce="x")
    assert "replicas start to serve" in page
    assert page.count('<path class="mark"') >= 4
    calm = traffic_page(DONE.answer.to_dict(), run_of(DONE), reproduce="x")
    assert 'class="span"' not in calm
    assert 'class="mark"' not in calm


def test_many_requests_are_thinned_and_the_slowest_stay() -> None:
    count = 20_000
    columns = {
        "arrival_s": [0.01 * i for i in range(count)],
        "ttft_s": [9.0 if i == 12_345 else 0.1 for i in range(count)],
    }
    page = traffic_page(
        DONE.answer.to_dict(), run_of(DONE)._replace(columns=columns), reproduce="x"
    )
    assert "One request in 5, and the 1,000 slowest." in page
    dots = re.findall(r'<path class="dots"[^>]* d="([^"]*)"', page)[0].split("M")[1:]
    assert 4_000 <= len(dots) <= 5_000
    highest = min(float(dot.split()[1].removesuffix("h0")) for dot in dots)
    assert highest < 30.0  # 9 s, at the top of the chart
