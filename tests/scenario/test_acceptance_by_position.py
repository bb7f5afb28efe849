"""Drafts that are accepted with another probability at each position of a step."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

from perfatlas.step.columns import decode_steps
from perfatlas.verbs.estimate import estimate, estimate_table
from perfatlas.verbs.search import search
from perfatlas.verbs.simulate import simulate

DRAFTED: Final[dict[str, Any]] = {
    "model": "meta-llama/Llama-3.1-8B",
    "system": "h200_sxm",
    "speculative_depth": 2,
    "isl": 256,
    "osl": 257,
}


def test_tokens_of_a_step_by_hand() -> None:
    # 1 token always, 2 with 0.9, 3 with 0.9 x 0.5: 2.35 in the mean
    steps = decode_steps((0.9, 0.5), np.array([1.0, 2.0, 2350.0]))
    assert steps[:2].tolist() == pytest.approx([1.0, 1.1])
    assert steps[2] == pytest.approx(1000.0, rel=1e-3)


def test_equal_positions_are_the_single_acceptance() -> None:
    alone = estimate(**DRAFTED, speculative_acceptance=0.7)
    each = estimate(**DRAFTED, acceptance_by_position="0.7,0.7")
    assert each.results == alone.results
    assert each.scenario["acceptance_by_position"] == (0.7, 0.7)
    assert estimate(**each.scenario).results == alone.results


def test_later_positions_matter_less_and_the_simulation_agrees() -> None:
    first, second = (
        estimate(**DRAFTED, batch=8, acceptance_by_position=given).results["tpot_s"]
        for given in ("0.9,0.5", "0.5,0.9")
    )
    assert first < second
    load: dict[str, Any] = {"concurrency": 8, "num_requests": 64}
    found = simulate(**DRAFTED, **load, acceptance_by_position=(0.9, 0.5)).results
    assert found["tpot_s"]["mean"] == pytest.approx(first, rel=0.04)
    table = estimate_table({n: [v] for n, v in {**DRAFTED, "batch": 8}.items()} | {
        "acceptance_by_position": ["0.9,0.5"]}).columns  # fmt: skip
    assert table["tpot_s"][0] == pytest.approx(first, rel=1e-13)


def test_a_search_uses_the_first_positions_of_fewer_drafts() -> None:
    asked = {n: v for n, v in DRAFTED.items() if n != "batch"}
    answer = search(**asked, gpus=1, acceptance_by_position="0.9,0.5", num_simulated=0, num_plans=5)
    one = next(row for row in answer.results["plans"] if row.get("speculative_depth") == 1)
    alone = estimate(
        **{**asked, "speculative_depth": 1, "speculative_acceptance": 0.9},
        mode="aggregated",
        method="formula",
        concurrency=one["concurrency"],
        max_num_batched_tokens=one["max_num_batched_tokens"],
    )
    assert one["tpot_s"] == pytest.approx(alone.results["tpot_s"], rel=1e-12)
