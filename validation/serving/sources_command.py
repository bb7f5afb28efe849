"""`python -m validation sources`."""

from __future__ import annotations

import sys
from typing import Annotated, Final

from perfatlas.commands.flags import SWITCH
from perfatlas.commands.output import envelope, print_json

COLUMNS: Final = {
    "source": "",
    "models": "models",
    "runs": "runs",
    "median_error": "error",
    "median_ratio": "measured/predicted",
    "kernels_inside_90": "in kernels' 90%",
    "inside_90": "in 90%",
    "median_width": "high/low",
    "interval_score": "score",
    "constant_width_score": "constant",
}


def sources(*, json: Annotated[bool, SWITCH] = False) -> int:
    """Compare steps of several laboratories with intervals fitted to all others.

    Args:
        json: Print one JSON object.
    """
    from perfatlas.report.text import open_terminal, print_rows
    from validation.serving.sources import validate_sources

    results = validate_sources()
    if json:
        print_json(envelope("validation sources", results=results, scenario={}))
        return 0
    console = open_terminal(sys.stdout)
    rows = [*results["sources"], *results["pooled"]]
    print_rows(console, rows, columns=COLUMNS, title="sources, interval fitted to all others")
    releases = {
        "releases": "",
        "runs": "runs",
        "median_ratio": "newer/older",
        "largest_ratio": "largest",
        "inside_90": "in 90%",
    }
    title = "releases of TensorRT-LLM, spread fitted to other models and GPUs"
    print_rows(console, results["releases"], columns=releases, title=title)
    columns = {"source": "", "runs": "runs", "reason": "left out"}
    print_rows(console, results["left_out"], columns=columns, title="left out")
    return 0
