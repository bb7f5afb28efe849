"""The scenario of an answer is complete: asking exactly it again gives the same answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.vocabulary.questions import ASKED, ESTIMATES, SIMULATIONS, Question, answered, with_files

if TYPE_CHECKING:
    from pathlib import Path

    from perfatlas.answer import Answer

PLAN = ("tp", "pp", "cp", "attention_dp", "dp")
DRAWN_NOT = ("closed loop",)  # whose lengths and arrivals are fixed


@pytest.mark.parametrize("name", ASKED)
def test_answered_scenarios_reproduce_the_answer(name: str) -> None:
    _ask_again(ASKED[name], answered(name))


@pytest.mark.parametrize("name", ["fleet", "work", "schedule", "trace"])
def test_answered_scenarios_with_files_reproduce_the_answer(name: str, tmp_path: Path) -> None:
    asked = with_files(tmp_path)[name]
    scenario = _ask_again(asked, asked.answer())
    assert ("seed" in scenario) == (name != "trace")


def _ask_again(asked: Question, answer: Answer) -> dict[str, Any]:
    """Return the scenario of an answer that is the same when its scenario is asked."""
    first = answer.to_dict()
    scenario: dict[str, Any] = first["scenario"]
    again = asked.answer(**scenario).to_dict()
    assert again["results"] == first["results"]
    assert again["breakdown"] == first["breakdown"]
    return scenario


@pytest.mark.parametrize("name", [*ESTIMATES, *SIMULATIONS])
def test_inference_scenarios_state_engine_mode_plan_and_seed(name: str) -> None:
    scenario = answered(name).scenario
    assert "@" in scenario["engine"]
    assert scenario["mode"] in ("static", "aggregated", "disaggregated")
    if scenario["mode"] == "disaggregated":
        parts = ("tp", "pp", "attention_dp", "workers")
        assert {f"{role}_{part}" for role in ("prefill", "decode") for part in parts} <= set(
            scenario
        )
    elif "replica_kinds" in scenario:
        assert all({"tp", "attention_dp", "dp"} <= set(kind) for kind in scenario["replica_kinds"])
    else:
        assert {*PLAN} - ({"dp"} if "max_replicas" in scenario else set()) <= set(scenario)
    assert ("seed" in scenario) == (name in SIMULATIONS and name not in DRAWN_NOT)
    if name == "experts":
        assert (scenario["ep"], scenario["moe_tp"]) == (1, 4)


def test_a_rate_search_states_the_requested_number_of_requests() -> None:
    answer = answered("largest rate")
    assert answer.scenario["num_requests"] == 200
    assert any("800 were drawn" in text for text in answer.warnings)
