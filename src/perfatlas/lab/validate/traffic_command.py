"""`perfatlas validate serving` without files: simulated traffic against public engine runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from perfatlas.commands.output import envelope, print_json
from perfatlas.quantities import ValidationGateError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from perfatlas.commands.flags import File

RECORDED: Final = {
    "run": "",
    "figure": "figure",
    "measured_s": "measured",
    "predicted_s": "simulated",
    "error": "error",
    "goal_met": "met",
    "scaled_error": "one factor",
    "scaled_goal_met": "met",
}
POINT_TOTALS: Final = {
    "plan": "",
    "rows": "points",
    "ttft_median_error": "TTFT",
    "ttft_bias": "bias",
    "tpot_median_error": "TPOT",
    "tpot_bias": "bias",
    "makespan_median_error": "makespan",
}
POINTS: Final = {
    "plan": "",
    "isl": "in",
    "concurrency": "requests",
    "ttft_measured_s": "TTFT",
    "ttft_s": "simulated",
    "tpot_measured_s": "TPOT",
    "tpot_s": "simulated",
    "makespan_error": "makespan",
}
CONTRADICTED: Final = {
    "isl": "in",
    "concurrency": "requests",
    "date": "day",
    "ttft_run_s": "TTFT run",
    "ttft_point_s": "point",
    "ttft_s": "simulated",
    "tpot_run_s": "TPOT run",
    "tpot_point_s": "point",
}
GOALS: Final = {
    "models": "",
    "figure": "figure",
    "reached_error": "reached",
    "goal_error": "goal",
    "goal_met": "met",
}
FIGURES: Final = {
    "rows": "runs",
    "ttft_median_error": "TTFT",
    "ttft_bias": "bias",
    "tpot_median_error": "TPOT",
    "tpot_mape": "MAPE",
    "tpot_bias": "bias",
}
PARTS: Final = {
    "totals": ("models",),
    "by_engine": ("backend",),
    "by_source": ("kind",),
    "by_model": ("network",),
    "by_system": ("system",),
    "cells": ("network", "precision", "backend", "system"),
    "by_launch": ("launch",),
}
WORST: Final = {
    "id": "run",
    "ttft_measured_s": "measured",
    "ttft_s": "simulated",
    "ttft_error": "TTFT",
    "tpot_error": "TPOT",
}
POOL_PARTS: Final = {
    "totals": ("models",),
    "by_engine": ("backend",),
    "by_model": ("network",),
    "by_system": ("system",),
    "by_lengths": ("isl", "osl"),
    "cells": ("backend", "network", "precision", "system"),
}
SCENARIO_PARTS: Final = {"totals": ("models",), "by_engine": ("backend",)}
FACTS: Final = ("runs", "simulated", "left_out_rows", "disaggregated", "run_time_s", "sha256")


def compare_traffic(page: File | None, *, as_json: bool) -> int:
    """Compare and print; return 0, or 7 if an error budget is exceeded.

    Args:
        page: Write this Markdown page instead of text.
        as_json: Print one JSON object.
    """
    if page is not None:
        from perfatlas.lab.validate.traffic_page import write_traffic_page

        return _gate(write_traffic_page(page))
    from perfatlas.lab.validate.traffic import validate_traffic

    found = validate_traffic()
    if as_json:
        print_json(envelope("validate serving", results=found, scenario={}))
    else:
        _print_found(found)
    return _gate(found)


def _gate(found: Mapping[str, Any]) -> int:
    for failure in found["failures"]:
        sys.stderr.write(f"perfatlas: gate failed: {failure}\n")
    return ValidationGateError.exit_code if found["failures"] else 0


def _print_found(found: Mapping[str, Any]) -> None:
    from perfatlas.report.text import open_terminal, print_facts, print_rows

    console = open_terminal(sys.stdout)
    print_facts(console, {name: found[name] for name in FACTS if name in found})
    console.print()
    for sentence in found["missing"]:
        console.print(sentence, markup=False, highlight=False)
    title = "recorded runs; one factor: fitted to the first third, scored on the rest"
    print_rows(console, found["recorded"], columns=RECORDED, title=title)
    print_rows(console, found["points"], columns=POINTS, title="operating points of an experiment")
    print_rows(console, found["point_totals"], columns=POINT_TOTALS, title="points: totals")
    print_rows(
        console,
        found.get("contradicted", []),
        columns=CONTRADICTED,
        title="points and dated runs of the same model, plan, prompts and load",
    )
    pools = found.get("pools", {})
    scenario = found.get("scenario_only", {})
    parts = (found, scenario, pools)
    goals = [row for part in parts for row in part.get("goals", [])] + found["point_goals"]
    print_rows(console, goals, columns=GOALS, title="goals")
    _print_parts(console, found, PARTS, "")
    _print_parts(console, scenario, SCENARIO_PARTS, "settings not given, ")
    _print_parts(console, pools, POOL_PARTS, "two pools, ")
    print_rows(console, found.get("worst", []), columns=WORST, title="worst")
    left = {"reason": "reason", "rows": "rows", "note": ""}
    print_rows(console, found.get("reasons", []), columns=left, title="excluded")
    print_rows(
        console,
        pools.get("left_out", []),
        columns={"id": "run", "reason": "reason"},
        title="two pools, excluded",
    )
    refused = {"id": "run", "error": "why"}
    rows = [*found.get("not_simulated", []), *pools.get("not_simulated", [])]
    print_rows(console, rows, columns=refused, title="not simulated")


def _print_parts(
    console: Console,
    found: Mapping[str, Any],
    parts: Mapping[str, tuple[str, ...]],
    of: str,
) -> None:
    """Print the statistics of parts of runs."""
    from perfatlas.report.text import print_rows

    for name, about in parts.items():
        rows = [
            {"about": " ".join(str(row[key]) for key in about), **row}
            for row in found.get(name, [])
        ]
        title = f"{of}{name.replace('_', ' ')}: median, bias"
        print_rows(console, rows, columns={"about": "", **FIGURES}, title=title)
