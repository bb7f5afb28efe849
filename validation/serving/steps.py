"""Predicted and measured serving: TPOT of published runs, through the public function."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from validation.runs import (
    answered,
    below_bound,
    grouped,
    predict_runs,
    published_serving,
    serving_rules,
    share_held,
    summarize_runs,
    tpot_scores,
    unseen_networks,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from validation.runs import LeftOutRun, ServingRules, ServingRun

Row = dict[str, Any]
BELOW: Final = (
    "id",
    "request_latency_measured_s",
    "request_latency_s",
    "request_latency_bound_s",
    "request_latency_error",
)
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
        format, system, engine); `settings`: the same rows as served and as launched; errors by
        engine, GPUs and concurrency; `unseen`: coverage of intervals for held-out networks; runs
        faster than the roofline (`below_bound`: their stated load cannot be right; they are
        included in the totals); `left_out`: every excluded row with its reason; every prediction;
        and `failures`: exceeded budgets.

    Raises:
        MissingDependencyError: The measured runs are not installed.
        UnsupportedError: They are not the file of the rules.

    Limits:
        most rows do not state how they were served; the rules have the assumptions and their
        sources.
    """
    rules = serving_rules()
    kept, left = published_serving(rules)
    rows = predict_runs(kept, rules)
    unseen = unseen_networks(rows)
    totals = _totals(rows, unseen)
    settings = [_setting_row(kept, rules, index) for index in range(len(rules.settings))]
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
        "failures": exceeded(totals, rules.budget)
        + exceeded([row | {"models": row["setting"]} for row in settings], rules.budget),
        "left_out": [{"id": run.id, "reason": run.reason} for run in left],
        "predictions": rows,
    }


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
    below = [row for row in known if below_bound(row)]
    return {
        "cells": _cells(rows),
        "by_engine": _by(rows, "backend", lambda r: r["backend"]),
        "by_gpus": _by(rows, "gpus", lambda r: r["tp"] * r["attention_dp"]),
        "by_concurrency": _by(rows, "concurrency", lambda r: r["concurrency"]),
        "below_bound": [{name: row[name] for name in BELOW} for row in below],
        "refused_runs": [{"id": r["id"], "error": r["error"]} for r in rows if r["tpot_s"] is None],
    }


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


def exceeded(
    totals: Sequence[Row], budgets: Mapping[str, Mapping[str, float]], of: str = ""
) -> list[str]:
    """Return a sentence for every budget that totals exceed.

    Args:
        totals: Rows with `models`.
        budgets: Largest values, by models.
        of: Start of the names of the models.
    """
    return [
        failure
        for row in totals
        for failure in gate(f"{of}{row['models']}", row, budgets.get(row["models"], {}))
    ]


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
