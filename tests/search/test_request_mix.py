"""Searches over requests of several lengths: equal classes, traces, simulations, refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from perfatlas.inference import RequestClasses
from perfatlas.verbs.search import search

SMALL: Final[dict[str, Any]] = {
    "model": "meta-llama/Llama-3.1-8B",
    "system": "h200_sxm",
    "gpus": 2,
    "max_num_batched_tokens": 8192,
    "num_simulated": 0,
}
MIX: Final = ("16000:200:0.2", "1000:800:0.8")


def test_mean_and_running_lengths_by_hand() -> None:
    classes = RequestClasses(
        isl_K=np.array([16000.0, 1000.0]),
        osl_K=np.array([200.0, 800.0]),
        weight_K=np.array([0.2, 0.8]),
    )
    # 0.2 x 16000 + 0.8 x 1000; 0.2 x 200 + 0.8 x 800
    assert classes.mean == pytest.approx((4000.0, 680.0))
    # 40 and 640 of 680 output tokens: 1/17 x 16000 + 16/17 x 1000; 1/17 x 200 + 16/17 x 800
    assert classes.running == pytest.approx((32000.0 / 17.0, 13000.0 / 17.0))
    assert classes.prompts().mean == (4000.0, 1.0)


@pytest.mark.parametrize("mode", ["aggregated", "disaggregated"])
def test_equal_classes_are_one_class(mode: str) -> None:
    one = search(**SMALL, mode=mode, isl=2000, osl=200).columns
    two = search(**SMALL, mode=mode, request_mix=("2000:200:3", "2000:200")).columns
    for name, cells in one.items():
        if isinstance(cells[0], float):
            assert two[name] == pytest.approx(cells, rel=1e-12, nan_ok=True), name
        else:
            assert two[name] == cells, name


def test_a_trace_of_one_length_is_a_search_with_its_cached_prefix(tmp_path: Path) -> None:
    ids = [[0, 1, 2, 3], [0, 1, 14, 15], [0, 1, 24, 25]]
    row = {"timestamp": 0, "input_length": 2048, "output_length": 100}
    trace = tmp_path / "trace.jsonl"
    trace.write_text("".join(json.dumps({**row, "hash_ids": one}) + "\n" for one in ids))
    asked = {**SMALL, "tp": 2, "concurrency": 16, "num_simulated": 1}
    of_trace = search(**asked, lengths_from=str(trace), request_format="mooncake")
    # 2 blocks of 512 tokens of the second and the third prompt: 2/3 of 1,024
    given = search(**asked, isl=2048, osl=100, prefix=683)
    for caching in (True, False):
        first, second = (
            found.columns["output_tokens_per_s_per_gpu"][
                found.columns["prefix_caching"].index(caching)
            ]
            for found in (of_trace, given)
        )
        assert first == pytest.approx(second, rel=2e-3)
    formula = of_trace.columns["output_tokens_per_s_per_gpu"][
        of_trace.columns["prefix_caching"].index(True)
    ]
    for found in (of_trace, given):
        (plan, *_) = found.results["plans"]
        assert (plan["method"], plan["prefix_caching"]) == ("simulate", True)
        assert plan["output_tokens_per_s_per_gpu"] == pytest.approx(formula, rel=0.02)


def test_a_trace_is_its_classes(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    rows = ["16000,200"] * 2 + ["1000,800"] * 8
    lines = (f"{place},{row}" for place, row in enumerate(rows))
    trace.write_text("arrival_s,isl,osl\n" + "\n".join(lines) + "\n")
    given = search(**SMALL, request_mix=MIX)
    read = search(**SMALL, lengths_from=str(trace))
    for name in ("ttft_s", "tpot_s_high", "output_tokens_per_s_per_gpu"):
        assert read.columns[name] == pytest.approx(given.columns[name], rel=1e-12)
    assert "isl" not in given.answer.scenario


def test_closed_forms_agree_with_a_simulation_of_the_mix() -> None:
    """The mean of the lengths, 4,000 + 680, is off by a fifth: long outputs run longer."""
    asked = {**SMALL, "tp": 2, "concurrency": 64}
    formula = search(**asked, request_mix=MIX).results["plans"][0]
    simulated = search(**{**asked, "num_simulated": 1}, request_mix=MIX).results["plans"][0]
    equal = search(**asked, isl=4000, osl=680).results["plans"][0]
    assert simulated["method"] == "simulate"
    for name in ("tpot_s", "request_latency_s", "output_tokens_per_s_per_gpu"):
        assert formula[name] == pytest.approx(simulated[name], rel=0.03), name
    assert abs(equal["tpot_s"] / simulated["tpot_s"] - 1.0) > 0.05
