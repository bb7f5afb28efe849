"""`python -m validation swings`."""

from __future__ import annotations

from typing import Annotated, Final

from perfatlas.commands.flags import SWITCH
from validation.scoring import print_results

COLUMNS: Final = {
    "nodes": {
        "run": "",
        "system": "system",
        "state": "state",
        "limit_w": "limit [W]",
        "measured_w": "measured [W]",
        "predicted_w": "predicted [W]",
        "error": "error",
    },
    "ramps": {
        "run": "",
        "measured_w_per_s": "steepest second [W/s]",
        "predicted_w_per_s": "largest edge [W/s]",
        "share": "share",
        "below_plateau": "of the window below full load",
    },
    "figures": {
        "figure": "",
        "unit": "unit",
        "least": "published least",
        "most": "most",
        "predicted": "predicted",
        "inside": "inside",
    },
    "fans": {
        "node": "",
        "fitted": "fitted",
        "fitted_low": "5%",
        "fitted_high": "95%",
        "shipped": "shipped",
        "shipped_low": "low",
        "shipped_high": "high",
    },
    "summary": {
        "what": "",
        "rows": "rows",
        "error": "median error",
        "constant_error": "of a constant",
        "inside": "inside",
    },
}
TITLES: Final = {
    "nodes": "AC power of nodes: MLPerf logs at 1 Hz",
    "ramps": "steepest seconds of these logs beside the edge from no kernels to the limit",
    "figures": "published figures of jobs, racks and sites",
    "fans": "share of fans, median and quantiles of the fitted runs",
    "summary": "summary",
}


def swings(*, json: Annotated[bool, SWITCH] = False) -> int:
    """Compare the power of nodes and jobs over time with readings and published swings.

    Args:
        json: Print one JSON object.
    """
    from validation.power.swings import validate_swings

    return print_results("swings", validate_swings(), COLUMNS, TITLES, json=json)
