"""Fields without effect in a mode, or that contradict another, are refused; None is unset."""

from __future__ import annotations

from typing import Any

import pytest

from perfatlas.quantities import InvalidSpecError
from perfatlas.verbs.estimate import estimate, estimate_table, frontier

BASE: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-70B-Instruct",
    "system": "h200_sxm",
    "tier": "bound",
    "tp": 8,
}
POOLS = {**BASE, "mode": "disaggregated"}
ACCEPTED: list[dict[str, Any]] = [
    {**POOLS, "prefill_tp": 4, "gpus": 12},
    {**POOLS, "prefill_tp": 4, "prefill_workers": 2, "decode_workers": 3, "gpus": 32},
    {**POOLS, "engine": "sglang", "prefill_tp": 4, "prefill_pp": 2, "decode_pp": 2, "gpus": 24},
    {**POOLS, "dp": 1, "batch": None, "decode_batch": 8, "concurrency": 8},
    {**BASE, "prefill_tp": None, "decode_batch": "", "batch": 4, "max_num_seqs": 4},
    {**BASE, "mode": "aggregated", "concurrency": 8, "max_num_seqs": 4},
]


@pytest.mark.parametrize("fields", ACCEPTED)
def test_accepted(fields: dict[str, Any]) -> None:
    gpus = estimate(**fields).results["gpus"]
    assert gpus == fields.get("gpus", gpus)
    assert estimate_table({n: [v] for n, v in fields.items()}).columns["error"] == [""]


def test_attention_ranks_share_a_batch() -> None:
    fields: dict[str, Any] = {
        "model": "deepseek-ai/DeepSeek-V3",
        "system": "b300_sxm",
        "tier": "bound",
        "attention_dp": 8,
        "max_num_seqs": 4,
    }
    assert estimate(**fields, batch=32).results["tpot_s"] > 0
    with pytest.raises(InvalidSpecError, match="at most 32 per replica"):
        estimate(**fields, batch=33)


def test_a_frontier_ends_where_memory_makes_requests_queue() -> None:
    fields = {**BASE, "isl": 30_000, "osl": 1000, "mode": "aggregated"}
    last = frontier(**fields).columns["batch"][-1]
    assert 1 < last < 1024
    said = "run concurrently"
    assert not any(said in w for w in estimate(**fields, concurrency=last).warnings)
    assert any(said in w for w in estimate(**fields, concurrency=last + 1).warnings)


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"concurrency": 64}, {"batch": 64, "dp": 1}),
        ({"concurrency": 64, "dp": 4}, {"batch": 16, "dp": 4}),
        ({"concurrency": 65, "dp": 4}, {"concurrency": 65}),
        ({"concurrency": 2, "dp": 4}, {"concurrency": 2}),
        ({"dp": 4}, {"batch": 1}),
        ({"mode": "aggregated", "concurrency": 64}, {"concurrency": 64}),
        (
            {
                "mode": "disaggregated",
                "method": "formula",
                "concurrency": 64,
                "decode_workers": 4,
                "prefill_tp": 4,
            },
            {
                "dp": 1,
                "prefill_tp": 4,
                "prefill_workers": 1,
                "prefill_batch": 1,
                "decode_tp": 8,
                "decode_workers": 4,
                "decode_batch": 16,
                "gemm_format": "bf16",
                "kv_format": "bf16",
                "attention_format": "bf16",
            },
        ),
        (
            {"mode": "disaggregated", "method": "formula", "concurrency": 2, "decode_workers": 4},
            {"decode_batch": 1},
        ),
    ],
)
def test_the_resolved_scenario_asks_the_same(fields: dict[str, Any], shown: dict[str, Any]) -> None:
    answer = estimate(**{**BASE, **fields})
    assert shown.items() <= answer.scenario.items()
    assert estimate(**answer.scenario).results == answer.results
    assert ("batch" in answer.scenario) != ("concurrency" in answer.scenario)
