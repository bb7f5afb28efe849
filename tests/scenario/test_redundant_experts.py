"""Redundant experts: memory, divisibility, loads, and the two modes of DeepEP."""

from __future__ import annotations

from typing import Any, Final

import pytest

from perfatlas.quantities import InvalidSpecError
from perfatlas.verbs.estimate import estimate

WIDE: Final[dict[str, Any]] = {
    "model": "deepseek-ai/DeepSeek-V3",
    "system": "gb200",
    "mode": "aggregated",
    "method": "formula",
    "attention_dp": 64,
    "ep": 64,
    "concurrency": 2048,
    "isl": 4000,
    "osl": 500,
}


def _told(**fields: Any) -> Any:  # noqa: ANN401 - results by name
    return estimate(**{**WIDE, **fields}).results


def test_each_rank_holds_its_part_of_the_copies() -> None:
    plain, copied = _told(), _told(redundant_experts=64)
    added = copied["memory"]["weights_bytes"] - plain["memory"]["weights_bytes"]
    # one more expert a rank in 58 layers: 3 x 7,168 x 2,048 weights of 8 bits, with a scale of 4
    # bytes for each block of 128 x 128
    assert added == pytest.approx(58 * 3 * 7168 * 2048 * (1 + 4 / 128**2), rel=1e-9)
    assert copied["tpot_s"] == pytest.approx(plain["tpot_s"], rel=0.02)


def test_copies_let_ranks_divide_the_experts_of_a_rack() -> None:
    rack = {"attention_dp": 72, "ep": 72, "concurrency": 2304}
    with pytest.raises(InvalidSpecError, match=r"num_experts = 256 .*ep"):
        _told(**rack)
    assert _told(**rack, redundant_experts=32)["tpot_s"] > 0.0  # 288 slots, four a rank
    with pytest.raises(InvalidSpecError, match="copies = 272 "):
        _told(**rack, redundant_experts=16)


def test_copies_balance_unequally_popular_experts() -> None:
    skewed = _told(expert_distribution="power_law_1.2")
    placed = _told(expert_distribution="power_law_1.2", redundant_experts=64)
    assert placed["tpot_s"] < skewed["tpot_s"]
    assert placed["tpot_s"] == _told(redundant_experts=64)["tpot_s"]
    answer = estimate(**WIDE, redundant_experts=64)
    assert any("64 redundant experts, 320 of each" in one for one in answer.evidence.assumptions)


def test_modes_of_deepep_run_the_same_kernels_in_both_phases() -> None:
    wide = {"system": "h200_sxm", "attention_dp": 32, "ep": 32, "concurrency": 512, "osl": 4000}
    names = ("deepep", "deepep_normal", "deepep_low_latency")
    by_phase, normal, low = (_told(**wide, expert_exchange=name) for name in names)
    # normal kernels send one copy to each of the 4 nodes, low-latency ones one to each of 32 ranks
    assert normal["ttft_s"] < low["ttft_s"]
    assert normal["tpot_s"] < by_phase["tpot_s"] < low["tpot_s"]
    rack = {**wide, "system": "gb200"}  # one scale-up domain
    both = [_told(**rack, expert_exchange=name)["tpot_s"] for name in names]
    assert both[0] == both[1] == both[2]
