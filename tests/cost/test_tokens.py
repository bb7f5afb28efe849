"""Cost of tokens: sums, ends of intervals, several pools and verbs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from perfatlas.cost import PoolPrices, TokenCounts, cost_columns, cost_parts, gpu_price
from perfatlas.quantities import InvalidSpecError
from perfatlas.studies.deployments import read_search
from perfatlas.verbs.estimate import estimate
from perfatlas.verbs.goodput import goodput
from perfatlas.verbs.schedule import fleet_schedule
from perfatlas.verbs.search import search
from perfatlas.verbs.simulate import simulate

BASE: Final[dict[str, Any]] = {"model": "meta-llama/Llama-3.1-8B", "system": "h200_sxm"}
RATE = "output_tokens_per_s_per_gpu"
POOLS: Final[dict[str, Any]] = {
    "mode": "disaggregated",
    "prefill_tp": 1,
    "decode_tp": 1,
    "prefill_workers": 1,
    "decode_workers": 1,
    "concurrency": 8,
}


def test_by_hand() -> None:
    """8 GPUs at $2 are $16 per hour; 4,000 tokens/s are 14.4 million tokens per hour."""
    rates = {RATE: 500.0, f"{RATE}_low": 250.0, f"{RATE}_high": np.nan, "gpus": 8.0}
    columns = {name: np.array([value]) for name, value in rates.items()}
    pools = [PoolPrices([gpu_price("h200_sxm", 2.0)], np.zeros(1, np.int64))]
    found = cost_columns(columns, pools, np.array([0.25]), TokenCounts(1000.0, 100.0))
    assert "usd_per_million_cached_input_tokens" not in found
    assert found["usd_per_hour"] == 16.0
    assert found["usd_per_million_output_tokens"] == pytest.approx(16 / 14.4)
    assert found["usd_per_million_output_tokens_high"] == pytest.approx(16 / 7.2)
    assert np.isnan(found["usd_per_million_output_tokens_low"])
    assert found["decode_usd_per_million_output_tokens"] == pytest.approx(0.75 * 16 / 14.4)
    assert found["usd_per_million_input_tokens"] == pytest.approx(0.25 * 16 / 144)


@pytest.mark.parametrize(
    "fields",
    [
        {"mode": "static", "batch": 8},
        {"concurrency": 32, "mode": "aggregated", "method": "formula"},
        {"concurrency": 32, "mode": "aggregated", "method": "formula", "prefix": 512},
        {**POOLS, "decode_system": "b200_sxm"},
        {"usd_per_gpu_hour": "owned", "batch": 4},
    ],
    ids=["static", "aggregated", "cached prefix", "pools", "owned"],
)
def test_tokens_sum_to_the_deployment(fields: dict[str, Any]) -> None:
    results = estimate(**BASE, **fields).results
    osl, computed = 128, 1024 - fields.get("prefix", 0)
    requests_per_s = results[RATE] * results["gpus"] / osl
    total = requests_per_s * (
        computed * results["usd_per_million_input_tokens"]
        + (1024 - computed) * results.get("usd_per_million_cached_input_tokens", 0.0)
        + osl * results["decode_usd_per_million_output_tokens"]
    )
    assert total * 3600 / 1e6 == pytest.approx(results["usd_per_hour"])
    whole = results["usd_per_million_output_tokens"]
    parts = results["parts_usd_per_million_output_tokens"]
    assert sum(parts.values()) == pytest.approx(whole)
    for name in ("usd_per_million_output_tokens", "usd_per_million_input_tokens"):
        assert results[f"{name}_low"] <= results[name] <= (results[f"{name}_high"] or np.inf)


def test_cached_tokens_by_hand() -> None:
    """A fifth of the prompts' quarter of $16 per hour, over 500 tokens of each 100 put out."""
    rates = {RATE: 500.0, f"{RATE}_low": 250.0, f"{RATE}_high": 1000.0, "gpus": 8.0}
    columns = {name: np.array([value]) for name, value in rates.items()}
    pools = [PoolPrices([gpu_price("h200_sxm", 2.0)], np.zeros(1, np.int64))]
    tokens = TokenCounts(1000.0, 100.0, 500.0, 0.2)
    found = cost_columns(columns, pools, np.array([0.25]), tokens)
    assert found["usd_per_million_cached_input_tokens"] == pytest.approx(0.2 * 0.25 * 16 / 72)
    assert found["usd_per_million_input_tokens"] == pytest.approx(0.8 * 0.25 * 16 / 144)


def test_cached_tokens_cost_less_than_new_ones_and_more_with_long_prompts() -> None:
    shares = []
    for isl, prefix in ((1024, 512), (16384, 8192)):
        asked = {**BASE, "isl": isl, "prefix": prefix, "batch": 1}
        results = estimate(**asked).results
        cached = results["usd_per_million_cached_input_tokens"]
        assert 0.0 < cached < results["usd_per_million_input_tokens"]
        shares.append(cached / results["usd_per_million_input_tokens"])
    assert shares[0] < shares[1]
    assert "usd_per_million_cached_input_tokens" not in estimate(**BASE).results


