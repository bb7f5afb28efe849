"""Predicted and measured serving: TPOT of published runs, through the public function."""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from validation.runs import (
    answered,
    below_bound,
    check_sample,
    cross_fitted,
    fit_note,
    grouped,
    predict_runs,
    read_runs,
    sample_path,
    select_runs,
    serving_rules,
    share_held,
    summarize_runs,
    tpot_scores,
    unseen_networks,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from validation.runs import HalfFit, LeftOutRun, ServingRules, ServingRun

Row = dict[str, Any]
WORST: Final = 10
SMALL_LOAD: Final = 16  # requests per rank up to which fixed costs dominate
BELOW: Final = (
    "id",
    "request_latency_measured_s",
    "request_latency_s",
    "request_latency_bound_s",
    "request_latency_error",
)
SHORT: Final = ("id", "tpot_measured_s", "tpot_s", "tpot_bound_s", "tpot_error")
TTFT_NOTE: Final = (
    "TTFT of totals and cells has no goal: the runs start with all requests at once, which only the"
    " setting as_launched prices; the formula does not include queueing"
)


def validate_steps() -> dict[str, Any]:
    """Return the errors of predicted TPOT on published serving runs.

    Every aggregated run of the file selected by the rules is predicted by `estimate_table`
    (mode aggregated, method formula); nothing is fitted. Errors are |predicted - measured| /
    measured; bias is the mean of ln(predicted / measured).

    Returns:
        `totals`, also for dense and MoE models; `goals` with achieved values; `cells` (model,
        format, system, engine); `settings`: the same rows in other variants, and with queued rows;
        errors by size; `missing`: excess of measured steps per layer; `host_time`: the same
        predictions with constants fitted on half of the networks and scored on the others;
        `unseen`: coverage of intervals for held-out networks; runs faster than the roofline
            (`below_bound`: their stated load cannot be right; they are included in the totals); the
            worst rows; `left_out`: every excluded row with its reason; every prediction; and
            `failures`: exceeded budgets.

    Raises:
        MissingDependencyError: The measured runs are not installed.
        UnsupportedError: They are not the file of the rules.

    Limits:
        most rows do not state how they were served; the rules have the assumptions and their
        sources.
    """
    rules = serving_rules()
    kept, left = _selected(rules)
    rows = predict_runs(kept, rules)
    unseen = unseen_networks(rows)
    totals = _totals(rows, unseen)
    fitted, halves = cross_fitted(rows)
    settings = [
        *(_setting_row(kept, rules, index) for index in range(len(rules.settings))),
        _with_queued(rows, left, rules),
        _without_impossible(rows),
    ]
    return {
        "runs": rules.title,
        "sha256": rules.sha256,
        "scored": len(rows),
        "left_out_rows": len(left),
        "ttft_note": TTFT_NOTE,
        "totals": totals,
        "goals": _goals(totals, rules),
        "reasons": _reasons(left, rules),
        "unseen": unseen,
        **_views(rows),
        "settings": settings,
        "missing": missing_per_layer(rows),
        "host_time_note": fit_note(fitted),
        "host_time": _host_rows(rows, fitted),
        "host_time_constants": [_half_row(half) for half in halves],
        "failures": [
            failure
            for name, row in (
                *((row["models"], row) for row in totals),
                *((row["setting"], row) for row in settings),
            )
            for failure in gate(name, row, rules.budget.get(name, {}))
        ],
        "left_out": [{"id": run.id, "reason": run.reason} for run in left],
        "predictions": rows,
    }


def left_out_runs() -> list[dict[str, str]]:
    """Return the id of every excluded aggregated run, and the reason.

    Raises:
        MissingDependencyError: The measured runs are not installed.
        UnsupportedError: They are not the file of the rules.
    """
    _, left = _selected(serving_rules())
    return [{"id": run.id, "reason": run.reason} for run in left]


def _selected(rules: ServingRules) -> tuple[tuple[ServingRun, ...], tuple[LeftOutRun, ...]]:
    path = sample_path()
    check_sample(path, rules.sha256)
    return select_runs(read_runs(path), rules)


def _totals(rows: Sequence[Row], unseen: Sequence[Row]) -> list[Row]:
    dense, experts = "dense", "with experts"
    parts = {
        "all": (list(rows), list(unseen)),
        dense: tuple([row for row in part if row["dense"]] for part in (rows, unseen)),
        experts: tuple([row for row in part if not row["dense"]] for part in (rows, unseen)),
    }
    return [
        {
            "models": name,
            **summarize_runs(members),
            "tpot_inside_90_unseen": share_held(networks),
            **tpot_scores(members),
        }
        for name, (members, networks) in parts.items()
    ]


def _goals(totals: Sequence[Row], rules: ServingRules) -> list[Row]:
    """Return goals and achieved values."""
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
    """Return the statistics of groups of runs, and outliers."""
    known = answered(rows)
    worst = sorted(known, key=lambda row: abs(row["tpot_error"]), reverse=True)[:WORST]
    below = [row for row in known if below_bound(row)]
    return {
        "cells": _cells(rows),
        "by_engine": _by(rows, "backend", lambda r: r["backend"]),
        "by_gpus": _by(rows, "gpus", lambda r: r["tp"] * r["attention_dp"]),
        "by_concurrency": _by(rows, "concurrency", lambda r: r["concurrency"]),
        "by_lengths": _by(rows, "lengths", lambda r: f"{r['isl']}/{r['osl']}"),
        "below_bound": [{name: row[name] for name in BELOW} for row in below],
        "worst": [_short(row) for row in worst],
        "refused_runs": [{"id": r["id"], "error": r["error"]} for r in rows if r["tpot_s"] is None],
    }


def missing_per_layer(rows: Sequence[Row]) -> list[Row]:
    """Return the excess of measured over predicted steps, per layer, at small loads [s].

    Args:
        rows: From `predict_runs`.

    Returns:
        One row per network, format and engine: the median over runs of up to `SMALL_LOAD` requests
        per rank, for each number of GPUs per step.
    """
    small = [row for row in answered(rows) if row["on_rank"] <= SMALL_LOAD]
    found = []
    for key, members in grouped(
        small, lambda r: (r["network"], r["precision"], r["backend"])
    ).items():
        cell: Row = dict(zip(("network", "precision", "backend"), key, strict=True))
        cell |= {"rows": len(members)}
        for gpus, runs in grouped(members, lambda r: r["tp"] * r["attention_dp"]).items():
            more = [(r["tpot_measured_s"] - r["tpot_s"]) / r["layers"] for r in runs]
            cell[f"missing_{gpus}_s"] = median(more)
        found.append(cell)
    return found


def _short(row: Row) -> Row:
    """Return the key and TPOT error of a row."""
    return {name: row[name] for name in SHORT}


def _cells(rows: Sequence[Row]) -> list[Row]:
    """Return the statistics of every (model, format, system, engine)."""
    names = ("model", "precision", "system", "backend")
    groups = grouped(rows, lambda r: tuple(r[name] for name in names))
    return [
        dict(zip(names, key, strict=True)) | summarize_runs(members)
        for key, members in groups.items()
    ]


def _by(rows: Sequence[Row], label: str, key: Callable[[Row], Any]) -> list[Row]:
    return [{label: value} | summarize_runs(found) for value, found in grouped(rows, key).items()]


def _setting_row(runs: Sequence[ServingRun], rules: ServingRules, place: int) -> Row:
    setting = rules.settings[place]
    totals = summarize_runs(predict_runs(runs, rules, setting.changes))
    return {"setting": setting.name, "note": setting.note} | totals


def _with_queued(rows: Sequence[Row], left: Sequence[LeftOutRun], rules: ServingRules) -> Row:
    """Return the totals including the rows excluded as queued."""
    queued = [left_out_run.run for left_out_run in left if left_out_run.reason == "queued"]
    totals = summarize_runs([*rows, *predict_runs(queued, rules)] if queued else rows)
    note = "including the rows excluded as queued"
    return {"setting": "with_queued", "note": note} | totals


def _without_impossible(rows: Sequence[Row]) -> Row:
    """Return the totals without runs faster than the roofline."""
    kept = [row for row in rows if row["tpot_s"] is None or not below_bound(row)]
    note = "without the runs below the bound for the load they state"
    return {"setting": "without_impossible", "note": note} | summarize_runs(kept)


def _host_rows(rows: Sequence[Row], fitted: Mapping[str, float]) -> list[Row]:
    """Return totals with the host time fitted to the other half."""
    moved = [
        row | {"tpot_s": fitted[row["id"]], "tpot_s_low": np.nan, "tpot_s_high": np.nan}
        for row in rows
        if row["id"] in fitted
    ]
    parts = {"all": moved, "dense": [row for row in moved if row["dense"]]}
    return [{"models": name} | summarize_runs(found) for name, found in parts.items()]


def _half_row(half: HalfFit) -> Row:
    names = ", ".join(name.split("/")[-1] for name in half.networks)
    return half._asdict() | {"networks": names}


def gate(models: str, totals: Mapping[str, Any], budget: Mapping[str, float]) -> list[str]:
    """Return a sentence for every exceeded budget.

    Args:
        models: Set of models of the totals.
        totals: Figures by name.
        budget: Largest value allowed, by name.

    Example:
        >>> from validation.serving.steps import gate
        >>> gate("dense", {"tpot_mape": 0.2}, {"tpot_mape": 0.13})
        ['dense: tpot_mape is 0.2000, more than its budget 0.1300']
    """
    failures = []
    for name, allowed in budget.items():
        if totals[name] is None:
            failures.append(f"{models}: {name} has no value: no run was predicted")
        elif totals[name] > allowed:
            failures.append(
                f"{models}: {name} is {totals[name]:.4f}, more than its budget {allowed:.4f}"
            )
    return failures
