"""Queues of graphs of operators, beside closed forms of queues and static batches."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfatlas import estimate, max_request_rate, required_replicas, simulate
from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.deployments import resolve_traffic, service
from perfatlas.scenario.resolution import split_fields
from perfatlas.serving.requests import plain_requests
from perfatlas.serving.run.simulate import run

NETWORK: dict[str, Any] = {"model": "resnet-50", "system": "h100_sxm", "engine": "tensorrt"}


def _pass_s(batch: int) -> float:
    return float(estimate(**NETWORK, batch=batch).results["latency_s"])


@pytest.mark.parametrize("clients", [1, 8, 24])
def test_a_closed_loop_runs_the_static_batch_of_its_clients(clients: int) -> None:
    results = simulate(**NETWORK, concurrency=clients, num_requests=40 * clients).answer.results
    assert results["request_latency_s"]["p50"] == pytest.approx(_pass_s(clients), rel=1e-9)
    assert results["items_per_pass"] == pytest.approx(clients)
    assert results["item"] == "image"
    assert results["throughput_per_s"] == pytest.approx(clients / _pass_s(clients), rel=1e-9)


def test_single_items_wait_as_in_an_m_d_1_queue() -> None:
    time_s = _pass_s(1)
    results = simulate(
        **NETWORK, max_num_seqs=1, request_rate=0.7 / time_s, num_requests=100_000
    ).answer.results
    expected_s = time_s * 0.7 / (2.0 * (1.0 - 0.7))  # Pollaczek and Khinchine, equal times
    assert results["queue_s"]["mean"] == pytest.approx(expected_s, rel=0.05)
    assert results["capacity_requests_per_s"] == pytest.approx(1.0 / time_s, rel=1e-3)


def test_the_capacity_is_the_throughput_of_the_largest_batch() -> None:
    results = simulate(**NETWORK, max_num_seqs=32, gpus=4, request_rate=1e6).answer.results
    assert results["stability"] == "overloaded"
    expected = estimate(**NETWORK, batch=32, gpus=4).results["throughput_per_s"]
    assert results["capacity_requests_per_s"] == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("load", [0.2, 1.0, 5.0])
def test_all_that_wait_are_one_batch(load: float) -> None:
    """Passes of equal time T at rate r hold r T + exp(-r T) requests in the mean.

    A pass leaves none waiting with probability exp(-r T), and the next one then has one request;
    otherwise it has those that arrived, r T in the mean over all.
    """
    traffic, scenario = split_fields({**NETWORK, "max_num_seqs": 256, "request_rate": 1.0})
    (pool,) = service(scenario, traffic, resolve_traffic(traffic, scenario)).pools
    ticks = 10**9
    flat = np.full(pool.table.prices.mixed_linear_T.size, ticks)
    prices = pool.table.prices._replace(mixed_linear_T=flat, host_prefill=0)
    gaps_N = np.random.default_rng(1).exponential(ticks / load, 50_000)
    one_N = np.ones(gaps_N.size, np.int64)
    outcome = run(plain_requests(np.cumsum(gaps_N), one_N, one_N), prices, pool.limits)
    assert gaps_N.size / outcome.steps == pytest.approx(load + math.exp(-load), rel=0.02)


def test_the_largest_rate_and_the_fewest_replicas_meet_a_limit() -> None:
    limit = {"slo_request_latency_s": 0.015, "slo_percentile": 99}
    asked = {**NETWORK, "max_num_seqs": 64, **limit}
    found = max_request_rate(**asked, num_requests=20_000).answer.results
    best = 64 / _pass_s(64)
    assert 0.8 * best < found["max_requests_per_s"] <= best
    assert found["request_latency_s"]["p99"] <= 0.015
    rate = 2.5 * found["max_requests_per_s"]
    assert required_replicas(**asked, request_rate=rate).answer.results["required_replicas"] == 3


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"request_rate": 5}, "set max_num_seqs"),
        ({"slo_ttft_s": 0.1}, "requests of resnet-50, a graph of operators, have no tokens"),
        ({"scheduler": "sglang"}, "scheduler = sglang has no effect here"),
        ({"kv_blocks": 8}, "kv_blocks applies to language models"),
        ({"routing": "prefix_aware", "dp": 2}, "requests of resnet-50, .* have no prefixes"),
        ({"replica_kinds": [{"dp": 2}, {"dp": 1}]}, "replica_kinds = a tuple of 2 items has no"),
        ({"isl": 7}, "runs over items of one size"),
    ],
)
def test_fields_of_tokens_are_refused(fields: dict[str, Any], message: str) -> None:
    asked = {"max_num_seqs": 4} if "request_rate" not in fields else {}
    with pytest.raises(InvalidSpecError, match=message):
        simulate(**{**NETWORK, "request_rate": 5, **asked, **fields})


def test_a_file_of_requests_has_an_item_each(tmp_path: Path) -> None:
    trace = tmp_path / "requests.csv"
    trace.write_text("arrival_s,isl,osl\n0,1,1\n0.1,1,1\n")
    asked = {**NETWORK, "max_num_seqs": 4, "requests": str(trace)}
    assert simulate(**asked).answer.results["requests_completed"] == 2
    trace.write_text("arrival_s,isl,osl\n0,9,1\n")
    with pytest.raises(InvalidSpecError, match="requests of up to 9 tokens"):
        simulate(**asked)
