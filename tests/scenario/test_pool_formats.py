"""Pools whose weights have different number formats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from perfatlas.cli import main
from perfatlas.verbs.estimate import estimate
from perfatlas.verbs.simulate import simulate

POOLS: Final[dict[str, Any]] = {
    "model": "meta-llama/Llama-3.1-8B",
    "system": "h200_sxm",
    "mode": "disaggregated",
    "decode_batch": 16,
    "isl": 1024,
    "osl": 128,
}


def _told(**fields: Any) -> Mapping[str, Any]:  # noqa: ANN401 - fields of estimate
    return estimate(**{**POOLS, **fields}).results


def test_each_pool_has_the_times_and_the_memory_of_its_format() -> None:
    plain, reduced, mixed = _told(), _told(format="fp8"), _told(prefill_format="fp8")
    assert mixed["tpot_s"] == plain["tpot_s"] > reduced["tpot_s"]
    # the first token waits for a decode step too
    assert reduced["ttft_s"] < mixed["ttft_s"] < plain["ttft_s"]
    weights = [
        one["prefill_memory"]["weights_bytes"] / one["memory"]["weights_bytes"]
        for one in (plain, reduced, mixed)
    ]
    assert weights[:2] == [1.0, 1.0]
    assert 0.5 < weights[2] < 0.6  # the embedding stays in 16 bits


def test_pools_of_two_formats_are_simulated(capsys: pytest.CaptureFixture[str]) -> None:
    asked = {n: v for n, v in POOLS.items() if n != "decode_batch"}
    asked |= {"request_rate": 4.0, "num_requests": 40, "prefill_format": "fp8"}
    found = simulate(**asked)
    assert found.answer.scenario["prefill_format"] == "fp8_dynamic"
    slower = simulate(**{**asked, "prefill_format": "bf16"}).results
    assert found.results["ttft_s"]["mean"] < slower["ttft_s"]["mean"]
    words = [f"--{n.replace('_', '-')}={v}" for n, v in {**POOLS, "prefill_format": "fp8"}.items()]
    assert main(["estimate", *words]) == 0
    assert "prefill fp8_dynamic, decode bf16" in " ".join(capsys.readouterr().out.split())
