"""Published training runs as questions, and the page of their scores."""

from __future__ import annotations

import pytest

from perfatlas.lab.validate.training.page import page_text
from perfatlas.lab.validate.training.runs import published_runs, rules
from perfatlas.lab.validate.training.scores import error_of, part_scores


def test_every_run_is_asked_or_refused_with_a_reason() -> None:
    runs = published_runs()
    assert len(runs) == 556
    assert all((run.question is None) == bool(run.refused) for run in runs)
    for run in runs:
        if run.question is not None:
            assert run.question.layouts.gpus[0] == float(run.run["n_gpus"])


def test_errors_are_of_step_times() -> None:
    rows = [{"error": 0.1, "inside": True}, {"error": -0.2, "inside": False}]
    found = error_of(rows)
    assert found["mape"] == pytest.approx(0.15)
    assert found["inside_90"] == 0.5
    assert found["bias"] == pytest.approx(-0.0639, abs=1e-4)  # (ln 1.1 + ln 0.8) / 2


def test_the_page_has_every_part() -> None:
    chosen = [run for run in published_runs() if run.run["peak_mem_gib"] or run.refused][:60]
    text = page_text(part_scores(chosen))
    for title in ("All rows", "By source and GPU", "Refused rows", "Peak memory"):
        assert f"## {title}" in text


def test_splits_are_stated() -> None:
    assert set(rules()["split"]) == {"time", "generation", "model", "release", "memory"}
