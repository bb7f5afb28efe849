"""`python -m validation devices`."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Final

from perfatlas.commands.flags import SWITCH, WrittenFile
from perfatlas.commands.output import envelope, print_json

STEP_COLUMNS: Final = {
    "split": "",
    "system": "scored",
    "steps": "steps",
    "asked": "asked",
    "scored": "answered",
    "median_error": "error",
    "bias": "bias",
    "inside_90": "in 90%",
    "width": "high/low",
}
RATIO_COLUMNS: Final = {
    "devices": "",
    "engine": "engine",
    "pairs": "pairs",
    "measured_ratio": "measured",
    "predicted_ratio": "predicted",
    "points": "difference",
    "relative": "error",
    "bias": "bias",
}
TABLES: Final = (
    ("steps", "steps of one GPU against its own tables", STEP_COLUMNS),
    ("runs", "published serving runs, TPOT", STEP_COLUMNS),
    ("ratios", "ratio of TPOT of one plan on two devices", RATIO_COLUMNS),
)


def devices(*, json: Annotated[bool, SWITCH] = False, page: WrittenFile | None = None) -> int:
    """Compare devices priced as if they had no tables: by date, by kind, one left out.

    Args:
        json: Print one JSON object.
        page: Write this Markdown page.
    """
    from perfatlas.report.text import open_terminal, print_rows
    from validation.kernels.devices import validate_devices

    results = validate_devices()
    if page is not None:
        from validation.kernels.devices_page import write_devices_page

        write_devices_page(page, results)
        return 0
    if json:
        print_json(envelope("validation devices", results=results, scenario={}))
        return 0
    console = open_terminal(sys.stdout)
    for name, title, columns in TABLES:
        rows: list[dict[str, Any]] = results[name]
        shown = {key: text for key, text in columns.items() if rows and key in rows[0]}
        print_rows(console, rows, columns=shown, title=title)
    return 0
