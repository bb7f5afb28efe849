"""Errors of predicted training steps, by source, GPU, format and model."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.training.profiles import resolve_training_engine, unseen_release
from validation.scoring import SCORES, WIDTHS, constant_limits, interval_score
from validation.training.engines import unseen_engine
from validation.training.fits import answer_together, is_fitted
from validation.training.generations import fit_generations, generation_rows
from validation.training.peers import calculon_rows
from validation.training.runs import published_runs, rules
from validation.training.trace import trace_comparison

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from perfatlas.training.step import TrainingQuestion, TrainingSteps
    from validation.training.runs import PublishedRun

Row = dict[str, Any]
PARTS: Final = {
    "by_source": ("source",),
    "by_gpu": ("source", "gpu"),
}
GENERATION: Final = ("generation", "source", "gpu", "kind")
FORWARD: Final = ("error", "inside", "width", "interval_score")  # of later containers
DENSE: Final = ("llama3-8b", "llama3-70b", "llama3.1-405b")


def validate_training() -> Row:
    """Return the errors of predicted steps of published runs.

    Returns:
        `totals`: all scored rows, the mean over sources, and the dense and MoE rows of Megatron;
        a part for each key of `PARTS`; `splits`: rows that a split leaves out; `generation_fits`:
        the numbers fitted without a GPU generation; `by_generation`: the errors on that generation;
        `unseen_engine`: engines predicted with numbers of the others;
        `calculon`: the same steps by Calculon; `trace`: the published trace of a pair; `memory`:
        predicted and published peaks; `refused`: reasons with the number of rows; `rows`: every
        scored run.

    Limits: Recomputation that a page does not state is taken as none.
    """
    runs = published_runs()
    return part_scores(runs, fit_generations(runs), unseen_engine())


def part_scores(runs: Sequence[PublishedRun], fits: Sequence[Row], unseen: Row) -> Row:
    """Return the errors of some runs, as `validate_training` does.

    Args:
        runs: Published runs, asked or refused.
        fits: Numbers fitted without a GPU generation, from `fit_generations`.
        unseen: Engines predicted with numbers of the others, from `unseen_engine`.
    """
    generations = generation_rows(runs, fits)
    rows = _scored([run for run in runs if run.question is not None])
    reasons = Counter((run.run["source"], run.refused) for run in runs if run.refused)
    return {
        "totals": _totals(rows),
        **{name: _by(rows, keys) for name, keys in PARTS.items()},
        "splits": [*_splits(rows), *_left_out(generations)],
        "generation_fits": list(fits),
        "by_generation": _by(generations, GENERATION),
        "unseen_engine": unseen,
        "calculon": calculon_rows(runs),
        "trace": trace_comparison(),
        "memory": [row for row in rows if row["peak_bytes"] is not None],
        "refused": [
            {"source": source, "reason": reason, "rows": count}
            for (source, reason), count in reasons.most_common()
        ],
        "rows": rows,
    }


def _scored(runs: Sequence[PublishedRun]) -> list[Row]:
    """Return the scored rows of runs that were asked."""
    rows: list[Row] = [{} for _ in runs]
    for places, steps in answer_together(runs, [_asked(run) for run in runs]):
        own_bytes_C = steps.memory.total_bytes - _asked(runs[places[0]]).engine.context_bytes
        for c, at in enumerate(places):
            rows[at] = {
                **_stated(runs[at]),
                **_compared(runs[at], steps, c),
                "kind": "MoE" if _asked(runs[at]).network.has_experts else "dense",
                "engine": _asked(runs[at]).engine.name,
                "fitted": is_fitted(runs[at]),
                "fits": bool(steps.memory.fits[c]),
                "predicted_peak_bytes": float(own_bytes_C[c]),
            }
    _add_constant_scores(rows)
    later = [at for at, run in enumerate(runs) if run.run["stack"] > _last_fitted()]
    unseen = [runs[at] for at in later]
    for places, steps in answer_together(unseen, [_unseen(run) for run in unseen]):
        for c, index in enumerate(places):
            found = _compared(unseen[index], steps, c)
            rows[later[index]] |= {f"forward_{name}": found[name] for name in FORWARD}
    return rows


def _add_constant_scores(rows: Sequence[Row]) -> None:
    """Add scores of one width and of one factor, fitted to the fitted runs of engine and kind."""
    for key in dict.fromkeys((row["engine"], row["kind"]) for row in rows):
        own = [row for row in rows if (row["engine"], row["kind"]) == key]
        known = np.array([-math.log1p(row["error"]) for row in own if row["fitted"]])
        if not known.size:
            continue
        ends = constant_limits(known)
        for row in own:
            log = -math.log1p(row["error"])
            row["constant_width_score"] = interval_score(log, *ends)
            row["rescaled_error"] = abs(math.expm1(float(np.median(known)) - log))


def _asked(published: PublishedRun) -> TrainingQuestion:
    if published.question is None:
        raise ValueError(published.refused)
    return published.question


def _stated(published: PublishedRun) -> Row:
    """Return what is stated of a run."""
    run, question = published.run, _asked(published)
    peak = run["peak_mem_gib"]
    return {
        **{name: run[name] for name in ("source", "stack", "model", "gpu", "task", "n_gpus")},
        "format": question.formats.gemm,
        "layout": " ".join(
            f"{name}{int(getattr(question.layouts, name)[0])}"
            for name in ("tp", "pp", "vpp", "cp", "dp", "ep")
        ),
        "measured_s": float(run["step_time_s_derived"]),
        "peak_bytes": float(peak) * 2.0**30 if peak else None,
        "peak_fitted": _is_peak_fitted(run),
        "reference": run["reference"],
    }


def _compared(published: PublishedRun, steps: TrainingSteps, candidate: int) -> Row:
    """Return the prediction of a run, its error and whether the interval holds the run."""
    measured_s = float(published.run["step_time_s_derived"])
    ends = (float(column[candidate]) for column in (steps.low_s_C, steps.high_s_C))
    low_s, high_s = ends
    predicted_s = float(steps.step_s_C[candidate])
    return {
        "predicted_s": predicted_s,
        "error": predicted_s / measured_s - 1.0,
        "inside": low_s <= measured_s <= high_s,
        "width": high_s / low_s,
        "interval_score": interval_score(*map(math.log, (measured_s, low_s, high_s))),
    }


def _last_fitted() -> str:
    last: str = rules()["split"]["time"]["last_fitted"]
    return last


def _unseen(published: PublishedRun) -> TrainingQuestion:
    """Return the question of a later container, asked with the last one that is fitted.

    Its interval carries the drift of releases.
    """
    question = _asked(published)
    known = resolve_training_engine(f"{question.engine.name}@{_last_fitted()}")
    return replace(question, engine=unseen_release(known, published.run["stack"]))


def _is_peak_fitted(run: Mapping[str, str]) -> bool:
    """Return whether the reserved memory of the engine was fitted to the peak of a run."""
    split = rules()["split"]["memory"]
    return run["model"] in split["fitted_models"] and run["gpu"] in split["fitted_gpus"]


def error_of(rows: Sequence[Row]) -> Row:
    """Return the errors of some rows: mean absolute, median absolute, bias, coverage and width.

    Args:
        rows: Scored rows.
    """
    errors = np.array([row["error"] for row in rows])
    return {
        "rows": len(rows),
        "mape": float(np.abs(errors).mean()),
        "median_error": float(np.median(np.abs(errors))),
        "bias": float(np.mean([math.log1p(error) for error in errors])),
        "inside_90": float(np.mean([row["inside"] for row in rows])),
        "width": float(np.median([row["width"] for row in rows])),
        **{name: _mean(row.get(name) for row in rows) for name in WIDTHS},
        "rescaled_error": None
        if any(row.get("rescaled_error") is None for row in rows)
        else float(np.median([row["rescaled_error"] for row in rows])),
    }


def _mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of values, None where one of them is missing."""
    known = list(values)
    found = [value for value in known if value is not None]
    return float(np.mean(found)) if len(found) == len(known) else None


