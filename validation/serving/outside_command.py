"""`python -m validation outside`."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Final

from perfatlas.commands.flags import SWITCH, WrittenFile
from perfatlas.commands.output import envelope, print_json
from validation.scoring import SCORES

SUMMARY: Final = {
    "measurements": "rows",
    "answered": "answered",
    "median_error": "error",
    "bias": "bias",
    "inside_90": "in 90%",
    "width": "high/low",
    **SCORES,
}
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
TABLES: Final = (
    ("totals", "all measurements", {"batch": "batch", "rows": ""} | SUMMARY),
    ("by_scale", "by scale", {"batch": "batch", "scale": "", "half": "half"} | SUMMARY),
    ("by_device", "by device", {"device": "", "batch": "batch"} | SUMMARY),
    ("by_source", "by source", {"batch": "batch", "source": ""} | SUMMARY | WORST),
)


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
    from perfatlas.report.text import open_terminal, print_rows
    from validation.serving.outside import validate_outside

    results = validate_outside(_progress)
    if page is not None:
        from validation.serving.outside_page import write_outside_page

        write_outside_page(page, results)
        return 0
    if json:
        print_json(envelope("validation outside", results=results, scenario={}))
        return 0
    console = open_terminal(sys.stdout)
    for name, title, columns in TABLES:
        print_rows(console, results[name], columns=columns, title=title)
    if verbose:
        cells = [_spelled(row) for row in results["rows"]]
        print_rows(console, cells, columns=CELLS, title="measurements")
    refused = [row for row in results["rows"] if row["refused"]]
    columns = {"id": "measurement", "refused": "reason"}
    print_rows(console, refused, columns=columns, title="without a prediction")
    return 0


def _spelled(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with values as text in the unit of its metric."""
    from perfatlas.report.text import format_value

    values = {
        name: format_value(row["metric"], row[name])
        for name in ("published", "predicted", "low", "high")
        if row[name] is not None
    }
    return {**row, **values}


def _progress(name: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"{name}\n")
