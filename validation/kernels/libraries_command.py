"""`python -m validation libraries`."""

from __future__ import annotations

from typing import Annotated, Final

from perfatlas.commands.flags import SWITCH
from validation.scoring import print_results

SCORES: Final = {
    "algorithm": "algorithm",
    "vendor": "vendor",
    "rows": "rows",
    "on": "devices",
    "median_error": "median",
    "left_out_error": "devices left out",
    "covered": "in interval of others",
}


def libraries(
    *, write: Annotated[bool, SWITCH] = False, json: Annotated[bool, SWITCH] = False
) -> int:
    """Fit library calls to published times, and score each device left out of the fit.

    Args:
        write: Write the parameters that ship.
        json: Print one JSON object.
    """
    from validation.kernels.libraries import scores, write_fits

    if write:
        write_fits()
    rows = [{**row, "on": len(row["devices"].split())} for row in scores()]
    titles = {"scores": "published times of libraries by algorithm"}
    return print_results("libraries", {"scores": rows}, {"scores": SCORES}, titles, json=json)
