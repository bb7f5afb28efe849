"""`python -m validation design`."""

from __future__ import annotations

import sys
from typing import Annotated, Final

from perfatlas.commands.flags import SWITCH
from perfatlas.commands.output import envelope, print_json

COLUMNS: Final = {
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
    name: COLUMNS[name] for name in ("group", "rows", "median_error", "mean_error", "median_ratio")
}
SHIPPED: Final = {
    "family": "family",
    "clock_factors": "clock factors",
    "tile_cycles": "tile cycles",
    "evidence": "fitted to",
}


def design(*, json: Annotated[bool, SWITCH] = False) -> int:
    """Fit the pipeline models of kernels, and score each group of speeds left out of the fit.

    Args:
        json: Print one JSON object.
    """
    from perfatlas.report.text import open_terminal, print_rows
    from validation.kernels.design import validate_design

    results = validate_design()
    if json:
        print_json(envelope("validation design", results=results, scenario={}))
        return 0
    console = open_terminal(sys.stdout)
    print_rows(console, results["scores"], columns=COLUMNS, title="speeds by group")
    title = "calls of vLLM with FlashAttention-3 in measured tables, nothing fitted"
    print_rows(console, results["tables"], columns=TABLES, title=title)
    shipped = [
        {**row, "clock_factors": ", ".join(f"{k} {v:g}" for k, v in row["clock_factor"].items())}
        for row in results["shipped"]
    ]
    print_rows(console, shipped, columns=SHIPPED, title="constants that ship")
    return 0
