"""`python -m validation training`."""

from __future__ import annotations

from typing import Annotated, Final

from perfatlas.commands.flags import SWITCH, WrittenFile
from validation.scoring import SCORES, print_results

ERRORS: Final = {
    "rows": "rows",
    "mape": "MAPE",
    "median_error": "median",
    "bias": "bias",
    "inside_90": "in 90%",
    "width": "high/low",
    **SCORES,
}
HEADINGS: Final = {
    "totals": {"what": "", **ERRORS},
    "splits": {"what": "", **ERRORS},
    "by_source": {"source": "", **ERRORS},
    "by_generation": {"generation": "", "source": "", "gpu": "GPU", "kind": "", **ERRORS},
}
TITLES: Final = {
    "totals": "published training steps",
    "splits": "rows that a split leaves out of the fit",
    "by_source": "by source",
    "by_generation": "a GPU generation left out of the fit",
}


def training(*, json: Annotated[bool, SWITCH] = False, page: WrittenFile | None = None) -> int:
    """Compare predicted with published training steps.

    Args:
        json: Print one JSON object with all parts and rows.
        page: Write the page of the comparison to this Markdown file.
    """
    from validation.training import validate_training

    results = validate_training()
    if page is not None:
        from validation.training.page import write_training_page

        write_training_page(page, results)
    return print_results("training", results, HEADINGS, TITLES, json=json)
