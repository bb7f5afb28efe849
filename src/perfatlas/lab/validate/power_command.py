"""`perfatlas validate power`."""

from __future__ import annotations

import sys
from typing import Annotated, Final

from perfatlas.commands.flags import SWITCH
from perfatlas.commands.output import envelope, print_json

ERRORS: Final = {
    "mape": "MAPE",
    "median_error": "median",
    "bias": "bias",
    "inside_90": "in 90%",
    "goal_mape": "goal",
    "goal_met": "met",
}
SERVED: Final = {"gpu": "", "given": "given", "energies": "energies", "rows": "runs", **ERRORS}
HEADINGS: Final = {
    "kernels": {"table": "", "rows": "rows", "constant_mape": "constant", **ERRORS},
    "served": SERVED,
    "inputs": {"isl": "input", **SERVED},
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
        "with_measured_rate": "rate given",
        "predicted": "predicted",
        "error": "error",
    },
}
TITLES: Final = {
    "kernels": "B200 kernels, held out by geometry",
    "served": "W/GPU of served models",
    "inputs": "with other input lengths",
    "ratios": "J/token of B200 over H100",
    "figures": "named figures",
}


def power(*, json: Annotated[bool, SWITCH] = False) -> int:
    """Compare predicted with measured power of kernels and served models.

    Args:
        json: Print one JSON object.
    """
    from perfatlas.lab.validate.power import validate_power
    from perfatlas.report.text import open_terminal, print_rows

    results = validate_power()
    if json:
        print_json(envelope("validate power", results=results, scenario={}))
        return 0
    console = open_terminal(sys.stdout)
    for name, columns in HEADINGS.items():
        print_rows(console, results[name], columns=columns, title=TITLES[name])
    return 0
