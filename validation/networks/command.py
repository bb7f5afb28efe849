"""`python -m validation networks`."""

from __future__ import annotations

import sys
from typing import Annotated, Final

from perfatlas.commands.flags import SWITCH
from perfatlas.commands.output import envelope, print_json
from perfatlas.quantities import InvalidSpecError
from validation.runs.shared_data import missing_data, shared_folder

ERRORS: Final = {
    "rows": "rows",
    "pairs": "network and GPU",
    "median": "median",
    "p90": "p90",
    "bias": "bias",
    "inside": "in 90%",
    "rescaled": "rescaled",
    "roofline": "roofline",
    "mean_mfu": "mean MFU",
    "power": "power",
    "memory": "memory",  # predicted over measured
}
CONVOLUTIONS: Final = {
    name: text
    for name, text in ERRORS.items()
    if name not in ("pairs", "rescaled", "power", "memory")
}
COLUMNS: Final = {
    "sources": {"source": "", **ERRORS},
    "gpus": {"source": "", "gpu": "GPU", **ERRORS},
    "networks": {"source": "", "network": "network", **ERRORS},
    "server": {
        "gpu": "",
        "network": "network",
        "format": "format",
        "rows": "rows",
        "measured": "measured",
        "predicted": "predicted",
        "error": "error",
    },
    "convolutions": {"gpu": "", "format": "format", **CONVOLUTIONS},
    "operators": {
        "gpu": "",
        "operator": "operator",
        "rows": "rows",
        "median": "median",
        "p90": "p90",
        "bias": "bias",
        "roofline": "roofline",
    },
    "declined": {"rows": "", "reason": ""},
}
TITLES: Final = {
    "sources": "speed of networks, nothing fitted; each network and GPU is one score",
    "gpus": "the same by GPU",
    "networks": "the same by network",
    "server": "MLPerf, rate at the limit of the p99 over the offline rate",
    "convolutions": "single convolutions of DeepBench, nothing fitted",
    "operators": "single operators of measurements/, rates of elementwise ones fitted on H100",
    "declined": "published rows that are not compared",
}
MISSED: Final = 7


def networks(*, json: Annotated[bool, SWITCH] = False) -> int:
    """Compare speed and power of vision, diffusion and encoder networks with published ones.

    Args:
        json: Print one JSON object.
    """
    from perfatlas.report.text import open_terminal, print_rows
    from validation.networks.published import FOLDER
    from validation.networks.scores import validate_networks

    folder = shared_folder() / FOLDER
    if not folder.is_dir():
        raise InvalidSpecError(missing_data(folder))
    results = validate_networks()
    if json:
        print_json(envelope("validation networks", results=results, scenario={}))
        return MISSED if results["failures"] else 0
    console = open_terminal(sys.stdout)
    for name, columns in COLUMNS.items():
        print_rows(console, results[name], columns=columns, title=TITLES[name])
    console.print(f"{results['left_out']} rows left out: they do not fit the device")
    for failure in results["failures"]:
        console.print(failure)
    return MISSED if results["failures"] else 0
