"""Steps on a GPU generation, predicted with numbers that are fitted to all other generations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from validation.scoring import interval_score
from validation.training.fits import fit_training_engine, predicted_steps
from validation.training.runs import rules

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from validation.training.runs import PublishedRun

Row = dict[str, Any]
# What a fit returns besides fields of the engine.
_OTHERS: Final = ("generation", "engine", "rows", "release")


def fit_generations(runs: Sequence[PublishedRun]) -> list[Row]:
    """Return a fit for each generation and each engine that ran on it, without its runs.

    The other rules are those of `fit_training_engine`: models that are left out and containers
    after the last fitted one stay out.

    Args:
        runs: Published runs; those of the generation say which engines ran on it.

    Returns:
        `generation`, `engine` and what `fit_training_engine` returns. `rows` is 0 where an engine
        ran on no other generation.

    Limits: Kernels keep their calibrations, which know the generation; what is left out are the
    numbers that steps are fitted to. Some 2 CPU-minutes for all published runs.
    """
    found = []
    for generation, gpus in rules()["split"]["generation"].items():
        engines = {_engine(run) for run in _asked(runs) if run.run["gpu"] in gpus}
        for engine in sorted(engines):
            fit = fit_training_engine(engine, without=gpus)
            found.append({"generation": generation, "engine": engine, **fit})
    return found


def generation_rows(runs: Sequence[PublishedRun], fits: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return the errors of the runs on each generation with the numbers fitted to the others.

    Args:
        fits: From `fit_generations`. Runs of an engine without fitted runs are not scored.
    """
    found = []
    for fit in fits:
        gpus = rules()["split"]["generation"][fit["generation"]]
        own = [run for run in _asked(runs) if run.run["gpu"] in gpus]
        own = [run for run in own if _engine(run) == fit["engine"]]
        if fit["rows"] and own:
            found += _scored(own, fit)
    return found


def _scored(runs: Sequence[PublishedRun], fit: Mapping[str, Any]) -> list[Row]:
    numbers = {name: value for name, value in fit.items() if name not in _OTHERS}
    numbers |= {"fitted_dense": (), "fitted_moe": ()}  # no run on this generation
    step_s_VR = predicted_steps(runs, numbers, fit["release"])
    rows = []
    for published, (step_s, low_s, high_s) in zip(runs, step_s_VR.T.tolist(), strict=True):
        question = published.question
        measured_s = float(published.run["step_time_s_derived"])
        moe = question is not None and question.network.has_experts
        rows.append(
            {
                "generation": fit["generation"],
                **{name: published.run[name] for name in ("source", "gpu", "model")},
                "kind": "MoE" if moe else "dense",
                "error": step_s / measured_s - 1.0,
                "inside": low_s <= measured_s <= high_s,
                "width": high_s / low_s,
                "interval_score": interval_score(*map(math.log, (measured_s, low_s, high_s))),
            }
        )
    return rows


def _asked(runs: Sequence[PublishedRun]) -> list[PublishedRun]:
    return [run for run in runs if run.question is not None]


def _engine(published: PublishedRun) -> str:
    question = published.question
    if question is None:
        raise ValueError(published.refused)
    return question.engine.name
