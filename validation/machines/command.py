"""`python -m validation machines`."""

from __future__ import annotations

import sys
from typing import Annotated, Final

from perfatlas.commands.flags import SWITCH
from perfatlas.commands.output import envelope, print_json

COLUMNS: Final = {
    "forms": {
        "form": "",
        "models": "models",
        "constant_us": "constant [µs]",
        "median_error": "median",
        "inside_90": "in 90%",
        "interval_score": "score",
    },
    "models": {
        "model": "",
        "measured_s": "published [s]",
        "scheduled_s": "schedule [s]",
        "predicted_s": "predicted [s]",
        "error": "error",
        "low_s": "low [s]",
        "high_s": "high [s]",
        "inside_90": "in 90%",
    },
    "chips": {
        "model": "",
        "chips": "chips",
        "tpot_s": "TPOT [s]",
        "most_chips": "chips",
        "most_tpot_s": "TPOT [s]",
    },
    "limits": {
        "machine": "",
        "model": "",
        "measured_s": "published [s]",
        "lower_limit_s": "lower limit [s]",
    },
    "refused": {
        "machine": "",
        "model": "",
        "published_tokens_per_s": "tokens/s",
        "reason": "",
    },
}
TITLES: Final = {
    "forms": "decode steps of Groq TSP v1, network left out of the fit",
    "models": "each model, with constant and interval of the other networks",
    "chips": "predicted on the fewest chips, and on up to four times as many",
    "limits": "lower limits beside published decode steps",
    "refused": "published speeds that are not compared",
}


def machines(*, json: Annotated[bool, SWITCH] = False) -> int:
    """Compare decode steps of statically scheduled machines with published speeds.

    Args:
        json: Print one JSON object.
    """
    from perfatlas.report.text import open_terminal, print_rows
    from validation.machines import validate_machines

    results = validate_machines()
    if json:
        print_json(envelope("validate machines", results=results, scenario={}))
        return 0
    console = open_terminal(sys.stdout)
    for name, columns in COLUMNS.items():
        print_rows(console, results[name], columns=columns, title=TITLES[name])
    return 0
