"""`python -m validation outside`."""

from __future__ import annotations

import sys
from typing import Annotated, Final

from perfatlas.commands.flags import SWITCH, WrittenFile
from validation.scoring import print_results, with_units
from validation.serving.outside_page import SUMMARY

WORST: Final = {"worst": "worst", "worst_error": "its error"}
CELLS: Final = {
    "id": "measurement",
    "batch": "batch",
    "half": "half",
    "published": "published",
    "predicted": "predicted",
    "error": "error",
    "low": "low",
    "high": "high",
    "inside_90": "in 90%",
}


COLUMNS: Final = {
    "totals": {"batch": "batch", "rows": "", **SUMMARY},
    "by_scale": {"batch": "batch", "scale": "", "half": "half", **SUMMARY},
    "by_device": {"device": "", "batch": "batch", **SUMMARY},
    "by_source": {"batch": "batch", "source": "", **SUMMARY, **WORST},
    "rows": CELLS,
    "refused": {"id": "measurement", "refused": "reason"},
}
TITLES: Final = {
    "totals": "all measurements",
    "by_scale": "by scale",
    "by_device": "by device",
    "by_source": "by source",
    "rows": "measurements",
    "refused": "without a prediction",
}


def outside(
    *,
    json: Annotated[bool, SWITCH] = False,
    verbose: Annotated[bool, SWITCH] = False,
    page: WrittenFile | None = None,
) -> int:
    """Compare predictions with default settings and published measurements.

    Args:
        json: Print one JSON object.
        verbose: Print every measurement, not only medians.
        page: Write this Markdown page.
    """
    from validation.serving.outside import validate_outside

    results = validate_outside(_progress)
    if page is not None:
        from validation.serving.outside_page import write_outside_page

        write_outside_page(page, results)
        return 0
    if not json:
        results["refused"] = [row for row in results["rows"] if row["refused"]]
        results["rows"] = [with_units(row) for row in results["rows"]]
    columns = {name: shown for name, shown in COLUMNS.items() if verbose or name != "rows"}
    return print_results("outside", results, columns, TITLES, json=json)


def _progress(name: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"{name}\n")
