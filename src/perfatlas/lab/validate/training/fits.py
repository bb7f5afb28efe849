"""Fits of the numbers of a training engine to the runs that the splits allow."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy.optimize import minimize_scalar

from perfatlas.lab.validate.training.runs import published_runs, rules
from perfatlas.training.step import training_steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.lab.validate.training.runs import PublishedRun
    from perfatlas.operators import FloatArray

LEAST: Final = 0.3
MOST: Final = 1.2
STEP: Final = 0.01
QUANTILES: Final = (0.05, 0.95)


def fit_training_engine(name: str) -> dict[str, float]:
    """Return the numbers of a training engine, fitted to published runs.

    `efficiency_compute` is fitted to dense runs and then `efficiency_experts` to MoE runs, so that
    the mean absolute logarithm of measured over predicted time is least; `error_low` and
    `error_high` are quantiles of the residuals that remain.

    Args:
        name: Name of the engine.
    """
    runs = [run for run in published_runs() if _fitted(run, name)]
    dense = [run for run in runs if run.question and not run.question.architecture.has_experts]
    sparse = [run for run in runs if run.question and run.question.architecture.has_experts]
    found = {"rows": float(len(runs))}
    numbers: dict[str, Any] = {}
    for number, part in (("efficiency_compute", dense), ("efficiency_experts", sparse)):
        if part:
            numbers[number] = _best(number, part, numbers)
    residuals = _residuals(runs, numbers)
    low, high = np.quantile(residuals, QUANTILES)
    return found | numbers | {"error_low": float(low), "error_high": float(high)}


def _fitted(published: PublishedRun, name: str) -> bool:
    """Return whether a run is fitted: its engine, and no later container or left-out model."""
    split, run = rules()["split"], published.run
    if published.question is None or published.question.engine.name != name:
        return False
    early = run["stack"] <= split["time"]["last_fitted"]
    return early and run["model"] not in split["model"]["left_out"]


def _best(number: str, runs: Sequence[PublishedRun], known: dict[str, Any]) -> float:
    def loss(value: float) -> float:
        return float(np.abs(_residuals(runs, {**known, number: value})).mean())

    found = minimize_scalar(loss, bounds=(LEAST, MOST), method="bounded", options={"xatol": STEP})
    return round(float(found.x), 3)


def _residuals(runs: Sequence[PublishedRun], numbers: dict[str, Any]) -> FloatArray:
    """Return ln(measured/predicted) of runs with other numbers of the engine."""
    found = []
    for published in runs:
        question = published.question
        if question is None:
            continue
        engine = replace(question.engine, **numbers)
        steps = training_steps(replace(question, engine=engine))
        measured_s = float(published.run["step_time_s_derived"])
        found.append(np.log(measured_s / float(steps.step_s_C[0])))
    return np.array(found)
