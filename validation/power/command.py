"""`python -m validation power`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Final

from perfatlas.commands.flags import SWITCH
from perfatlas.commands.output import envelope, print_json
from validation.scoring import SCORES

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
BY: Final = {
    "rows": "runs",
    "rate_bias": "rate bias",
    "timed_bias": "measured rate: bias",
    "timed_mape": "measured rate: MAPE",
    "end_bias": "end to end: bias",
    "end_mape": "end to end: MAPE",
}
WAYS: Final = {"one": "one clock", "apart": "apart", "relative": "relative", "lower": "lower"}
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
    "models": {"gpu": "", "model": "", **BY},
    "sizes": {"gpu": "", "n_gpus": "GPUs", "kind": "", **BY},
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
    "clock_shares": {
        "device": "",
        "operator": "",
        "family": "",
        "format": "",
        **{f"home_{way}": f"home, {text}" for way, text in WAYS.items()},
        **{f"left_out_{way}": f"left out, {text}" for way, text in WAYS.items()},
    },
}
TITLES: Final = {
    "kernels": "B200 kernels, held out by geometry",
    "loads": "sustained loads, measured rate; not fitted, but not blind",
    "served": "W/GPU of served models",
    "models": "served models by rate and power, shipped energies",
    "sizes": "the same by number of GPUs",
    "inputs": "with other input lengths",
    "ratios": "J/token of B200 over H100",
    "figures": "named figures",
    "clock_shares": "kernels fitted at one clock and with clocks apart: MAPE",
}


def power(
    measurements: Path = FOLDER,
    *,
    clock_shares: Annotated[bool, SWITCH] = False,
    json: Annotated[bool, SWITCH] = False,
) -> int:
    """Compare predicted with measured power of kernels and served models.

    Args:
        measurements: Folder `measurements` of the perfatlas repository, for sustained loads.
        clock_shares: Instead, fit kernels with the clock of each row separated from their
            efficiency, and compare what devices borrow; takes some minutes.
        json: Print one JSON object.
    """
    from perfatlas.report.text import open_terminal, print_rows
    from validation.power import clock_share_errors
    from validation.power.comparison import validate_power

    results = (
        {"clock_shares": clock_share_errors()}
        if clock_shares
        else validate_power(Path(measurements))
    )
    if json:
        print_json(
            envelope(
                "validation power", results=results, scenario={"measurements": str(measurements)}
            )
        )
        return 0
    console = open_terminal(sys.stdout)
    for name, columns in HEADINGS.items():
        if name not in results:
            continue
        print_rows(console, results[name], columns=columns, title=TITLES[name])
    return 0
