"""`python -m validation sources`."""

from __future__ import annotations

from typing import Annotated, Final

from perfatlas.commands.flags import SWITCH
from validation.scoring import SCORES, print_results

COLUMNS: Final = {
    "sources": {
        "source": "",
        "models": "models",
        "runs": "runs",
        "median_error": "error",
        "median_ratio": "measured/predicted",
        "kernels_inside_90": "in kernels' 90%",
        "inside_90": "in 90%",
        "median_width": "high/low",
        **SCORES,
    },
    "releases": {
        "releases": "",
        "runs": "runs",
        "median_ratio": "newer/older",
        "largest_ratio": "largest",
        "inside_90": "in 90%",
    },
    "left_out": {"source": "", "runs": "runs", "reason": "left out"},
}
TITLES: Final = {
    "sources": "sources, interval fitted to all others",
    "releases": "releases of TensorRT-LLM, spread fitted to other models and GPUs",
    "left_out": "left out",
}


def sources(*, json: Annotated[bool, SWITCH] = False) -> int:
    """Compare steps of several laboratories with intervals fitted to all others.

    Args:
        json: Print one JSON object.
    """
    from validation.serving.sources import validate_sources

    results = validate_sources()
    if not json:
        results["sources"] = [*results["sources"], *results["pooled"], *results["support"]]
    return print_results("sources", results, COLUMNS, TITLES, json=json)
