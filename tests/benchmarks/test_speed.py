from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfatlas.scenario.fields import FIELD_NAMES
from perfatlas.verbs.estimate import estimate_table

if TYPE_CHECKING:
    from types import ModuleType

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
TINY = (
    *("--rows", "12", "--shapes", "300", "--questions", "20"),
    *("--runs", "1", "--table-runs", "1", "--command-runs", "1"),
)


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


@pytest.mark.study
def test_the_harness_runs_and_names_absent_peers() -> None:
    words = [sys.executable, str(BENCHMARKS / "speed.py"), "--json", *TINY]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:] + done.stdout[-2000:]
    rows = json.loads(done.stdout)["rows"]
    absent = [row for row in rows if row["value"] is None]
    assert {row["section"] for row in rows} >= {"commands", "catalogs", "GEMM pricing"}
    assert all(row["note"].startswith("not run: ") for row in absent)
    assert {row["name"].partition(": ")[2] for row in absent} == {"aiconfigurator", "llm-analysis"}


@pytest.mark.study
def test_the_simulators_are_timed_beside_absent_peers(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    few = ("--requests", "200", "--replicas", "2", "--jobs", "200", "--runs", "1")
    words = [sys.executable, str(BENCHMARKS / "simulators.py"), "--json", "--page", str(page), *few]
    words += ["--simpy-python", "no-such-python"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    rows = json.loads(done.stdout)["rows"]
    absent = [row["name"] for row in rows if row["value"] is None]
    assert absent == [name for name in (row["name"] for row in rows) if "SimPy" in name]
    assert all(row["value"] > 0 for row in rows if row["name"] not in absent)
    told = page.read_text("utf-8")
    assert all(row["name"] in told for row in rows)


@pytest.mark.study
def test_the_scheduler_in_simpy_agrees_to_the_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    bench = importlib.import_module("schedule_rate")
    jobs = bench.trace(3_000, load=1.2)
    note = bench.simpy_row(sys.executable, jobs, bench.Policy(backfill="easy")).note
    theirs, ours = note.split(": mean wait ")[1].split("; perfatlas on these jobs ")
    wait, backfilled = theirs.split(" s, ")
    assert ours.startswith(f"{wait} s, {backfilled.removesuffix(' backfilled')}, at ")
    assert int(backfilled.split()[0].replace(",", "")) > 0
