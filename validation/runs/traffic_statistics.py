"""Statistics of simulated and measured traffic, goals, and reasons of exclusions."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.sampling import error_statistics
from validation.runs.predictions import grouped
from validation.runs.serving_traffic import METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from validation.runs.deduplication import LeftOutRun
    from validation.runs.run_selection import ServingRules

Row = dict[str, Any]
FIGURES: Final = ("median_error", "mape", "p90_error", "bias")


def summarize_traffic(rows: Sequence[Row]) -> Row:
    """Return counts and error statistics of rows; None where no row is simulated.

    Args:
        rows: From `simulate_runs`.
    """
    known = [row for row in rows if not row["error"]]
    found: Row = {"rows": len(rows), "refused": len(rows) - len(known)}
    for name in METRICS:
        if not known:
            found |= {f"{name}_{figure}": None for figure in FIGURES}
            continue
        predicted_s = np.array([row[f"{name}_s"] for row in known], np.float64)
        measured_s = np.array([row[f"{name}_measured_s"] for row in known], np.float64)
        errors = error_statistics(predicted_s, measured_s)
        found |= {f"{name}_{figure}": getattr(errors, figure) for figure in FIGURES}
    return found


def traffic_totals(rows: Sequence[Row]) -> list[Row]:
    """Return the statistics of all rows, of dense and of MoE models.

    Args:
        rows: From `simulate_runs`.
    """
    parts = {
        "all": list(rows),
        "dense": [row for row in rows if row["dense"]],
        "with experts": [row for row in rows if not row["dense"]],
    }
    return [{"models": name} | summarize_traffic(members) for name, members in parts.items()]


def group_traffic(rows: Sequence[Row], names: tuple[str, ...]) -> list[Row]:
    """Return the statistics of rows grouped by columns, in order of first occurrence.

    Args:
        rows: From `simulate_runs`.
    """
    groups = grouped(rows, lambda row: tuple(row[name] for name in names))
    return [
        dict(zip(names, key, strict=True)) | summarize_traffic(found)
        for key, found in groups.items()
    ]


def compare_goals(totals: Sequence[Row], goals: Mapping[str, Mapping[str, float]]) -> list[Row]:
    """Return the comparison of totals with their goals.

    Args:
        totals: From `traffic_totals`.
        goals: Figure -> largest value, by models.
    """
    return [
        compare_goal(row["models"], figure, row[figure], goal)
        for row in totals
        for figure, goal in goals.get(row["models"], {}).items()
    ]


def compare_goal(models: str, figure: str, reached: float | None, goal: float) -> Row:
    """Return the comparison of a figure with its goal.

    Args:
        models: Set of models.
        figure: Name of the figure.
        reached: Its value, None where unknown.
        goal: Largest value.
    """
    met = "-" if reached is None else "yes" if reached <= goal else "no"
    return {
        "models": models,
        "figure": figure,
        "reached_error": reached,
        "goal_error": goal,
        "goal_met": met,
    }


def count_reasons(left: Sequence[LeftOutRun], rules: ServingRules) -> list[Row]:
    """Return the number of excluded runs by reason."""
    counts = Counter(run.reason for run in left)
    return [
        {"reason": name, "rows": counts[name], "note": rules.reasons[name]}
        for name in rules.reasons
        if counts[name]
    ]
