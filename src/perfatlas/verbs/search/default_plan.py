"""How much better the best plan is than the one that other verbs choose for its GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfatlas.quantities import PerfatlasError
from perfatlas.report.text import format_share
from perfatlas.scenario.resolution import planned_scenario, read_scenario
from perfatlas.verbs.search.choices import EXCHANGE, SIZES
from perfatlas.verbs.search.find import PLAN
from perfatlas.verbs.search.rows import deficit, plan_row
from perfatlas.verbs.search.text import plan_text

if TYPE_CHECKING:
    from perfatlas.scenario.fields import Scenario
    from perfatlas.verbs.search.find import Found
    from perfatlas.verbs.search.leaders import Leader
    from perfatlas.verbs.search.question import SearchInputs


def default_plan_note(found: Found, best: Leader, inputs: SearchInputs) -> str:
    """Return by how much the best plan beats the one that `estimate` chooses for its GPUs.

    Both are at their best loads by closed forms.

    Args:
        found: The candidates.
        best: The best plan.
        inputs: The search.

    Returns:
        "" where the best plan is no better, or `estimate` chooses none that was searched: for two
        pools, with sizes that are set, or where it does not fit. With several objectives there is
        no single best load.
    """
    if inputs.mode == "disaggregated" or inputs.pinned or len(inputs.objectives) > 1:
        return ""
    usual = _default_plan(found, best, inputs)
    if usual is None or all(int(best.row.get(n, 1)) == (getattr(usual, n) or 1) for n in SIZES):
        return ""
    columns = found.leading
    same = columns["family"] == columns["family"][best.place]
    for name in PLAN:
        size = getattr(usual, name)
        same &= (columns[name] == size) if size is not None else True
    places = np.flatnonzero(same)
    if not places.size:
        return ""
    meets = columns["slo_probability"][places] >= inputs.min_slo_probability
    text = plan_text(plan_row(found, int(places[0]), inputs))
    chosen = f"the plan that estimate chooses for {best.row['gpus']:,} GPUs ({text})"
    if not np.any(meets):
        return f"{chosen} does not meet the limits"
    first, second = columns["score"][best.place], np.max(columns["score"][places[meets]])
    behind = deficit(float(first), float(second), inputs) or 0.0
    if behind <= 0.0:  # the simulation ranks another one first
        return ""
    share = format_share(behind)
    return f"{chosen} is {share} worse than the first by closed forms, each at its best load"


def _default_plan(found: Found, best: Leader, inputs: SearchInputs) -> Scenario | None:
    """Return the scenario of the best plan with the plan of its GPUs; None without one."""
    fields = found.families[int(found.leading["family"][best.place])].fields
    left_out = (*SIZES, *EXCHANGE, "gpus", "concurrency", "redundant_experts")
    asked = {name: value for name, value in fields.items() if name not in left_out}
    load = {} if inputs.concurrency is None else {"concurrency": inputs.concurrency}
    try:
        return planned_scenario(read_scenario({**asked, **load, "gpus": best.row["gpus"]}))
    except PerfatlasError:
        return None
