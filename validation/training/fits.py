"""Fits of the numbers of a training engine to the runs that the splits allow.

Shape legend: R runs.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy.optimize import minimize_scalar

from perfatlas.training.layouts import Layouts
from perfatlas.training.step import training_steps
from validation.runs.model_spread import unfitted_model_interval
from validation.training.runs import published_runs, rules

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from perfatlas.operators import FloatArray
    from perfatlas.training.step import TrainingQuestion, TrainingSteps
    from validation.training.runs import PublishedRun

# Numbers, whether they are fitted to MoE or to dense runs, and their bounds.
NUMBERS: Final = (
    ("efficiency_compute", False, (0.3, 1.2)),
    ("efficiency_routed_rows", True, (0.15, 1.2)),
    ("host_s_per_moe_layer", True, (0.0, 0.02)),
)
# What runs share that differ in scale alone.
SCALED: Final = (
    *("stack", "model", "gpu", "seq_len", "precision", "micro_batch", "recompute", "zero_fsdp"),
    *("tp", "pp", "vpp", "cp", "ep"),
)
ROUNDS: Final = 2
TOLERANCE: Final = 0.01  # of the bounds
UNFITTED: Final = {
    "speed_dense": 1.0,
    "speed_moe": 1.0,
    "host_s_per_moe_layer": 0.0,
}


def fit_training_engine(name: str, *, without: Sequence[str] = ()) -> dict[str, Any]:
    """Return the numbers of a training engine and of its releases, fitted to published runs.

    Each number makes the mean absolute logarithm of measured over predicted time least. The speeds
    of releases and `error_low` and `error_high`, of dense and of MoE models, follow from the rules
    in `validation/data/training.toml`.

    Args:
        without: GPUs, as the table of runs names them, whose runs are left out.

    Returns:
        The numbers by field; `rows`: runs that they are fitted to; `release`: speeds by version.
        Without a run to fit, nothing is slower than its kernels.
    """
    own = [run for run in published_runs() if _of_engine(run, name)]
    own = [run for run in own if run.run["gpu"] not in without]
    early = [run for run in own if _is_early(run)]
    numbers: dict[str, Any] = dict(UNFITTED)
    for _ in range(ROUNDS):
        for number, moe, bounds in NUMBERS:
            part = [run for run in early if _is_moe(run) is moe]
            if part:
                numbers[number] = _best(number, part, numbers, bounds)
    speeds = _release_speeds(own, numbers)
    errors: dict[str, float] = {}
    for moe, ending in ((False, ""), (True, "_moe")):
        part = [run for run in early if _is_moe(run) is moe]
        if part:
            low, high = _interval(part, residuals(part, numbers, speeds))
            errors |= {f"error_low{ending}": low, f"error_high{ending}": high}
    return {"rows": len(early), **numbers, **errors, "release": speeds}


def fitted_runs(name: str) -> list[PublishedRun]:
    """Return the runs that the numbers of an engine are fitted to."""
    return [run for run in published_runs() if _of_engine(run, name) and _is_early(run)]


def dense_runs(name: str) -> list[PublishedRun]:
    """Return the runs of dense models that the numbers of an engine are fitted to."""
    return [run for run in fitted_runs(name) if not _is_moe(run)]


def is_fitted(published: PublishedRun) -> bool:
    """Return whether the numbers of its engine are fitted to a run."""
    question = published.question
    return (
        question is not None
        and _of_engine(published, question.engine.name)
        and _is_early(published)
    )


def _interval(runs: Sequence[PublishedRun], residual_R: FloatArray) -> tuple[float, float]:
    """Return the ends of ln(measured/predicted) of runs of models that were not fitted."""
    models = [run.run["model"] for run in runs]
    return unfitted_model_interval(residual_R, models, rules()["interval"]["covered"])


def _of_engine(published: PublishedRun, name: str) -> bool:
    """Return whether a run belongs to an engine and its model is not left out."""
    if published.question is None or published.question.engine.name != name:
        return False
    if published.run["task"] == "lora":
        return False
    return published.run["model"] not in rules()["split"]["model"]["left_out"]


def _is_early(published: PublishedRun) -> bool:
    """Return whether the container of a run is not later than the last fitted one."""
    last: str = rules()["split"]["time"]["last_fitted"]
    return published.run["stack"] <= last


def _is_moe(published: PublishedRun) -> bool:
    question = published.question
    return question is not None and question.network.has_experts


def _best(
    number: str,
    runs: Sequence[PublishedRun],
    known: Mapping[str, Any],
    bounds: tuple[float, float],
) -> float:
    def loss(value: float) -> float:
        return float(np.abs(residuals(runs, {**known, number: value})).mean())

    tolerance = TOLERANCE * (bounds[1] - bounds[0])
    found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": tolerance})
    return float(f"{found.x:.3g}")


def scaled_runs(runs: Sequence[PublishedRun]) -> list[list[PublishedRun]]:
    """Return the groups of runs that differ in scale alone, by a factor of four or more."""
    groups: dict[tuple[Any, ...], list[PublishedRun]] = {}
    for published in runs:
        run = published.run
        each = int(run["global_batch"]) / int(run["n_gpus"])
        groups.setdefault((each, *(run[name] for name in SCALED)), []).append(published)

    def gpus(group: list[PublishedRun]) -> list[int]:
        return [int(published_run.run["n_gpus"]) for published_run in group]

    return [group for group in groups.values() if max(gpus(group)) >= 4 * min(gpus(group))]


def _release_speeds(
    runs: Sequence[PublishedRun], numbers: Mapping[str, Any]
) -> dict[str, dict[str, float]]:
    """Return the speeds of kernels of each release, of dense and of MoE models, shrunk to 1."""
    prior = rules()["split"]["release"]["prior_runs"]
    found: dict[str, dict[str, float]] = {}
    for moe, field in ((False, "speed_dense"), (True, "speed_moe")):
        part = [run for run in runs if _is_moe(run) is moe and _stack(run)]
        stacks = np.array([_stack(run) for run in part])
        slower_R = residuals(part, numbers)
        for stack in sorted(set(stacks.tolist())):
            own_R = slower_R[stacks == stack]
            speed = math.exp(-float(own_R.sum()) / (len(own_R) + prior))
            found.setdefault(stack, {})[field] = round(speed, 3)
    return found


def _stack(published: PublishedRun) -> str:
    """Return the release of a run, "" where neither its row nor its source states one."""
    run = published.run
    named: str = run["stack"] or rules()["release_of_source"].get(run["source"], "")
    return named


def predicted_steps(
    runs: Sequence[PublishedRun],
    numbers: Mapping[str, Any],
    speeds: Mapping[str, Mapping[str, float]] | None = None,
) -> FloatArray:
    """Return predicted, low and high times of runs with other numbers of the engine (3, R) [s].

    Args:
        runs: Runs that were not refused (R,).
        numbers: Fields of the engine.
        speeds: Further fields by release.
    """
    step_s_VR = np.zeros((3, len(runs)))
    questions = [_refitted(published, numbers, speeds or {}) for published in runs]
    for places, steps in answer_together(runs, questions):
        step_s_VR[:, places] = steps.step_s_C, steps.low_s_C, steps.high_s_C
    return step_s_VR


def answer_together(
    runs: Sequence[PublishedRun], questions: Sequence[TrainingQuestion]
) -> Iterator[tuple[list[int], TrainingSteps]]:
    """Yield the steps of runs that share model, engine and recipe, with their positions.

    Args:
        runs: Runs (R,).
        questions: What is asked for each of them (R,).
    """
    groups: dict[tuple[Any, ...], list[int]] = {}
    for at, (published, question) in enumerate(zip(runs, questions, strict=True)):
        groups.setdefault(_shared(published, question), []).append(at)
    for places in groups.values():
        yield places, training_steps(_together([questions[at] for at in places]))


def residuals(
    runs: Sequence[PublishedRun],
    numbers: Mapping[str, Any],
    speeds: Mapping[str, Mapping[str, float]] | None = None,
) -> FloatArray:
    """Return ln(measured/predicted) of runs with other numbers of the engine (R,).

    Args:
        runs: Runs that were not refused (R,).
        numbers: Fields of the engine.
        speeds: Further fields by release.
    """
    measured_s_R = np.array([float(run.run["step_time_s_derived"]) for run in runs])
    residual_R: FloatArray = np.log(measured_s_R / predicted_steps(runs, numbers, speeds)[0])
    return residual_R


def _refitted(
    published: PublishedRun,
    numbers: Mapping[str, Any],
    speeds: Mapping[str, Mapping[str, float]],
) -> TrainingQuestion:
    """Return the question of a run with other numbers; releases that share them are one engine."""
    question = published.question
    if question is None:
        raise ValueError(published.refused)
    engine = question.engine
    own = speeds.get(engine.id.split("@")[1], {})
    fields = {**numbers, **own, "id": engine.name, "date": "", "fit": ""}
    return replace(question, engine=replace(engine, **fields))


def _shared(published: PublishedRun, question: TrainingQuestion) -> tuple[Any, ...]:
    """Return what runs share that are answered together."""
    run = published.run
    names = ("formats", "schedule", "expert_overlap", "dispatcher", "cuda_graphs", "fused_experts")
    return (
        run["model"], run["layers"], run["heads"], question.engine, question.recipe,
        question.gradient_format, *(getattr(question, name) for name in names),
    )  # fmt: skip


def _together(questions: Sequence[TrainingQuestion]) -> TrainingQuestion:
    """Return questions that share model, engine, formats and schedule as one."""
    columns = {
        name: np.concatenate([getattr(question.layouts, name) for question in questions])
        for name in vars(questions[0].layouts)
    }
    return replace(
        questions[0],
        layouts=Layouts(**columns),
        systems=tuple(question.systems[0] for question in questions),
        index_C=np.arange(len(questions)),
    )
