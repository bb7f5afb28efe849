from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfatlas.scenario.fields import FIELD_NAMES
from perfatlas.verbs.estimate import estimate_table

if TYPE_CHECKING:
    from types import ModuleType

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def scenarios(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("scenarios")


def test_the_table_is_seeded(scenarios: ModuleType) -> None:
    assert scenarios.scenario_table(50, 3) == scenarios.scenario_table(50, 3)
    assert scenarios.scenario_table(50, 3) != scenarios.scenario_table(50, 4)


def test_the_table_is_varied(scenarios: ModuleType) -> None:
    table = scenarios.scenario_table(1_000, 1)
    assert len(table["model"]) == 1_000
    assert scenarios.distinct_rows(table) >= 900
    assert set(table) <= set(FIELD_NAMES)
    assert len(set(table["model"])) == len(scenarios.MODELS)
    assert set(scenarios.MEASURED) <= set(table["system"])


def test_most_of_the_table_has_an_answer(scenarios: ModuleType) -> None:
    answer = estimate_table(scenarios.scenario_table(40, 7))
    assert answer.columns["error_code"].count("") >= 30
    assert answer.results["distinct_shapes"] <= answer.results["operators_priced"]


def test_matrix_products_are_distinct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    rows = importlib.import_module("kernel_rate").distinct_gemms(5_000, 1)
    assert rows.shape == (5_000, 3)
    assert np.unique(rows, axis=0).shape == (5_000, 3)
