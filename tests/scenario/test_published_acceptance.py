"""Drafts without a given probability are accepted by the published curve of the model."""

from __future__ import annotations

from typing import Any, Final

import pytest

from perfatlas.answer import Answer
from perfatlas.networks import acceptance_curves
from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.fields import FIELD_NAMES
from perfatlas.verbs.catalog.facts import model_facts
from perfatlas.verbs.estimate import estimate, estimate_table
from perfatlas.verbs.search import search
from perfatlas.verbs.simulate import simulate

GLM: Final[dict[str, Any]] = {"model": "zai-org/GLM-5.2-FP8", "system": "b300_sxm", "tp": 8}
LENGTHS: Final = {"isl": 256, "osl": 257}


def note_of(answer: Answer) -> str:
    (note,) = (text for text in answer.evidence.assumptions if text.startswith("acceptance of"))
    return note


@pytest.mark.parametrize("depth", [1, 3, 8])
def test_the_curve_is_the_default_of_each_depth(depth: int) -> None:
    curve, *_ = acceptance_curves(GLM["model"])
    asked = {**GLM, **LENGTHS, "speculative_depth": depth}
    default = estimate(**asked)
    each = estimate(**asked, acceptance_by_position=curve.acceptance(depth))
    assert default.results == each.results
    assert estimate(**default.scenario).results == default.results
    note = note_of(default)
    for word in ("GLM-5.2", "MTP", "thinking on", "SPEED-Bench coding", "2026-08-02", "role-play"):
        assert word in note
    assert "extrapolated" not in note


def test_depths_beyond_the_table_are_extrapolated() -> None:
    found = estimate(**GLM, speculative_depth=9)
    assert "extrapolated beyond 8 drafts" in note_of(found)


def test_a_drafter_that_the_checkpoint_does_not_hold_is_stated() -> None:
    for model, words in (
        ("MiniMaxAI/MiniMax-M3", "EAGLE3, a separate model and not the MTP layers"),
        ("nvidia/Kimi-K2.5-NVFP4", "EAGLE3, a separate model and not a part"),
    ):
        asked = {**GLM, "model": model}
        assert words in note_of(estimate(**asked, speculative_depth=2))
    assert "separate" not in note_of(estimate(**GLM, speculative_depth=2))


def test_a_given_probability_replaces_the_curve() -> None:
    given = estimate(**GLM, speculative_depth=2, speculative_acceptance=0.5)
    assert not any(text.startswith("acceptance of") for text in given.evidence.assumptions)


def test_tables_simulations_and_searches_use_the_curve() -> None:
    asked = {**GLM, **LENGTHS, "speculative_depth": 3}
    static = estimate(**asked, batch=8).results["tpot_s"]
    table = estimate_table({name: [value] for name, value in {**asked, "batch": 8}.items()})
    assert table.columns["tpot_s"][0] == pytest.approx(static, rel=1e-13)
    chances = acceptance_curves(GLM["model"])[0].acceptance(3)
    load: dict[str, Any] = {**asked, "concurrency": 8, "num_requests": 64}
    each = simulate(**load, acceptance_by_position=chances)
    assert simulate(**load).results == each.results

    searched = {name: value for name, value in asked.items() if name != "tp"}
    plans = search(**searched, gpus=8, concurrency=8, num_simulated=0, num_plans=50).results[
        "plans"
    ]
    best = next(row for row in plans if row.get("speculative_depth"))
    sizes = {name: value for name, value in best.items() if name in FIELD_NAMES and value}
    alone = estimate(**{**searched, **sizes, "mode": "aggregated"})
    assert best["tpot_s"] == pytest.approx(alone.results["tpot_s"], rel=1e-12)


def test_the_seed_matters_where_the_curve_draws() -> None:
    load: dict[str, Any] = {**GLM, **LENGTHS, "concurrency": 2, "num_requests": 8}
    runs = [simulate(**load, speculative_depth=1, seed=seed) for seed in (1, 2)]
    assert runs[0].results["tpot_s"] != runs[1].results["tpot_s"]


def test_models_without_a_curve_are_refused_and_those_with_one_are_named() -> None:
    for model in ("meta-llama/Llama-3.1-8B", "zai-org/GLM-5.2-FP8{layers=30}"):
        asked = {**GLM, "model": model}
        with pytest.raises(InvalidSpecError, match=r"needs speculative_acceptance.*GLM-5.2, Kimi"):
            estimate(**asked, speculative_depth=3)
    mixed = estimate_table(
        {"model": ["meta-llama/Llama-3.1-8B", GLM["model"], None, 5]}
        | {"system": [GLM["system"]] * 4, "tp": [8] * 4, "speculative_depth": [2] * 4}
    )
    assert [bool(error) for error in mixed.columns["error"]] == [True, False, True, True]


def test_the_catalog_shows_the_curves_of_a_model() -> None:
    rows = model_facts("MiniMaxAI/MiniMax-M3")["draft_acceptance"]
    assert [row["drafter"] for row in rows] == ["EAGLE3", "EAGLE3", "EAGLE3, GQA"]
    assert rows[0]["tokens_per_step"][:2] == [1.78, 2.38]
    assert rows[0]["acceptance_by_position"][0] == pytest.approx(0.78)
    assert "draft_acceptance" not in model_facts("meta-llama/Llama-3.1-8B")
