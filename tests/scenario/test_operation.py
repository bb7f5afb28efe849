"""Operation of replicas, through the fields of a scenario."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfatlas.files import write_table
from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.fields.input_fields import input_rows
from perfatlas.verbs.simulate import simulate

DEPLOYED: dict[str, Any] = {"model": "meta-llama/Llama-3.1-8B-Instruct", "system": "h200_sxm"}


def _talks(folder: Path) -> dict[str, Any]:
    """Requests of eight families, each with its own prefix of 60 blocks of 16 tokens."""
    rows: dict[str, list[Any]] = {"arrival_s": [], "isl": [], "osl": [], "prefix_hash_ids": []}
    draw = np.random.default_rng(1)
    for place in range(160):
        family = int(draw.integers(8))
        rows["arrival_s"].append(0.05 * place)
        rows["isl"].append(70 * 16)
        rows["osl"].append(20)
        shared = [1000 * family + block for block in range(60)]
        rows["prefix_hash_ids"].append([*shared, *(100_000 + 10 * place + k for k in range(10))])
    path = str(folder / "talks.jsonl")
    write_table(path, rows)
    return {**DEPLOYED, "dp": 4, "requests": path}


def test_following_prefixes_finds_more_of_them_in_the_cache(tmp_path: Path) -> None:
    asked = _talks(tmp_path)
    found = {
        routing: simulate(**asked, routing=routing).answer
        for routing in ("round_robin", "prefix_aware")
    }
    rates = {name: answer.results["prefix_hit_rate"] for name, answer in found.items()}
    # 8 families start 8 times on one replica each, or up to 4 times as often: 60 of 70 blocks
    assert rates["prefix_aware"] == pytest.approx((160 - 8) / 160 * 60 / 70, abs=0.02)
    assert rates["round_robin"] < rates["prefix_aware"] - 0.05
    said = found["prefix_aware"].evidence.assumptions
    assert any("sglang-router 0.3.2" in text and "30%" in text for text in said)


STEADY: dict[str, Any] = {**DEPLOYED, "isl": 512, "osl": 200, "request_rate": 40}


def test_a_failing_replica_loses_its_work_with_a_warning() -> None:
    event = {"replica": 1, "fails_at_s": 2.0, "down_for_s": 3.0}
    asked = {**STEADY, "num_requests": 300, "dp": 3, "routing": "least_loaded"}
    done = simulate(**asked, replica_events=[event])
    results, plain = done.answer.results, simulate(**asked).answer.results
    assert results["requests_completed"] == 300
    assert 10 < results["requests_sent_again"] < 100
    assert results["output_tokens_wasted"] > results["requests_sent_again"]
    assert results["requests_lost"] == results["requests_unserved"] == 0
    assert results["ttft_s"]["p99"] > 5 * plain["ttft_s"]["p99"]
    # three seconds of one of three, and the step it ended
    ended_s = 3.0 / (3 * (1 - results["replica_availability"]))
    assert ended_s == pytest.approx(results["replica_time_s"] / 3 + 1.0, rel=0.01)
    assert results["tail_request_latency_s"]["failure"] > 0.5
    columns = done.per_request()
    assert sum(columns["failed_tries"]) == results["requests_sent_again"]
    assert min(done.series()["replicas"]) == 2
    lost = simulate(**asked, replica_events=[event], on_failure="lost", slo_ttft_s=1.0).answer
    assert lost.results["requests_lost"] == results["requests_sent_again"]
    assert lost.results["slo_attainment"] < 1.0 - results["requests_sent_again"] / 301
    assert any("were lost" in text for text in lost.warnings)


def test_unserved_requests_are_no_saturation() -> None:
    # 20 requests/s that one replica keeps up with, until it dies for good a third on
    asked = {**STEADY, "request_rate": 20, "num_requests": 300}
    event = {"replica": 0, "fails_at_s": 5.0}
    found = simulate(**asked, replica_events=[event], slo_ttft_s=1.0)
    results = found.answer.results
    assert results["requests_unserved"] > 150
    assert results["saturated"] is False
    assert not any("exceeds the capacity" in text for text in found.answer.warnings)
    assert any("no replica was in service any more" in text for text in found.answer.warnings)
    # traffic goes on without it: rates are over all of it
    arrivals = [value for value in found.per_request()["arrival_s"] if value is not None]
    assert results["makespan_s"] == pytest.approx(arrivals[-1] - arrivals[0], rel=1e-9)
    served = results["requests_completed"] / results["makespan_s"]
    assert results["requests_per_s"] == pytest.approx(served)
    assert results["goodput_requests_per_s"] <= served < 10.0


def test_replica_availability_is_at_most_one() -> None:
    asked = {**DEPLOYED, "isl": 512, "osl": 50, "num_requests": 200, "concurrency": 8}
    found = simulate(**asked, replica_events=[{"replica": 0, "fails_at_s": 1.0}]).answer.results
    assert found["requests_unserved"] > 0
    assert 0.9 < found["replica_availability"] <= 1.0


def test_an_autoscaler_replaces_a_replica_that_fails() -> None:
    asked = {**DEPLOYED, "isl": 512, "osl": 64, "num_requests": 300, "request_rate": 20, "dp": 2}
    asked |= {"min_replicas": 2, "max_replicas": 4, "autoscale_target": 4, "start_up_s": 0}
    events = [{"replica": 0, "fails_at_s": 2.0}]
    found = simulate(**asked, replica_events=events, autoscale_period_s=1).answer.results
    assert found["requests_completed"] == 300
    assert found["requests_sent_again"] > 0
    assert found["replicas_at_most"] >= 3
    assert "replica_availability" not in found  # replicas that are off are no outage


@pytest.mark.parametrize("failing", [0, 1])
def test_pools_serve_all_requests_when_a_replica_returns(failing: int) -> None:
    asked = {**DEPLOYED, "isl": 512, "osl": 64, "num_requests": 80, "request_rate": 8}
    asked |= {"mode": "disaggregated", "prefill_workers": 1, "decode_workers": 1}
    event = {"replica": failing, "fails_at_s": 2.0, "down_for_s": 3.0}
    found = simulate(**asked, replica_events=[event]).answer.results
    plain = simulate(**asked).answer.results
    assert found["requests_completed"] == plain["requests_completed"] == 80
    assert found["ttft_s"]["p99"] > plain["ttft_s"]["p99"] + 1.0


def test_events_come_from_files_lists_and_text(tmp_path: Path) -> None:
    asked = {**STEADY, "num_requests": 60, "dp": 2}
    rows = {"replica": [1, 0], "fails_at_s": [0.2, 1.0], "back_at_s": [0.6, None]}
    path = str(tmp_path / "events.csv")
    write_table(path, {**rows, "kind": ["drain", "crash"]})
    text = (
        '[{"replica": 1, "fails_at_s": 0.2, "back_at_s": 0.6, "kind": "drain"},'
        ' {"replica": 0, "fails_at_s": 1}]'
    )
    found = [simulate(**asked, replica_events=given).answer.results for given in (path, text)]
    assert found[0] == found[1]
    assert found[0]["requests_sent_again"] > 0


def test_an_autoscaler_follows_the_load_and_says_what_it_used() -> None:
    asked = {**DEPLOYED, "isl": 512, "osl": 200, "request_rate": 60, "num_requests": 3000}
    asked |= {"max_replicas": 6, "autoscale_target": 16, "start_up_s": 4, "autoscale_period_s": 5}
    done = simulate(**asked)
    results = done.answer.results
    assert results["requests_completed"] == 3000
    assert 1 < results["replicas_on_average"] < results["replicas_at_most"] <= 6
    assert results["gpus"] == 6
    # Little: requests inside are rate x stay; the target leaves each replica about 16 of them
    tokens = results["output_tokens_per_s"] * results["makespan_s"]
    assert results["output_tokens_per_s_per_gpu"] == pytest.approx(
        tokens / results["replica_time_s"]
    )
    served = done.series()["replicas"]
    assert served[0] == 1
    assert max(served) == results["replicas_at_most"]
    slow = simulate(**{**asked, "start_up_s": 20}).answer.results
    assert slow["ttft_s"]["p90"] > results["ttft_s"]["p90"]


def test_json_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(InvalidSpecError, match=r"replica_events .*nested"):
        input_rows("[" * 100_000, "replica_events", "a list of events", 10)
