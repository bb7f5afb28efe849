"""`python -m validation machines`."""

from __future__ import annotations

import sys
from typing import Annotated, Final

from perfatlas.commands.flags import SWITCH
from perfatlas.commands.output import envelope, print_json
from validation.runs.shared_data import missing_data, shared_folder

FOLDER: Final = "machines"
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
    "products": {
        "cell": "",
        "band": "rows m",
        "rows": "shapes",
        "median_error": "median",
        "p90_error": "p90",
        "roofline_median_error": "roofline",
    },
    "services": {
        "device": "",
        "source": "source",
        "model": "model",
        "runs": "runs",
        "median_error": "median",
        "error": "signed",
        "inside_90": "in 90%",
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
    "products": "products of AMD GPUs, network left out of the fit, and roofline times a constant",
    "services": "services on AMD GPUs, nothing fitted to them",
    "refused": "published speeds that are not compared",
}


def machines(*, json: Annotated[bool, SWITCH] = False) -> int:
    """Compare machines that are not NVIDIA GPUs with published speeds.

    Args:
        json: Print one JSON object.
    """
    from perfatlas.report.text import open_terminal, print_rows
    from validation.machines import validate_amd, validate_machines, validate_services

    results = {**validate_machines(), "products": validate_amd(), "services": validate_services()}
    if json:
        print_json(envelope("validate machines", results=results, scenario={}))
        return 0
    console = open_terminal(sys.stdout)
    for name, columns in COLUMNS.items():
        if not results[name]:
            console.print(f"{TITLES[name]}: {missing_data(shared_folder() / FOLDER)}")
            continue
        print_rows(console, results[name], columns=columns, title=TITLES[name])
    return 0
