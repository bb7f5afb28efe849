"""Simulated and measured traffic: recorded runs, an experiment, published benchmarks."""

from __future__ import annotations

import time
from bisect import bisect_left
from typing import TYPE_CHECKING, Any, Final

from perfatlas.measurements.tables import has_silicon
from perfatlas.quantities import MissingDependencyError
from validation.runs import (
    check_sample,
    compare_goal,
    compare_goals,
    compare_points,
    compare_recorded,
    contradicted,
    count_reasons,
    group_traffic,
    grouped,
    read_runs,
    sample_path,
    select_runs,
    serving_rules,
    simulate_runs,
    summarize_points,
    summarize_traffic,
    traffic_totals,
    uncounted_rows,
)
from validation.serving.pools import validate_pools
from validation.serving.steps import gate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from validation.runs import ServingRules, ServingRun

Row = dict[str, Any]
WORST: Final = 10
LOADS: Final = (4, 8, 16, 32, 64, 128)  # bounds of requests in flight for groups of runs
CELL: Final = ("network", "precision", "backend", "system")
SCENARIO_ONLY: Final = "settings not given"
NO_SILICON: Final = (
    "the published benchmarks are not compared: install them with pip install 'perfatlas[silicon]'"
)


def validate_traffic() -> dict[str, Any]:
    """Return the errors of simulated traffic relative to engine runs.

    Three parts: runs with recorded requests; operating points of an experiment; and aggregated and
    two-pool runs of published benchmarks, each simulated as in its client. Nothing is fitted except
    the factor in the second row of the recorded runs. Errors are |predicted - measured| / measured;
    bias is the mean of ln(predicted / measured).

    Returns:
        `recorded`, `points` and their `point_totals`, `contradicted`: points beside production runs
        of the same model, plan and load; `totals`, `goals`, `by_engine`, `by_model`, `by_system`,
        `by_launch`, `cells`, `worst`, `reasons`, `left_out`, `not_simulated` and every prediction
        of the benchmarks; `scenario_only`: the same runs with engine limits that follow from the
        scenario alone; `pools`, the same of their disaggregated runs;
        `missing`: missing data and how to get it; `failures`: exceeded budgets; `run_time_s`, of
            one process.

    Raises:
        MissingDependencyError: No measurements are available.
        UnsupportedError: The benchmarks are not the file of the rules.
    """
    start_s = time.process_time()
    rules = serving_rules()
    recorded, missing = compare_recorded(rules)
    points, absent = compare_points(rules)
    missing += absent
    found = _benchmarks(rules, points) if has_silicon() else {}
    if not found:
        missing.append(NO_SILICON)
    if not (found or recorded or points):
        raise MissingDependencyError("no measured traffic is available: " + "; ".join(missing))
    return {
        "run_time_s": time.process_time() - start_s,
        "missing": missing,
        "recorded": recorded,
        "point_totals": summarize_points(points),
        "point_goals": _point_goals(points, rules),
        "points": points,
        **found,
        "failures": found.get("failures", []),
    }


def _benchmarks(rules: ServingRules, points: Sequence[Row]) -> dict[str, Any]:
    path = sample_path()
    check_sample(path, rules.sha256)
    kept, left = select_runs(read_runs(path), rules)
    rows = simulate_runs(kept, rules)
    totals = traffic_totals(rows)
    scenario = _scenario_only(kept, rules)
    pools = validate_pools(path, rules)
    return {
        "runs": rules.title,
        "sha256": rules.sha256,
        "simulated": sum(not row["error"] for row in rows),
        "left_out_rows": len(left),
        "disaggregated": f"{uncounted_rows(path):,} rows without the number of workers",
        "pools": pools,
        "scenario_only": scenario,
        "contradicted": contradicted(points, rows, kept),
        "totals": totals,
        "goals": compare_goals(totals, rules.traffic_goal),
        **traffic_views(rows),
        "reasons": count_reasons(left, rules),
        "not_simulated": [{"id": r["id"], "error": r["error"]} for r in rows if r["error"]],
        "failures": [
            failure
            for row in totals
            for failure in gate(row["models"], row, rules.traffic_budget.get(row["models"], {}))
        ]
        + scenario["failures"]
        + pools["failures"],
        "left_out": [{"id": run.id, "reason": run.reason} for run in left],
        "predictions": rows,
    }


def _scenario_only(kept: Sequence[ServingRun], rules: ServingRules) -> Row:
    """Return the statistics of runs whose engine limits follow from the scenario alone."""
    rows = simulate_runs(kept, rules, launched=False)
    totals = traffic_totals(rows)
    goals = compare_goals(totals, rules.scenario_goal)
    return {
        "totals": totals,
        "goals": [row | {"models": f"{SCENARIO_ONLY}, {row['models']}"} for row in goals],
        "by_engine": group_traffic(rows, ("backend",)),
        "not_simulated": [{"id": r["id"], "error": r["error"]} for r in rows if r["error"]],
        "failures": [
            failure
            for row in totals
            for failure in gate(
                f"{SCENARIO_ONLY}, {row['models']}",
                row,
                rules.scenario_budget.get(row["models"], {}),
            )
        ],
    }


def traffic_views(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the statistics of groups of runs, and the rows with the largest TTFT errors.

    Args:
        rows: From `simulate_runs`.
    """
    known = [row for row in rows if not row["error"]]
    worst = sorted(known, key=lambda row: abs(row["ttft_error"]), reverse=True)[:WORST]
    shown = ("id", "launch", "ttft_measured_s", "ttft_s", "ttft_error", "tpot_error")
    return {
        "by_engine": group_traffic(rows, ("backend",)),
        "by_source": group_traffic(rows, ("kind",)),
        "by_model": group_traffic(rows, ("network",)),
        "by_system": group_traffic(rows, ("system",)),
        "by_concurrency": _by_concurrency(rows),
        "by_launch": _by_launch(rows),
        "cells": group_traffic(rows, CELL),
        "worst": [{name: row[name] for name in shown} for row in worst],
    }


def _by_concurrency(rows: Sequence[Row]) -> list[Row]:
    groups = grouped(rows, lambda row: bisect_left(LOADS, row["concurrency"]))
    names = [*(f"up to {most}" for most in LOADS), "more"]
    return [
        {"concurrency": names[place]} | summarize_traffic(found) for place, found in groups.items()
    ]


def _by_launch(rows: Sequence[Row]) -> list[Row]:
    groups = grouped(rows, lambda row: (row["launch"], row["unsimulated"]))
    return [
        {"launch": name, "unsimulated": left} | summarize_traffic(found)
        for (name, left), found in groups.items()
    ]


def _point_goals(points: Sequence[Row], rules: ServingRules) -> list[Row]:
    totals = summarize_points(points)
    if not points:
        return []
    return [
        compare_goal("operating points of the experiment", figure, totals[0][figure], goal)
        for figure, goal in rules.points_goal.items()
    ]
