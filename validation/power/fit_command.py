"""`python -m validation energies`: fit energies per event to sustained loads."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Final

from perfatlas.commands.flags import SWITCH
from perfatlas.commands.output import envelope, print_json

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
    if json:
        asked = {"measurements": str(measurements)}
        print_json(envelope("validation energies", results={"parameters": rows}, scenario=asked))
        return 0
    from perfatlas.report.text import open_terminal, print_rows

    print_rows(open_terminal(sys.stdout), rows, columns=SHOWN)
    return 0
