"""`python -m validation design`."""

from __future__ import annotations

from typing import Annotated, Final

from perfatlas.commands.flags import SWITCH
from validation.scoring import print_results

SCORES: Final = {
    "group": "group",
    "fit": "fitted to",
    "rows": "rows",
    "clock_factor": "clock",
    "tile_cycles": "tile cycles",
    "median_error": "median",
    "mean_error": "mean",
    "largest_error": "largest",
    "median_ratio": "predicted/published",
}
TABLES: Final = {
    name: SCORES[name] for name in ("group", "rows", "median_error", "mean_error", "median_ratio")
}
SHIPPED: Final = {
    "family": "family",
    "clock_factors": "clock factors",
    "tile_cycles": "tile cycles",
    "evidence": "fitted to",
}


COLUMNS: Final = {"scores": SCORES, "tables": TABLES, "shipped": SHIPPED}
TITLES: Final = {
    "scores": "speeds by group",
    "tables": "calls of vLLM with FlashAttention-3 in measured tables, nothing fitted",
    "shipped": "constants that ship",
}


def design(*, json: Annotated[bool, SWITCH] = False) -> int:
    """Fit the pipeline models of kernels, and score each group of speeds left out of the fit.

    Args:
        json: Print one JSON object.
    """
    from validation.kernels.design import validate_design

    results = validate_design()
    for row in results["shipped"]:
        row["clock_factors"] = ", ".join(f"{k} {v:g}" for k, v in row["clock_factor"].items())
    return print_results("design", results, COLUMNS, TITLES, json=json)
