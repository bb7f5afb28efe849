"""The tier of a row of a table is that of the same scenario asked alone."""

from __future__ import annotations

from typing import Any

import pytest

from perfatlas.answer import step_bounds
from perfatlas.verbs.estimate.answer import estimate, estimate_table
from perfatlas.verbs.estimate.frontiers import frontier

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
ROWS: list[dict[str, Any]] = [
    {"system": "h200_sxm", "tier": "auto"},
    {"system": "h200_sxm", "tier": "bound"},
    {"system": "cpu", "tier": "auto"},
    {"system": "h200_sxm", "tier": "auto", "mode": "disaggregated", "decode_system": "cpu",
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


def test_a_row_says_what_binds_most_of_its_steps() -> None:
    names = dict.fromkeys(name for row in ROWS for name in row)
    table = {name: [row.get(name) for row in ROWS] for name in names}
    table |= {"batch": [None, None, 64, None, None], "isl": [4096] * len(ROWS)}
    columns = estimate_table({"model": [MODEL] * len(ROWS), **table}).columns
    rows = [{name: cells[row] for name, cells in table.items()} for row in range(len(ROWS) - 1)]
    for number, row in enumerate(rows):
        bounds = step_bounds(estimate(model=MODEL, **row).breakdown)
        assert {name: columns[name][number] for name in bounds} == bounds
    assert columns["prefill_bound"] == ["compute"] * 4 + [None]
    assert columns["decode_bound"][:3] == ["memory"] * 3


def test_what_binds_a_step_is_what_takes_most_of_its_time() -> None:
    rows = [
        {"phase": "decode", "bound": "memory", "time_s": 3.0},
        {"phase": "decode", "bound": "latency", "time_s": 2.0},
        {"phase": "decode", "bound": "latency", "time_s": 2.0},
        {"phase": "2 x h100 prefill", "bound": "compute", "time_s": 1.0},
    ]
    assert step_bounds(rows) == {"decode_bound": "latency", "2_x_h100_prefill_bound": "compute"}
    assert step_bounds([]) == {}


@pytest.mark.parametrize("tier", ["auto", "bound"])
def test_every_point_of_a_frontier_has_its_tier_and_bounds(tier: str) -> None:
    found = frontier(model=MODEL, system="h200_sxm", tier=tier, isl=64)
    rows = found.results["frontier"]
    assert {row["tier"] for row in rows} == {found.answer.evidence.tier}
    assert rows[0]["decode_bound"] == "memory"
    alone = estimate(model=MODEL, system="h200_sxm", tier=tier, isl=64, batch=rows[-1]["batch"])
    bounds = step_bounds(alone.breakdown)
    assert {name: rows[-1][name] for name in bounds} == bounds
