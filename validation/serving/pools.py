"""Simulated and measured runs of prefill and decode pools of published benchmarks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from validation.runs import (
    compare_goals,
    count_reasons,
    group_traffic,
    read_pool_runs,
    select_pool_runs,
    simulate_pool_runs,
    traffic_totals,
)
from validation.serving.steps import exceeded

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from validation.runs import LeftOutRun, ServingRules

Row = dict[str, Any]
ABOUT: Final = {
    "by_split": ("split",),
    "by_engine": ("backend",),
    "by_model": ("network",),
    "by_system": ("system",),
}


def validate_pools(path: Path, rules: ServingRules) -> dict[str, Any]:
    """Return the errors of simulated traffic through two pools relative to published runs.

    Nothing is fitted to these runs.

    Args:
        path: File of the runs.
        rules: Selection, scenario rules and engine launches.

    Returns:
        As for `pool_views`.
    """
    kept, left = select_pool_runs(read_pool_runs(path), rules)
    return pool_views(simulate_pool_runs(kept, rules), left, rules)


def pool_views(rows: Sequence[Row], left: Sequence[LeftOutRun], rules: ServingRules) -> Row:
    """Return the statistics of simulated runs of two pools.

    Args:
        rows: From `simulate_pool_runs`.
        left: Excluded runs.
        rules: Goals, budgets and launches.

    Returns:
        `totals`, `goals`, statistics by part (`by_split`, `by_engine`, `by_model`, `by_system`),
        `reasons` and `left_out`, `not_simulated`, `failures`: exceeded budgets, and every
        prediction.
    """
    totals = traffic_totals(rows)
    return {
        "simulated": sum(not row["error"] for row in rows),
        "left_out_rows": len(left),
        "totals": totals,
        "goals": [
            row | {"models": f"two pools, {row['models']}"}
            for row in compare_goals(totals, rules.pool_goal)
        ],
        **{name: group_traffic(rows, about) for name, about in ABOUT.items()},
        "reasons": count_reasons(left, rules),
        "left_out": [{"id": run.id, "reason": run.reason} for run in left],
        "not_simulated": [{"id": r["id"], "error": r["error"]} for r in rows if r["error"]],
        "failures": exceeded(totals, rules.pool_budget, "two pools, "),
        "predictions": rows,
    }
