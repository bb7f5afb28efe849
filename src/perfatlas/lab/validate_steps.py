"""Predicted against measured serving: TPOT of published runs, through the public function.

Shape legend: N runs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.lab.fitting import error_statistics
from perfatlas.lab.host_time import cross_fitted, fit_note
from perfatlas.lab.serving_asks import serving_rules
from perfatlas.lab.serving_rows import check_sample, read_runs, sample_path
from perfatlas.lab.serving_selection import is_dense, select_runs
from perfatlas.lab.step_errors import inside_unseen_models
from perfatlas.models import resolve_model
from perfatlas.scenario import estimate_table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perfatlas.lab.host_time import HalfFit
    from perfatlas.lab.serving_asks import ServingRules
    from perfatlas.lab.serving_rows import ServingRun
    from perfatlas.lab.serving_selection import LeftOutRun
    from perfatlas.operators import FloatArray

Row = dict[str, Any]
WORST: Final = 10
SHORT: Final = ("id", "tpot_measured_s", "tpot_s", "tpot_bound_s", "tpot_error")
FIGURES: Final = ("mape", "median_error", "p90_error", "bias", "inside_90")
TTFT_NOTE: Final = (
    "TTFT is shown beside TPOT and is not a goal: the formula leaves out queueing, and the runs"
    " start with all requests at once"
)


def validate_steps() -> dict[str, Any]:
    """Return how far predicted TPOT is from that of published serving runs.

    Every aggregated run of the file that the committed rules keep is asked of `estimate_table`
    (mode aggregated, method formula); nothing is fitted. Errors are |predicted - measured| /
    measured; bias is the mean of ln(predicted / measured).

    Returns:
        `totals` of all models and of the dense ones; `goals` beside what is reached; `cells`
        (model, precision, system, engine); `settings`: the same rows asked otherwise; errors by
        size; `host_time`: the same predictions with host constants fitted on half of the models
        and scored on the others;
        runs said to be faster than the speed of light (`below_bound`: their load cannot be what the
        row states; they stay in the totals); the worst rows; `left_out`: every row that is not
        scored with its reason; every prediction; and `failures`: the budgets that are exceeded.

    Raises:
        MissingDependencyError: The measured runs are not installed.
        UnsupportedError: They are not the file the rules were written for.

    Limits:
        Most rows do not state how they were served; the rules say what is assumed and where it is
        published.
    """
    path = sample_path()
    rules = serving_rules()
    check_sample(path, rules.sha256)
    kept, left = select_runs(read_runs(path), rules)
    rows = predict_runs(kept, rules)
    totals = _totals(rows)
    fitted, halves = cross_fitted(rows)
    return {
        "runs": rules.title,
        "sha256": rules.sha256,
        "scored": len(rows),
        "left_out_rows": len(left),
        "ttft_note": TTFT_NOTE,
        "totals": totals,
        "goals": _goals(totals, rules),
        "reasons": _reasons(left, rules),
        **_views(rows),
        "settings": [_setting_row(kept, rules, place) for place in range(len(rules.settings))],
        "host_time_note": fit_note(fitted),
        "host_time": _host_rows(rows, fitted),
        "host_time_constants": [_half_row(half) for half in halves],
        "failures": [
            failure
            for row in totals
            for failure in gate(row["models"], row, rules.budget.get(row["models"], {}))
        ],
        "left_out": [{"id": run.id, "reason": run.reason} for run in left],
        "predictions": rows,
    }


def left_out_runs() -> list[dict[str, str]]:
    """Return the id of every aggregated run that is not scored, and the reason.

    Raises:
        MissingDependencyError: The measured runs are not installed.
        UnsupportedError: They are not the file the rules were written for.
    """
    path, rules = sample_path(), serving_rules()
    check_sample(path, rules.sha256)
    _, left = select_runs(read_runs(path), rules)
    return [{"id": run.id, "reason": run.reason} for run in left]


def _totals(rows: Sequence[Row]) -> list[Row]:
    parts = {"all": list(rows), "dense": [row for row in rows if row["dense"]]}
    parts["with experts"] = [row for row in rows if not row["dense"]]
    found = []
    for name, members in parts.items():
        unseen = {"tpot_inside_90_unseen_model": inside_unseen_models(members)}
        found.append({"models": name, **summarize_runs(members), **unseen})
    return found


def _goals(totals: Sequence[Row], rules: ServingRules) -> list[Row]:
    """Return what is aimed at beside what is reached."""
    return [
        {
            "models": row["models"],
            "figure": figure,
            "reached_error": row[figure],
            "goal_error": goal,
            "goal_met": "-" if row[figure] is None else "yes" if row[figure] <= goal else "no",
        }
        for row in totals
        for figure, goal in rules.goal.get(row["models"], {}).items()
    ]


def _reasons(left: Sequence[LeftOutRun], rules: ServingRules) -> list[Row]:
    counts = Counter(run.reason for run in left)
    return [
        {"reason": name, "rows": counts[name], "note": rules.reasons[name]}
        for name in rules.reasons
        if counts[name]
    ]


def _views(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the statistics of parts of the runs, and the rows that stand out."""
    answered = _answered(rows)
    return {
        "cells": _cells(rows),
        "by_engine": _by(rows, "backend", lambda r: r["backend"]),
        "by_gpus": _by(rows, "gpus", lambda r: r["tp"] * r["attention_dp"]),
        "by_concurrency": _by(rows, "concurrency", lambda r: r["concurrency"]),
        "by_lengths": _by(rows, "lengths", lambda r: f"{r['isl']}/{r['osl']}"),
        "below_bound": [_short(r) for r in answered if r["tpot_measured_s"] < r["tpot_bound_s"]],
        "worst": [_short(r) for r in sorted(answered, key=_tpot_miss, reverse=True)[:WORST]],
        "refused_runs": [{"id": r["id"], "error": r["error"]} for r in rows if r["tpot_s"] is None],
    }


