"""The tier of a row of a table is that of the same scenario asked alone."""

from __future__ import annotations

from typing import Any

from perfatlas.verbs.estimate.answer import estimate
from perfatlas.verbs.estimate.batch_frontier import frontier
from perfatlas.verbs.estimate.table import estimate_table

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
ROWS: list[dict[str, Any]] = [
    {"system": "h200_sxm", "tier": "auto"},
    {"system": "h200_sxm", "tier": "bound"},
    {"system": "mi300x", "tier": "auto"},
    {"system": "h200_sxm", "tier": "auto", "mode": "disaggregated", "decode_system": "mi300x",
     "method": "formula", "concurrency": 8},
    {"system": "nowhere", "tier": "auto"},
]  # fmt: skip


def test_a_row_has_the_tier_of_its_answer() -> None:
    names = dict.fromkeys(name for row in ROWS for name in row)
    table = {name: [row.get(name) for row in ROWS] for name in names}
    columns = estimate_table({"model": [MODEL] * len(ROWS), **table}).columns
    alone = [estimate(model=MODEL, **row).evidence.tier for row in ROWS[:-1]]
    assert columns["tier"] == [*alone, None]
    assert columns["tier"][:3] == ["physics", "bound", "bound"]
    assert columns["ttft_s_high"][1] is None  # a bound has no upper end
    assert columns["ttft_s_low"][1] == columns["ttft_s"][1]


def test_a_frontier_has_one_tier_in_its_evidence() -> None:
    found = frontier(model=MODEL, system="h200_sxm", tier="bound")
    assert found.answer.evidence.tier == "bound"
    assert "tier" not in found.results["frontier"][0]
