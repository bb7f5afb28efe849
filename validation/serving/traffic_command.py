"""`python -m validation traffic`: simulated traffic against public engine runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

from perfatlas.commands.flags import SWITCH, WrittenFile
from perfatlas.commands.output import envelope, print_json
from validation.scoring import failed_gates
from validation.serving.pools import ABOUT
from validation.serving.traffic import PARTS, validate_traffic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.report.text import TitledRows

RECORDED: Final = {
    "run": "",
    "figure": "figure",
    "measured_s": "measured",
    "predicted_s": "simulated",
    "error": "error",
    "goal_met": "met",
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
FACTS: Final = ("runs", "simulated", "left_out_rows", "disaggregated", "run_time_s", "sha256")


def traffic(
    *,
    page: WrittenFile | None = None,
    json: Annotated[bool, SWITCH] = False,
    verbose: Annotated[bool, SWITCH] = False,
) -> int:
    """Compare simulated traffic with the measurements of public engine runs; takes minutes.

    Args:
        page: Write this Markdown page instead of text.
        json: Print one JSON object.
        verbose: Print every row, not only those that fit a screen.
    """
    if page is not None:
        from validation.serving.traffic_page import write_traffic_page

        return failed_gates(write_traffic_page(page)["failures"])
    found = validate_traffic()
    if json:
        print_json(envelope("validation traffic", results=found, scenario={}))
    else:
        _print_found(found, verbose=verbose)
    return failed_gates(found["failures"])


def _print_found(found: Mapping[str, Any], *, verbose: bool) -> None:
    from perfatlas.report.text import open_terminal, print_facts, print_tables

    console = open_terminal(sys.stdout)
    facts = {name: found[name] for name in FACTS if name in found}
    print_facts(console, facts)
    console.print()
    for sentence in found["missing"]:
        console.print(sentence, markup=False, highlight=False)
    used = len(facts) + 1 + 2 * len(found["missing"])
    print_tables(console, _tables(found), verbose=verbose, used=used)


def _tables(found: Mapping[str, Any]) -> list[TitledRows]:
    """Return the tables: goals and totals first, single runs and exclusions last."""
    from perfatlas.report.text import TitledRows

    pools = found.get("pools", {})
    scenario = found.get("scenario_only", {})
    parts = (found, scenario, pools)
    goals = [row for part in parts for row in part.get("goals", [])]
    refused = [*found.get("not_simulated", []), *pools.get("not_simulated", [])]
    run = {"id": "run"}
    reasons = {"reason": "reason", "rows": "rows", "note": ""}
    return [
        TitledRows("goals", goals, GOALS),
        *_parts(found, PARTS, ""),
        *_parts(scenario, PARTS, "settings not given, "),
        *_parts(pools, {"totals": ("models",), **ABOUT}, "two pools, "),
        TitledRows("recorded runs", found["recorded"], RECORDED),
        TitledRows("excluded", found.get("reasons", []), reasons),
        TitledRows("two pools, excluded", pools.get("left_out", []), run | {"reason": "reason"}),
        TitledRows("not simulated", refused, run | {"error": "why"}),
    ]


def _parts(
    found: Mapping[str, Any], parts: Mapping[str, tuple[str, ...]], of: str
) -> list[TitledRows]:
    """Return the statistics of parts of runs."""
    from perfatlas.report.text import TitledRows

    tables = []
    for name, about in parts.items():
        rows = [
            {"about": " ".join(str(row[key]) for key in about), **row}
            for row in found.get(name, [])
        ]
        title = f"{of}{name.replace('_', ' ')}: median, bias"
        tables.append(TitledRows(title, rows, {"about": "", **FIGURES}))
    return tables
