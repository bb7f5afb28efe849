"""MFU and MBU of steps, and what a kernel reaches of the peaks."""

from __future__ import annotations

from typing import Any, Final

import pytest

import perfatlas
from perfatlas.hardware import resolve_system

MODEL: Final = "meta-llama/Llama-3.1-8B"
HIDDEN, LAYERS, HEADS, HEAD_DIM, KV_HEADS, VOCABULARY = 4096, 32, 32, 128, 8, 128256
# of a layer: queries and outputs, keys and values, three matrices of the feed-forward part
LAYER: Final = HIDDEN * (2 * HIDDEN + 2 * KV_HEADS * HEAD_DIM + 3 * 14336)
WEIGHTS: Final = LAYERS * LAYER + HIDDEN * VOCABULARY


def estimated(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 - fields of estimate
    asked = {"model": MODEL, "system": "h200_sxm", "isl": 1000, "osl": 200, **fields}
    return dict(perfatlas.estimate(**asked).results)


@pytest.mark.parametrize("batch", [8, 7])  # the graph of a batch of 7 has 8 rows
def test_a_decode_step_by_hand(batch: int) -> None:
    found = estimated(batch=batch, engine="vllm", mode="static")
    device = resolve_system("h200_sxm").device
    kv_len = 1000 + 200 / 2
    attention = 4 * HEADS * HEAD_DIM * kv_len * LAYERS  # scores and values, two FLOP each
    flop = batch * (2 * WEIGHTS + attention)
    read = 2 * WEIGHTS + batch * kv_len * LAYERS * 2 * KV_HEADS * HEAD_DIM * 2
    time_s = found["tpot_s"]
    peak = device.peak_flop_per_s["bf16"]
    assert found["decode_mfu"] == pytest.approx(flop / time_s / peak, rel=0.01)
    assert found["decode_mbu"] == pytest.approx(read / time_s / device.memory_bandwidth, rel=0.01)


def test_a_prefill_uses_arithmetic_and_a_decode_step_bandwidth() -> None:
    found = estimated(batch=8)
    assert 1.0 > found["prefill_mfu"] > 0.4 > found["decode_mfu"] > 0.0
    assert 1.0 > found["decode_mbu"] > 0.4 > found["prefill_mbu"] > 0.0


def test_steps_at_the_bound_use_all_of_one_of_both() -> None:
    ideal = estimated(batch=1, engine="ideal", tier="bound", mode="static")
    assert ideal["decode_mbu"] == pytest.approx(1.0, rel=0.02)
    assert 0.9 < ideal["prefill_mfu"] <= 1.0


def test_two_pools_tell_the_steps_of_each() -> None:
    pools: dict[str, Any] = {"mode": "disaggregated", "method": "formula", "prefill_tp": 2}
    found = estimated(**pools, prefill_batch=1, decode_batch=16)
    alone = estimated(mode="aggregated", method="formula", tp=2, batch=1)
    assert found["prefill_mfu"] == pytest.approx(alone["prefill_mfu"])
    assert found["decode_mbu"] > 0.4


def test_a_product_at_the_bound_reaches_its_peak() -> None:
    asked: dict[str, Any] = {"system": "h200_sxm", "m": 4096, "n": 8192, "k": 8192}
    found = perfatlas.kernel_gemm(**asked, tier="bound").results
    assert found["peak_share"] == pytest.approx(1.0)
    assert found["roofline_share"] == 1.0
    assert found["flop_per_s"] == pytest.approx(
        resolve_system("h200_sxm").device.peak_flop_per_s["bf16"]
    )
    moved = 2 * (8192 * 8192 + 4096 * 8192 + 4096 * 8192)
    assert found["arithmetic_intensity"] == pytest.approx(2 * 4096 * 8192 * 8192 / moved)
    assert found["bytes_per_s"] == pytest.approx(moved / found["time_s"])
    half = perfatlas.kernel_gemm(**asked, tier="bound", clock_ratio=0.5).results
    assert half["peak_share"] == pytest.approx(0.5)
    measured = perfatlas.kernel_gemm(**asked).results
    assert measured["roofline_share"] == pytest.approx(measured["peak_share"])
    assert 0.5 < measured["peak_share"] < 1.0