def _tpot_miss(row: Row) -> float:
    return abs(float(row["tpot_error"]))


def gate(models: str, totals: Mapping[str, Any], budget: Mapping[str, float]) -> list[str]:
    """Return a sentence for every budget that is exceeded.

    Args:
        models: Which models the totals are of.
        totals: Figures by name.
        budget: Largest value allowed, by name.

    Example:
        >>> from perfatlas.lab.validate_steps import gate
        >>> gate("dense", {"tpot_mape": 0.2}, {"tpot_mape": 0.13})
        ['dense: tpot_mape is 0.2000, more than its budget 0.1300']
    """
    failures = []
    for name, allowed in budget.items():
        if totals[name] is None:
            failures.append(f"{models}: {name} has no value: no run was answered")
        elif totals[name] > allowed:
            failures.append(
                f"{models}: {name} is {totals[name]:.4f}, more than its budget {allowed:.4f}"
            )
    return failures


def predict_runs(
    runs: Sequence[ServingRun], rules: ServingRules, changes: Mapping[str, Any] | None = None
) -> list[Row]:
    """Return measured and predicted latencies of runs.

    Args:
        runs: The runs, with the plan they ran.
        rules: How to ask.
        changes: What a setting asks otherwise, by names of the vocabulary.
    """
    questions = [_question(run, rules, changes or {}) for run in runs]
    answers = ask_rows(questions)
    bounds = ask_rows([question | {"tier": "bound"} for question in questions])
    rows = []
    for run, question, answer, bound in zip(runs, questions, answers, bounds, strict=True):
        row = _row(run, question, answer)
        row["tpot_bound_s"] = None if bound["error_code"] else bound["tpot_s"]
        rows.append(row)
    return rows


def ask_rows(questions: Sequence[Row]) -> list[Row]:
    """Return the answer of every question, through the public function.

    Args:
        questions: Scenarios with the same names.
    """
    columns = estimate_table({name: [q[name] for q in questions] for name in questions[0]}).columns
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


def _question(run: ServingRun, rules: ServingRules, changes: Mapping[str, Any]) -> Row:
    """Return a row of the scenario table; None leaves a choice to the checkpoint."""
    ask = rules.ask(run)
    ratio = changes.get("length_ratio", rules.length_ratio[run.kind])
    question: Row = {
        "model": ask.model,
        "system": run.system,
        "engine": run.backend,
        "mode": "aggregated",
        "method": "formula",
        "tp": run.tp,
        "attention_dp": run.attention_dp,
        "ep": None if is_dense(run) else run.ep,
        "dp": run.dp,
        "concurrency": run.concurrency,
        "isl": round(run.isl * ratio),
        "osl": round(run.osl * ratio),
        "format": ask.formats.get("format"),
        "moe_format": ask.formats.get("moe_format"),
        "kv_format": ask.formats.get("kv_format"),
        "attention_format": ask.formats.get("attention_format"),
        "expert_distribution": None,
    }
    return question | {name: value for name, value in changes.items() if name in question}


