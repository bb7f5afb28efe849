"""`python -m validation power`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from perfatlas.commands.flags import SWITCH
from validation.scoring import SCORES, print_results

FOLDER: Final = Path("measurements")
ERRORS: Final = {
    "mape": "MAPE",
    "median_error": "median",
    "bias": "bias",
    "inside_90": "in 90%",
    **SCORES,
    "goal_mape": "goal",
    "goal_met": "met",
}
SERVED: Final = {"gpu": "", "given": "given", "energies": "energies", "rows": "runs", **ERRORS}
HEADINGS: Final = {
    "kernels": {
        "table": "",
        "samples": "samples",
        "rows": "rows",
        "constant_mape": "constant",
        **ERRORS,
    },
    "loads": {
        "device": "",
        "study": "",
        "rows": "rows",
        "mape": "MAPE",
        "bias": "bias",
        "mape_issue_0": "issue share 0",
        "mape_issue_1": "issue share 1",
    },
    "served": SERVED,
    "ratios": {
        "runs": "runs",
        "measured_median": "measured",
        "timed_median": "measured rate",
        "end_median": "end to end",
        "timed_median_error": "error",
        "end_median_error": "end to end error",
        "goal_error": "goal",
        "goal_met": "met",
    },
    "figures": {
        "figure": "",
        "measured": "measured",
        "predicted": "predicted",
        "error": "error",
    },
}
TITLES: Final = {
    "kernels": "B200 kernels, held out by geometry",
    "loads": "sustained loads, measured rate; not fitted, but not blind",
    "served": "W/GPU of served models",
    "ratios": "J/token of B200 over H100",
    "figures": "named figures",
}


def power(measurements: Path = FOLDER, *, json: Annotated[bool, SWITCH] = False) -> int:
    """Compare predicted with measured power of kernels and served models.

    Args:
        measurements: Folder `measurements` of the perfatlas repository, for sustained loads.
        json: Print one JSON object.
    """
    from validation.power.comparison import validate_power

    return print_results("power", validate_power(measurements), HEADINGS, TITLES, json=json)
