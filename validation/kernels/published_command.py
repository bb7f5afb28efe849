"""`python -m validation published`."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Final

from perfatlas.commands.flags import SWITCH
from perfatlas.commands.output import envelope, print_json

NAMED: Final = {
    "id": "figure",
    "metric": "",
    "published": "published",
    "predicted": "predicted",
    "error": "error",
    "low": "low",
    "high": "high",
    "inside_90": "in 90%",
}
SOURCES: Final = {
    "source": "",
    "operators": "class",
    "times": "times",
    "median_error": "error",
    "median_ratio": "measured/expected",
    "tabulated_inside_90": "as tabulated",
    "inside_90": "in 90%",
    "median_width": "high/low",
    "interval_score": "score",
    "constant_width_score": "constant",
}
POOLED: Final = {
    "kind": "",
    "sources": "sources",
    "tabulated_inside_90": "as tabulated",
    "inside_90": "in 90%",
    "worst_inside_90": "worst",
    "median_width": "high/low",
    "interval_score": "score",
    "constant_width_score": "constant",
}


def published(*, json: Annotated[bool, SWITCH] = False) -> int:
    """Compare operators with published figures, and with intervals fitted to all other sources.

    Args:
        json: Print one JSON object.
    """
    from perfatlas.report.text import open_terminal, print_rows
    from validation.kernels.published import validate_published

    results = validate_published()
    if json:
        print_json(envelope("validation published", results=results, scenario={}))
        return 0
    console = open_terminal(sys.stdout)
    named = [_spelled(row) for row in results["named"]]
    print_rows(console, named, columns=NAMED, title="widely known figures")
    title = "sources, interval fitted to all others"
    print_rows(console, results["sources"], columns=SOURCES, title=title)
    print_rows(console, results["pooled"], columns=POOLED, title="every source counting once")
    spreads = {"operators_class": "", "half_width": "90% half-width (ln)", "sources": "sources"}
    print_rows(console, results["spreads"], columns=spreads, title="spread between laboratories")
    return 0


def _spelled(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with values as text in the unit of its metric."""
    from perfatlas.report.text import format_value

    values = {
        name: format_value(row["metric"], row[name])
        for name in ("published", "predicted", "low", "high")
        if row[name] is not None
    }
    return {**row, **values}