def _row(run: ServingRun, question: Row, answer: Row) -> Row:
    """Return one prediction beside its measurement; times and errors are None if refused."""
    row: Row = {
        "id": run.id,
        "model": run.model,
        "precision": run.precision,
        "system": run.system,
        "backend": run.backend,
        "dense": is_dense(run),
        "tp": run.tp,
        "attention_dp": run.attention_dp,
        "ep": run.ep,
        "concurrency": run.concurrency,
        "on_rank": run.on_rank,
        "isl": run.isl,
        "osl": run.osl,
        "layers": resolve_model(question["model"]).architecture.num_layers,
        "asked_osl": question["osl"],
    }
    for name, measured_s in (("tpot", run.tpot_s), ("ttft", run.ttft_s)):
        refused = bool(answer["error_code"])
        predicted_s = None if refused else answer[f"{name}_s"]
        row |= {
            f"{name}_measured_s": measured_s,
            f"{name}_s": predicted_s,
            f"{name}_s_low": None if refused else answer[f"{name}_s_low"],
            f"{name}_s_high": None if refused else answer[f"{name}_s_high"],
            f"{name}_error": None if predicted_s is None else predicted_s / measured_s - 1.0,
        }
    return row | {"error": answer["error"]}


def _answered(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["tpot_s"] is not None]


def _short(row: Row) -> Row:
    """Return what names a row and how its TPOT came out."""
    return {name: row[name] for name in SHORT}


def _column(rows: Sequence[Row], name: str) -> FloatArray:
    return np.array([row[name] for row in rows], dtype=np.float64)


def summarize_runs(rows: Sequence[Row]) -> Row:
    """Return counts and error statistics of rows; figures are None where no row is answered.

    Args:
        rows: From `predict_runs`.
    """
    answered = _answered(rows)
    found: Row = {"rows": len(rows), "refused": len(rows) - len(answered)}
    for name in ("tpot", "ttft"):
        if not answered:
            found |= {f"{name}_{figure}": None for figure in FIGURES}
            continue
        predicted_s, measured_s = (
            _column(answered, f"{name}_s"),
            _column(answered, f"{name}_measured_s"),
        )
        low_s, high_s = _column(answered, f"{name}_s_low"), _column(answered, f"{name}_s_high")
        errors = error_statistics(predicted_s, measured_s)
        inside = share_inside(low_s, measured_s, high_s)
        figures = (errors.mape, errors.median_error, errors.p90_error, errors.bias, inside)
        found |= {f"{name}_{figure}": value for figure, value in zip(FIGURES, figures, strict=True)}
    bias = found["tpot_bias"]
    return found | {"tpot_abs_bias": None if bias is None else abs(bias)}


def _grouped(rows: Sequence[Row], key: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    groups: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return dict(sorted(groups.items()))


def _cells(rows: Sequence[Row]) -> list[Row]:
    """Return the statistics of every (model, precision, system, engine)."""
    names = ("model", "precision", "system", "backend")
    groups = _grouped(rows, lambda r: tuple(r[name] for name in names))
    return [
        dict(zip(names, key, strict=True)) | summarize_runs(members)
        for key, members in groups.items()
    ]


def _by(rows: Sequence[Row], label: str, key: Callable[[Row], Any]) -> list[Row]:
    return [{label: value} | summarize_runs(found) for value, found in _grouped(rows, key).items()]


def _setting_row(runs: Sequence[ServingRun], rules: ServingRules, place: int) -> Row:
    setting = rules.settings[place]
    totals = summarize_runs(predict_runs(runs, rules, setting.changes))
    return {"setting": setting.name, "note": setting.note} | totals


def _host_rows(rows: Sequence[Row], fitted: Mapping[str, float]) -> list[Row]:
    """Return totals with the fitted host time of the half a row is not part of."""
    moved = [
        row | {"tpot_s": fitted[row["id"]], "tpot_s_low": np.nan, "tpot_s_high": np.nan}
        for row in rows
        if row["id"] in fitted
    ]
    parts = {"all": moved, "dense": [row for row in moved if row["dense"]]}
    return [{"models": name} | summarize_runs(found) for name, found in parts.items()]


def _half_row(half: HalfFit) -> Row:
    return half._asdict() | {"models": ", ".join(name.split("/")[-1] for name in half.models)}


def share_inside(low_s: FloatArray, measured_s: FloatArray, high_s: FloatArray) -> float | None:
    """Return the share of rows inside their interval, None where the predictions have no end.

    Args:
        low_s: Low ends (N,) [s].
        measured_s: Measurements (N,) [s].
        high_s: High ends (N,) [s], NaN where there is none.
    """
    known = np.isfinite(high_s)
    if not known.any():
        return None
    return float(np.mean((low_s <= measured_s)[known] & (measured_s <= high_s)[known]))