def _by(rows: Iterable[Row], keys: tuple[str, ...]) -> list[Row]:
    parts: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        parts.setdefault(tuple(row[key] for key in keys), []).append(row)
    return [
        {**dict(zip(keys, values, strict=True)), **error_of(part)} for values, part in parts.items()
    ]


def _totals(rows: Sequence[Row]) -> list[Row]:
    megatron = [row for row in rows if row["source"].startswith("Megatron-Bridge")]
    dense = [row for row in megatron if row["model"] in DENSE]
    sparse = [row for row in megatron if row["model"] not in DENSE]
    sources = _by(rows, ("source",))
    mean = {
        name: float(np.mean([part[name] for part in sources]))
        for name in ("mape", "median_error", "bias", "inside_90", "width")
    } | {name: _mean(part[name] for part in sources) for name in SCORES}
    parts = {"Megatron-Bridge, dense": dense, "Megatron-Bridge, MoE": sparse}
    return [
        {"what": "all rows", **error_of(rows)},
        {"what": "mean over sources", "rows": len(sources), **mean},
        *({"what": name, **error_of(part)} for name, part in parts.items() if part),
    ]


def _splits(rows: Sequence[Row]) -> list[Row]:
    """Return the errors on the rows that each split leaves out of its fit."""
    split = rules()["split"]
    last = split["time"]["last_fitted"]
    later = [
        {**row, **{name: row[f"forward_{name}"] for name in FORWARD}}
        for row in rows
        if "forward_error" in row
    ]
    held = {f"containers after {last}, with its numbers": later}
    for name, moe in (("dense", False), ("MoE", True)):
        held[f"the same, {name}"] = [row for row in later if (row["model"] not in DENSE) is moe]
    left_out = split["model"]["left_out"]
    held["models left out"] = [row for row in rows if row["model"] in left_out]
    megatron = [row for row in rows if row["source"].startswith("Megatron-Bridge")]
    for name, moe in (("dense", False), ("MoE", True)):
        part = [row for row in megatron if (row["model"] not in DENSE) is moe]
        ends = [row for row in later if row["source"].startswith("Megatron-Bridge")]
        ends = [row for row in ends if (row["model"] not in DENSE) is moe]
        early = [row for row in part if "forward_error" not in row]
        unseen = [row for row in early if row["model"] in left_out]
        held[f"Megatron-Bridge, {name}, not fitted"] = [*ends, *unseen]
        held[f"Megatron-Bridge, {name}, fitted"] = [row for row in early if row not in unseen]
    return [{"what": name, **error_of(part)} for name, part in held.items() if part]


def _left_out(rows: Sequence[Row]) -> list[Row]:
    """Return the errors on each generation, and of its dense and MoE rows, with fits without it."""
    found = []
    for generation in dict.fromkeys(row["generation"] for row in rows):
        own = [row for row in rows if row["generation"] == generation]
        parts = {f"{generation} left out": own}
        for kind in ("dense", "MoE"):
            parts[f"the same, {kind}"] = [row for row in own if row["kind"] == kind]
        found += [{"what": name, **error_of(part)} for name, part in parts.items() if part]
    return found
