"""Which designs are kept, what they are expected to lose, and the search that measures."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from perfatlas.formats import get_format
from perfatlas.hardware import resolve_system
from perfatlas.lab.tune import (
    MeasuredSearch,
    Question,
    Tuning,
    launch_table,
    search_measured,
    tune,
    vllm_experts,
)
from perfatlas.quantities import InfeasibleError, UnsupportedError

LAYER = {"hidden": 2048, "intermediate": 768, "experts": 128, "top_k": 8, "ep": 1, "moe_tp": 1}


def _tuned(system: str = "h100_sxm", name: str = "fp8_block", **changed: int) -> Tuning:
    """Return the tuning of a layer of experts, with other sizes."""
    shape = {**LAYER, "tokens": 96, **changed}
    device = resolve_system(system).device
    question = Question(
        kernel="grouped_gemm", device=device, number_format=get_format(name), shape=shape
    )
    return tune(question, compiles=False)


def test_defaults_of_vllm() -> None:
    """Values of get_default_config of vLLM 0.32: tokens at the edges of its rules."""
    rule = {
        tokens: vllm_experts(tokens, 128, fp8=True, block_scaled=True) for tokens in (1, 64, 65)
    }
    assert [(row["bm"], row["bn"], row["stages"]) for row in rule.values()] == [
        (16, 64, 4),
        (16, 128, 3),
        (64, 128, 3),
    ]
    wide = {
        tokens: vllm_experts(tokens, 128, fp8=False, block_scaled=False) for tokens in (32, 512)
    }
    assert (wide[32]["bm"], wide[32]["warps"], wide[512]["bm"], wide[512]["bk"]) == (16, 4, 64, 64)


def test_the_default_and_few_hypotheses_are_kept() -> None:
    found = _tuned()
    rows = found.rows()
    assert len(rows) == 16
    assert sum(row["default"] for row in rows) == 1
    assert [row["time_s"] for row in rows] == sorted(row["time_s"] for row in rows)
    tiles = [(row["bm"], row["bn"], row["bk"]) for row in rows if not row["default"]]
    assert max(map(tiles.count, tiles)) <= 2  # designs of one tile are one hypothesis
    for row in rows:
        assert row["time_s_low"] < row["time_s"] < row["time_s_high"]
        assert row["speedup_if_twice_as_fast"] >= 1.0


def test_more_measurements_lose_less() -> None:
    regret = _tuned().selection.regret
    assert regret[1] >= regret[8] >= regret[16] >= 0.0


def test_a_jump_of_the_default_is_seen() -> None:
    """H20 with experts of 256: vLLM takes 64 rows from 96 tokens on, and loses a third there.

    Measured (vllm-project/vllm pull request 45142): no gain at 64 tokens, 1.49 at 96.
    """
    few, many = (
        _tuned("h20", tokens=tokens, experts=512, top_k=10, intermediate=256).selection.gain
        for tokens in (64, 96)
    )
    assert few < 1.1
    assert many > few


def test_experts_have_the_file_of_engines() -> None:
    table = launch_table([_tuned(tokens=tokens) for tokens in (1, 96)])
    name = "E=128,N=768,device_name=NVIDIA_H100_80GB_HBM3,dtype=fp8_w8a8,block_shape=[128,128].json"
    assert list(table) == [name]
    assert list(table[name]) == ["1", "96"]
    assert set(table[name]["1"]) == {
        *("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M"),
        *("num_warps", "num_stages"),
    }


def test_every_rejected_design_has_a_reason() -> None:
    found = _tuned()
    rejected = sum(found.priced.rejected.values())
    assert rejected + found.selection.legal == len(found.priced.designs)
    assert any("share a scale" in reason for reason in found.priced.rejected)


def test_refusals() -> None:
    with pytest.raises(UnsupportedError, match="no kernels in format = mxfp4"):
        _tuned(name="mxfp4")
    with pytest.raises(UnsupportedError, match="kernels of GPUs, and tpu_v5e is none"):
        _tuned("tpu_v5e")
    small = "h100_sxm{device.shared_memory=2KiB}"
    with pytest.raises(InfeasibleError, match="no design of grouped_gemm can be launched"):
        _tuned(small, name="bf16")


def _search(spread: float = 0.3) -> tuple[MeasuredSearch, np.ndarray]:
    """Return a search whose predictions are wrong about large sizes, and the true times."""
    sizes = np.array(list(itertools.product(range(4, 9), range(4, 9))), float)
    true = 1e-5 * np.exp(((sizes - [6, 5]) ** 2).sum(1) / 8)
    predicted = np.log(true) + 0.6 * (sizes[:, 0] > 5)
    return MeasuredSearch(log_time_D=predicted, sizes_DS=sizes, spread=spread), true


def test_measured_designs_correct_their_neighbours() -> None:
    search, true = _search()
    search_measured(
        search, [0, 1], lambda place: float(true[place]), lambda: len(search.places) < 12
    )
    assert search.best == int(np.argmin(true))
    assert len(search.places) == len(set(search.places)) <= 12


def test_a_search_keeps_its_budget_and_skips_what_fails() -> None:
    search, true = _search()
    failing = int(np.argmin(true))

    def time_of(place: int) -> float:
        return math.inf if place == failing else float(true[place])

    search_measured(search, [failing, 0], time_of, lambda: len(search.places) < 5)
    assert len(search.places) <= 5
    assert search.best not in (None, failing)
