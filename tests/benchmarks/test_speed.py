from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from perfatlas.verbs.estimate import estimate_table

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def scenarios(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("scenarios")


def test_most_of_the_table_has_an_answer(scenarios: ModuleType) -> None:
    answer = estimate_table(scenarios.scenario_table(40, 7))
    assert answer.columns["error_code"].count("") >= 30
    assert answer.results["distinct_shapes"] <= answer.results["operators_priced"]
