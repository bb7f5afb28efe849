"""Settings of a scheduler that runs prompts first, in closed forms and simulations."""

from __future__ import annotations

from typing import Any

import pytest

import perfatlas

ASKED: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "system": "h100_sxm",
    "engine": "sglang",
    "isl": 1024,
    "osl": 256,
}
FORMULA: dict[str, Any] = {"mode": "aggregated", "method": "formula"}
SPREAD: dict[str, Any] = {"length_distribution": "uniform", "length_spread": 0.3}


def test_an_interval_of_reads_delays_prompts_as_the_simulation_does() -> None:
    asked = {**ASKED, "concurrency": 4, "scheduler_recv_interval": 30}
    found = perfatlas.estimate(**asked, **FORMULA).results
    run = perfatlas.simulate(**asked, **SPREAD, num_requests=400).answer.results
    assert found["ttft_s"] == pytest.approx(run["ttft_s"]["mean"], rel=0.1)
    assert found["tpot_s"] == pytest.approx(run["tpot_s"]["mean"], rel=0.02)
    plain = perfatlas.estimate(**{**asked, "scheduler_recv_interval": 1}, **FORMULA).results
    # half of 29 further steps of 7 ms
    assert found["ttft_s"] - plain["ttft_s"] == pytest.approx(14.5 * found["tpot_s"], rel=0.1)


def test_mixed_chunks_add_less_to_decodes_than_prompts_of_their_own() -> None:
    asked = {**ASKED, "concurrency": 32}
    plain, mixed = (
        perfatlas.estimate(**asked, **FORMULA, mixed_chunk=value).results for value in (False, True)
    )
    run = perfatlas.estimate(**asked, mode="aggregated", method="simulate", mixed_chunk=True)
    assert mixed["tpot_s"] < 0.97 * plain["tpot_s"]
    assert mixed["tpot_s"] == pytest.approx(run.results["tpot_s"], rel=0.05)


@pytest.mark.parametrize("osl", [1, 2, 64])
def test_prompts_do_not_exceed_the_capacity_of_prefill(osl: int) -> None:
    asked = {**ASKED, "isl": 2048, "osl": osl, "concurrency": 64, "mode": "aggregated"}
    found, run = (
        perfatlas.estimate(**asked, method=method).results for method in ("formula", "simulate")
    )
    rate = found["output_tokens_per_s_per_gpu"]
    assert rate == pytest.approx(run["output_tokens_per_s_per_gpu"], rel=0.02)