def test_simulated_tokens_sum_to_the_deployment() -> None:
    asked: dict[str, Any] = {"request_rate": 4.0, "num_requests": 40, "isl": 512, "osl": 64}
    results = simulate(**BASE, **asked, usd_per_gpu_hour=2.0, gco2_per_kwh=400.0).answer.results
    total = (
        results["requests_per_s"] * 512 * results["usd_per_million_input_tokens"]
        + results["output_tokens_per_s"] * results["decode_usd_per_million_output_tokens"]
    )
    assert total * 3600 / 1e6 == pytest.approx(results["usd_per_hour"])
    assert results["usd_per_hour"] == 2.0
    assert results["gco2_per_hour"] == pytest.approx(0.4 * results["facility_power_w"])


def test_pools_pay_their_own_prices() -> None:
    asked = {**BASE, **POOLS, "decode_system": "b200_sxm", "prefill_system": "h200_sxm"}
    results = estimate(**asked, usd_per_gpu_hour="h200_sxm=1,b200_sxm=3").results
    assert results["usd_per_hour"] == pytest.approx(4.0)
    share = results["decode_usd_per_million_output_tokens"]
    assert share == pytest.approx(0.75 * results["usd_per_million_output_tokens"])


def test_cost_limits_a_search() -> None:
    small = {**BASE, "gpus": 8, "isl": 1024, "osl": 128, "num_simulated": 0, "usd_per_gpu_hour": 2}
    free = search(**small).results["plans"][0]["usd_per_million_output_tokens"]
    limit: dict[str, Any] = {
        "max_usd_per_million_tokens": 4.0 * free,
        "objective": "request_latency_s",
    }
    plan = search(**small, **limit).results["plans"][0]
    assert free < plan["usd_per_million_output_tokens"] <= 4.0 * free
    with pytest.raises(InvalidSpecError, match="no price of h20"):
        read_search({**small, "system": "h20", "usd_per_gpu_hour": None, **limit})


def test_no_price_is_no_cost() -> None:
    answer = estimate(**{**BASE, "system": "h20"}, batch=4)
    assert answer.results["usd_per_million_output_tokens"] is None
    assert "parts_usd_per_million_output_tokens" not in answer.results
    assert any("no price of h20" in text for text in answer.evidence.assumptions)
    assert cost_parts({"usd_per_million_output_tokens": None}, []) is None


def test_costs_of_jobs_and_clusters(tmp_path: Path) -> None:
    path = tmp_path / "step.toml"
    path.write_text(
        'model = "meta-llama/Llama-3.1-8B"\nsystem = "h100_sxm"\ngpus = 64\nglobal_batch = 64\n'
    )
    job: dict[str, Any] = {"mtti_s": 1e5, "checkpoint_write_s": 60, "restart_s": 300}
    run = goodput(train=str(path), tokens=1e12, **job).results
    usd, low, high = gpu_price("h100_sxm").usd
    hours = run["token_budget_gpu_hours"]
    assert run["usd_per_training_run"] == pytest.approx(usd * hours)
    for end, price in (("_low", low), ("_high", high)):
        seconds = run[f"time_to_tokens_s{end}"]
        cost = None if seconds is None else pytest.approx(price * 64 * seconds / 3600)
        assert run[f"usd_per_training_run{end}"] == cost
    with pytest.raises(InvalidSpecError, match="price of systems"):
        goodput(gpus=64, usd_per_gpu_hour="owned", **job)
    cluster: dict[str, Any] = {"num_jobs": 9, "load": 0.5, "nodes": 8, "usd_per_gpu_hour": 2.0}
    found = fleet_schedule(**cluster).answer
    hours = sum(row["gpu_hours"] for row in found.breakdown)
    assert found.results["cost_usd"] == pytest.approx(2.0 * hours)
    assert found.results["usd_per_useful_gpu_hour"] > 2.0


def test_split_layers_cost_the_gpus_of_both_machines() -> None:
    results = estimate(
        model="Qwen/Qwen3-30B-A3B",
        system="h200_sxm",
        feed_forward_system="h100_sxm",
        feed_forward_tp=4,
        tp=1,
        dp=2,
        batch=8,
        usd_per_gpu_hour="h200_sxm=5,h100_sxm=1",
    ).results
    assert results["usd_per_hour"] == pytest.approx(2 * 5 + 4 * 1)
    whole = results["usd_per_million_output_tokens"]
    parts = results["decode_usd_per_million_output_tokens"]
    assert parts + 1024 / 128 * results["usd_per_million_input_tokens"] == pytest.approx(whole)
