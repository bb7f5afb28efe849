"""`python -m validation published`."""

from __future__ import annotations

from typing import Annotated, Final

from perfatlas.commands.flags import SWITCH
from validation.scoring import print_results, with_units

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


COLUMNS: Final = {
    "named": NAMED,
    "sources": SOURCES,
    "pooled": POOLED,
    "spreads": {"operators_class": "", "half_width": "90% half-width (ln)", "sources": "sources"},
}
TITLES: Final = {
    "named": "widely known figures",
    "sources": "sources, interval fitted to all others",
    "pooled": "every source counting once",
    "spreads": "spread between laboratories",
}


def published(*, json: Annotated[bool, SWITCH] = False) -> int:
    """Compare operators with published figures, and with intervals fitted to all other sources.

    Args:
        json: Print one JSON object.
    """
    from validation.kernels.published import validate_published

    results = validate_published()
    if not json:
        results["named"] = [with_units(row) for row in results["named"]]
    return print_results("published", results, COLUMNS, TITLES, json=json)
