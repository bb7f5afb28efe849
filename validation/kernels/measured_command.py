"""`python -m validation measured`: tier measured on shapes without rows."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Final

from perfatlas.commands.flags import SWITCH, WITHOUT_NEGATIVE_FLAG, WrittenFile
from perfatlas.commands.output import envelope, print_json
from perfatlas.quantities import UsageError

if TYPE_CHECKING:
    from validation.kernels.measured_medians import UnseenScore

NAMES: Final = ("operator", "family", "format", "unseen")
HEADINGS: Final = {
    "about": "",
    "gpus": "GPUs",
    "rows": "rows",
    "goal_mape": "goal",
    "physics_mape": "physics",
    "measured_mape": "measured",
    "tuned_mape": "tuned",
    "others_mape": "others",
    "inside_90": "in 90%",
    "goal_met": "met",
}


def measured(
    *,
    system: Annotated[list[str] | None, WITHOUT_NEGATIVE_FLAG] = None,
    operator: Annotated[list[str] | None, WITHOUT_NEGATIVE_FLAG] = None,
    page: WrittenFile | None = None,
    json: Annotated[bool, SWITCH] = False,
    verbose: Annotated[bool, SWITCH] = False,
) -> int:
    """Compare tier measured on held-out shapes with its accuracy goals.

    Args:
        system: Device to score, repeatable; by default all with measured tables.
        operator: Operator or collective to score, repeatable; by default all with corrections.
        page: Score all and write the figures between the markers of this Markdown page.
        json: Print one JSON object.
        verbose: Print every row, not only those that fit a screen.
    """
    from validation.kernels.measured import validate_measured
    from validation.kernels.measured_page import write_measured_page

    if page is not None:
        if system or operator or json:
            raise UsageError("--page covers all systems and operators; use it alone")
        write_measured_page(page, progress=_progress)
        return 0
    results = validate_measured(system or (), operator or (), _progress)
    if json:
        set_fields = {"system": system, "operator": operator}
        print_json(envelope("validation measured", results=results, scenario=set_fields))
        return 0
    from perfatlas.report.text import TitledRows, open_terminal, print_tables

    rows = [
        {"about": " ".join(row[name] for name in NAMES), **row}
        for row in results["medians"]
        if row["gpus"]
    ]
    table = TitledRows("unseen shapes: medians", rows, HEADINGS)
    print_tables(open_terminal(sys.stdout), [table], verbose=verbose)
    return 0


def _progress(score: UnseenScore) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"{score.unseen} {score.cell}: {100 * score.measured_mape:.1f}%\n")
