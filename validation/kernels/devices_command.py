"""`python -m validation devices`."""

from __future__ import annotations

from typing import Annotated, Final

from perfatlas.commands.flags import SWITCH, WrittenFile
from validation.scoring import print_results

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


COLUMNS: Final = {
    "steps": STEP_COLUMNS,
    "runs": {key: text for key, text in STEP_COLUMNS.items() if key != "steps"},
    "ratios": RATIO_COLUMNS,
}
TITLES: Final = {
    "steps": "steps of one GPU against its own tables",
    "runs": "published serving runs, TPOT",
    "ratios": "ratio of TPOT of one plan on two devices",
}


def devices(*, json: Annotated[bool, SWITCH] = False, page: WrittenFile | None = None) -> int:
    """Compare devices priced as if they had no tables: by date, by kind, one left out.

    Args:
        json: Print one JSON object.
        page: Write this Markdown page.
    """
    from validation.kernels.devices import validate_devices

    results = validate_devices()
    if page is not None:
        from validation.kernels.devices_page import write_devices_page

        write_devices_page(page, results)
        return 0
    return print_results("devices", results, COLUMNS, TITLES, json=json)
