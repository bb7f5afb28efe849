"""Simulated and measured traffic: recorded runs and published benchmarks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from perfatlas.measurements.tables import has_silicon
from perfatlas.quantities import MissingDependencyError
from validation.runs import (
    compare_goals,
    compare_recorded,
    count_reasons,
    group_traffic,
    published_serving,
    sample_path,
    serving_rules,
    simulate_runs,
    traffic_totals,
    uncounted_rows,
)
from validation.serving.pools import validate_pools
from validation.serving.steps import exceeded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from validation.runs import ServingRules, ServingRun

Row = dict[str, Any]
PARTS: Final = {
    "totals": ("models",),
    "by_engine": ("backend",),
    "by_model": ("network",),
    "by_system": ("system",),
}
SCENARIO_ONLY: Final = "settings not given"
NO_SILICON: Final = (
    "the published benchmarks are not compared: install them with pip install '.[silicon]'"
)


def validate_traffic() -> dict[str, Any]:
    """Return the errors of simulated traffic relative to engine runs.

    Two parts: runs with recorded requests, and aggregated and two-pool runs of published
    benchmarks, each simulated as in its client. Nothing is fitted. Errors are
    |predicted - measured| / measured; bias is the mean of ln(predicted / measured).

    Returns:
        `recorded`; `totals`, `goals`, `by_engine`, `by_model`, `by_system`, `reasons`, `left_out`,
        `not_simulated`, `unsimulated` options and every prediction of the benchmarks;
        `scenario_only`: the same runs with engine limits that follow from the scenario alone;
        `pools`, the same of their disaggregated runs;
        `missing`: missing data and how to get it; `failures`: exceeded budgets; `run_time_s`, of
            one process.

    Raises:
        MissingDependencyError: No measurements are available.
        UnsupportedError: The benchmarks are not the file of the rules.
    """
    start_s = time.process_time()
    rules = serving_rules()
    recorded, missing = compare_recorded(rules)
    found = _benchmarks(rules) if has_silicon() else {}
    if not found:
        missing.append(NO_SILICON)
    if not (found or recorded):
        raise MissingDependencyError("no measured traffic is available: " + "; ".join(missing))
    return {
        "run_time_s": time.process_time() - start_s,
        "missing": missing,
        "recorded": recorded,
        **found,
        "failures": found.get("failures", []),
    }


def _benchmarks(rules: ServingRules) -> dict[str, Any]:
    kept, left = published_serving(rules)
    path = sample_path()
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
        "totals": totals,
        "goals": compare_goals(totals, rules.traffic_goal),
        **{name: group_traffic(rows, keys) for name, keys in PARTS.items() if name != "totals"},
        "unsimulated": dict(sorted({r["launch"]: r["unsimulated"] for r in rows}.items())),
        "reasons": count_reasons(left, rules),
        "not_simulated": [{"id": r["id"], "error": r["error"]} for r in rows if r["error"]],
        "failures": exceeded(totals, rules.traffic_budget)
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
        "failures": exceeded(totals, rules.scenario_budget, f"{SCENARIO_ONLY}, "),
    }
