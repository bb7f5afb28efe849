"""The closed form and the simulation of one deployment agree, or the answer says why."""

from __future__ import annotations

from typing import Any

import pytest

from perfatlas.verbs.estimate import estimate
from tests.examples import few

MODEL: dict[str, Any] = {"model": "meta-llama/Llama-3.1-8B", "system": "h200_sxm"}
MODES: dict[str, dict[str, Any]] = {
    "aggregated": {"mode": "aggregated"},
    "disaggregated": {"mode": "disaggregated"},
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
@pytest.mark.parametrize(("isl", "osl"), few([(100, 60), (9000, 20)], every=2))
def test_one_request_in_flight(engine: str, mode: str, isl: int, osl: int) -> None:
    """Nothing queues: the methods may differ by the start and end of the decode alone."""
    asked = {**MODEL, **MODES[mode], "engine": engine, "isl": isl, "osl": osl, "concurrency": 1}
    formula, simulated = (
        estimate(**asked, method=method).results for method in ("formula", "simulate")
    )
    for name in ("ttft_s", "tpot_s"):
        assert formula[name] == pytest.approx(simulated[name], rel=0.05)
    assert formula["memory"]["kv_capacity_tokens"] == simulated["memory"]["kv_capacity_tokens"]


def test_the_latency_of_requests_that_queue_has_no_upper_end() -> None:
    asked = {**MODEL, "mode": "aggregated", "isl": 2048, "osl": 1, "method": "formula"}
    queued, served = (estimate(**asked, concurrency=number) for number in (64, 4))
    simulated = estimate(**{**asked, "method": "simulate"}, concurrency=64).results
    # steps of 8,192 tokens hold 4 prompts: 16 steps until all clients have had one
    assert simulated["request_latency_s"] > 14 * queued.results["request_latency_s"]
    assert queued.results["request_latency_s_high"] is None
    assert served.results["request_latency_s_high"] > served.results["request_latency_s"]
    left_out = "4 run concurrently"
    assert any(
        left_out in one and "request latency do not include" in one for one in queued.warnings
    )
    # their rate is that of the simulation
    rate = "output_tokens_per_s_per_gpu"
    assert queued.results[rate] == pytest.approx(simulated[rate], rel=0.05)


@pytest.mark.parametrize(("isl", "concurrency"), [(2000, 96), (2100, 90)])
def test_prompts_longer_than_the_rest_of_a_step_keep_their_time(isl: int, concurrency: int) -> None:
    """A step of 2,048 tokens has no room for a whole prompt; the next one shares its last step."""
    asked = {**MODEL, "mode": "aggregated", "isl": isl, "osl": 100, "concurrency": concurrency}
    asked["max_num_batched_tokens"] = 2048
    formula, simulated = (
        estimate(**asked, method=method).results for method in ("formula", "simulate")
    )
    for name in ("tpot_s", "output_tokens_per_s_per_gpu"):
        assert formula[name] == pytest.approx(simulated[name], rel=0.04)
