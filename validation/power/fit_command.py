"""`python -m validation energies`: fit energies per event to sustained loads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from perfatlas.commands.flags import SWITCH
from validation.scoring import print_results

FOLDER: Final = Path("measurements")
SHOWN: Final = {"parameter": "parameter", "value": "fitted", "shipped": "shipped"}


def energies(measurements: Path = FOLDER, *, json: Annotated[bool, SWITCH] = False) -> int:
    """Fit the energies of Hopper to sustained loads, and the issue power of a B200 to its kernels.

    Prints the fitted values beside the shipped ones and writes nothing.

    Args:
        measurements: Folder `measurements` of the perfatlas repository.
        json: Print one JSON object.
    """
    from validation.power import fit_kernels, fit_loads, shipped_values

    shipped = shipped_values()
    rows = [
        {"parameter": name, "value": value, "shipped": shipped[name]}
        for name, value in (fit_loads(Path(measurements)) | fit_kernels()).items()
    ]
    results = {"parameters": rows}
    titles = {"parameters": "fitted and shipped energies"}
    return print_results("energies", results, {"parameters": SHOWN}, titles, json=json)
