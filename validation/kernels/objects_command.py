"""`python -m validation objects`."""

from __future__ import annotations

from typing import Annotated, Final

from perfatlas.commands.flags import SWITCH
from validation.scoring import print_results

COLUMNS: Final = {
    "objects": {
        "family": "",
        "rows": "rows",
        "sources": "sources",
        "median_error": "error",
        "bias": "bias",
        "design_median_error": "error of the design",
        "rows_corrected": "rows with a factor",
        "same_rows_error": "their error",
        "corrected_error": "with the factor",
    },
}
TITLES: Final = {"objects": "times of compiled kernels against measured ones, all left out"}


def objects(*, json: Annotated[bool, SWITCH] = False) -> int:
    """Compare times of compiled kernels, from their instructions, with measured ones.

    Args:
        json: Print one JSON object, with every kernel.
    """
    from validation.kernels.objects import validate_objects

    results = validate_objects()
    return print_results("objects", results, COLUMNS, TITLES, json=json)
