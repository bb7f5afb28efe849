from __future__ import annotations

import itertools
import json
import re
from typing import Any

import pytest

from perfatlas import Simulation, simulate
from perfatlas.report import SimulatedRun, requests_trace_text, traffic_page


def run_of(done: Simulation) -> SimulatedRun:
    return SimulatedRun(done.per_request(), done.series(), done.out_of_service(), done.seed)


DONE = simulate(
    model="meta-llama/Llama-3.1-8B-Instruct",
    system="h200_sxm",
    isl=512,
    osl=32,
    num_requests=80,
    request_rate=40,
    dp=2,
)


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
    assert [event["name"] for event in found] == ["queue", "prompt", "output"]
    first_us = found[0]["dur"] + found[1]["dur"]
    assert first_us / 1e6 == pytest.approx(rows["ttft_s"][7], abs=1e-8)
    assert {event["pid"] for event in spans()} == {1, 2}


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
