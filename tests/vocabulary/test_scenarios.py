"""The scenario of an answer is complete: it reproduces the answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perfatlas.answer import Answer
from perfatlas.declarations import verb_fields
from perfatlas.networks import is_graph
from perfatlas.scenario.fields import resolved_name
from tests.vocabulary.questions import (
    ASKED,
    ESTIMATES,
    MODEL,
    SIMULATIONS,
    Question,
    answered,
    answered_with_files,
    questions_with_files,
)

PLAN = ("tp", "pp", "cp", "attention_dp", "dp")
DRAWN_NOT = ("closed loop",)  # whose lengths and arrivals are fixed


@pytest.mark.parametrize(
    "name",
    # "fewest replicas" searches by the same rules in a tenth of the time
    [
        pytest.param(
            name, marks=[pytest.mark.study] * (name == "fewest workers" or name.startswith("for "))
        )
        for name in ASKED
    ],
)
def test_answered_scenarios_reproduce_the_answer(name: str) -> None:
    _ask_again(ASKED[name], answered(name))


# the deadline of "work" takes seconds, and its other results are those of "fleet"
@pytest.mark.parametrize(
    "name", ["fleet", pytest.param("work", marks=pytest.mark.study), "schedule", "stream", "trace"]
)
def test_answered_scenarios_with_files_reproduce_the_answer(name: str) -> None:
    scenario = _ask_again(questions_with_files()[name], answered_with_files()[name])
    assert ("seed" in scenario) == (name != "trace")


def _ask_again(asked: Question, answer: Answer) -> dict[str, Any]:
    """Return the scenario of an answer, after checking that it reproduces the answer."""
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
        # a search for workers finds their numbers
        parts = ("tp", "pp", "attention_dp", *(("workers",) if name != "fewest workers" else ()))
        assert {f"{role}_{part}" for role in ("prefill", "decode") for part in parts} <= set(
            scenario
        )
    elif "replica_kinds" in scenario:
        assert all({"tp", "attention_dp", "dp"} <= set(kind) for kind in scenario["replica_kinds"])
    elif "model" in scenario and is_graph(scenario["model"]):
        assert "dp" in scenario  # graphs are copied, not divided
    else:
        # dp is the initial number of an autoscaler, and is what a search for replicas finds
        sized = "max_replicas" in scenario or name == "fewest replicas"
        assert {*PLAN} - ({"dp"} if sized else set()) <= set(scenario)
    assert ("seed" in scenario) == (name in SIMULATIONS and name not in DRAWN_NOT)
    if name == "experts":
        assert (scenario["ep"], scenario["moe_tp"]) == (1, 4)


def test_a_rate_search_states_the_requested_number_of_requests() -> None:
    answer = answered("largest rate")
    assert answer.scenario["num_requests"] == 200
    assert any("800 were drawn" in text for text in answer.warnings)


@pytest.mark.parametrize("name", ASKED)
def test_a_scenario_holds_numbers_and_full_names(name: str) -> None:
    scenario = answered(name).scenario
    verb = answered(name).command.partition(" --find")[0]
    rows = verb_fields(verb)
    for field, value in scenario.items():
        if field in rows and rows[field].number is not None:
            assert isinstance(value, int | float), f"{field} = {value!r}"
        if field in rows and rows[field].catalog in ("systems", "engines", "models"):
            assert value == resolved_name(rows[field].catalog, value), field


@pytest.mark.parametrize(
    ("name", "written", "told"),
    [
        ("gemm", {"system": "H200", "format": "FP8", "kernel_family": "VLLM", "m": "4k"},
         {"system": "h200_sxm", "format": "fp8_static", "m": 4000, "tier": "auto",
          "clock_ratio": 1.0, "kernel_family": "vllm@0.24"}),
        ("attention", {"phase": "PREFILL", "system": "h200{device.tdp=500W}"},
         {"phase": "prefill", "q_len": 1, "num_kv_heads": 8, "kv_format": "bf16",
          "system": "h200_sxm{device.tdp=500W}"}),
        ("moe", {}, {"ep": 1, "moe_tp": 1, "distribution": "uniform", "tier": "auto"}),
        ("collective", {"bytes": "64K", "kernel_family": "NCCL"},
         {"bytes": 65536.0, "kernel_family": "nccl", "format": "bf16"}),
        ("goodput", {"mtti_s": "3h"},
         {"mtti_s": 10800.0, "method": "exact", "detection_s": 0.0, "duration_s": 2592000.0}),
        ("goodput, simulated", {}, {"method": "simulate", "seed": 0, "gpus_per_node": 8}),
        ("spares", {"repair_s": "1 d", "target": "99%"}, {"repair_s": 86400.0, "target": 0.99}),
        ("static", {"system": "H200", "model": "llama-3.1-8b-instruct", "engine": "VLLM"},
         {"system": "h200_sxm", "model": MODEL["model"], "engine": "vllm@0.24"}),
        ("one pool", {"request_rate": "1200/min", "isl": "1k", "system": "H200"},
         {"request_rate": 20.0, "isl": 1000, "system": "h200_sxm"}),
    ],
)  # fmt: skip
def test_a_scenario_tells_what_was_decided(
    name: str, written: dict[str, Any], told: dict[str, Any]
) -> None:
    asked = ASKED[name]
    scenario = asked.answer(**{**asked.fields, **written}).scenario
    assert {field: scenario.get(field) for field in told} == told
    again = asked.answer(**scenario)
    assert again.scenario == scenario


def test_an_infinite_rate_is_asked_again() -> None:
    asked = SIMULATIONS["one pool"]
    first = asked.answer(**{**asked.fields, "request_rate": "inf"})
    scenario = json.loads(json.dumps(first.to_dict()["scenario"], allow_nan=False))
    assert scenario["request_rate"] == "inf"
    assert asked.answer(**scenario).results == first.results
