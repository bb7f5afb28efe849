"""Choices among published deployments: does the predicted best plan measure best?"""

from __future__ import annotations

from typing import Any, Final

from validation.runs import (
    limited_choices,
    predict_runs,
    published_serving,
    ranked_groups,
    serving_rules,
)

Row = dict[str, Any]
GOALS: Final = {"regret_median": 0.03, "regret_p90": 0.12}
MIN_RANK: Final = 0.8


def validate_plans() -> dict[str, Any]:
    """Return how well predictions choose among published serving deployments.

    The runs and their predictions are those of `validate_steps`; nothing is fitted to them.

    Returns:
        `ranking`: rank correlation and regret over deployments of the same model, system, format
        and lengths; `limits`: choices under a limit of TPOT, by the required probability;
        `failures`: missed goals.

    Raises:
        MissingDependencyError: The measured runs are not installed.
        UnsupportedError: They are not the file of the rules.

    Limits: The runs of a group differ in load more than in plan, and a group has the plans that
        somebody published, which are seldom bad ones.
    """
    rules = serving_rules()
    kept, _ = published_serving(rules)
    rows = predict_runs(kept, rules)
    ranking = ranked_groups(rows)
    return {
        "runs": rules.title,
        "sha256": rules.sha256,
        "scored": len(rows),
        "ranking": ranking,
        "limits": limited_choices(rows),
        "failures": [failure for row in ranking for failure in missed_goals(row)],
    }


def missed_goals(row: Row) -> list[str]:
    """Return the goals that the ranking of a kind of group misses.

    Args:
        row: From `ranked_groups`.
    """
    name = row["groups_of"]
    missed = [
        f"{name}: {figure} = {row[figure]:.3f}, goal {goal:g}"
        for figure, goal in GOALS.items()
        if row[figure] > goal
    ]
    if row["spearman_median"] < MIN_RANK:
        missed.append(f"{name}: spearman_median = {row['spearman_median']:.3f}, goal {MIN_RANK:g}")
    return missed
