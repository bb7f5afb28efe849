"""The page of tier measured, from scored cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import check_writable, write_atomic
from validation.kernels.measured import validate_measured
from validation.kernels.measured_medians import TUNED
from validation.scoring import (
    EMPTY_CELL,
    data_text,
    goal_of,
    kernel_goals,
    percent,
    table,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from validation.kernels.measured_medians import UnseenScore

Row = dict[str, Any]
REGENERATE: Final = "python -m validation measured --page validation/pages/measured.md"
TEMPLATE: Final = "measured_page.md"


def write_measured_page(
    path: Path, progress: Callable[[UnseenScore], None] | None = None
) -> list[Row]:
    """Score every cell, write the page, and return the medians on held-out shapes.

    Args:
        path: The Markdown file.
        progress: Called after each score.

    Raises:
        MissingDependencyError: The measured tables are not installed.
        InvalidSpecError: The file cannot be written.
    """
    check_writable(path)
    medians = validate_measured(progress=progress)["medians"]
    write_atomic(path, measured_page(medians))
    return medians


def measured_page(medians: Sequence[Row]) -> str:
    """Return the page.

    Args:
        medians: On unseen shapes, of `validate_measured`.
    """
    return data_text(TEMPLATE).format(
        regenerate=REGENERATE,
        tuned=", ".join(TUNED),
        tally=_tally(medians),
        unseen=_unseen(medians),
    )


def _tally(medians: Sequence[Row]) -> str:
    """Return the number of cells that meet their goal, per goal."""
    rows = []
    for goal in kernel_goals()["goal"]:
        met = [row["goal_met"] for row in medians if _goal_name(row) == goal["name"]]
        met = [one for one in met if one != EMPTY_CELL]
        if met:
            rows.append([goal["name"], str(len(met)), str(met.count("yes"))])
    return table(["goal", "cells", "met"], rows)


def _goal_name(row: Row) -> str:
    goal = goal_of((row["operator"], row["family"], row["format"]))
    return goal["name"] if goal else ""


def _unseen(medians: Sequence[Row]) -> str:
    headings = ["operator", "engine", "format", "unseen", "GPUs", "rows", "goal", "physics"]
    headings += ["measured", "tuned", "others", "inside 90%", "half-width"]
    return table(
        headings,
        (
            [
                *(row[name] for name in ("operator", "family", "format", "unseen")),
                str(row["gpus"]),
                f"{row['rows']:,}",
                percent(row["goal_mape"]),
                percent(row["physics_mape"]),
                _against(row, "measured_mape"),
                _against(row, "tuned_mape"),
                _against(row, "others_mape"),
                percent(row["inside_90"]),
                percent(row["half_width"]),
            ]
            for row in medians
            if row["gpus"]
        ),
    )


def _against(row: Row, name: str) -> str:
    """Return an error, in bold where it is above the goal."""
    text, limit = percent(row[name]), row["goal_mape"]
    above = limit is not None and row[name] is not None and _distance(row, name) > 0.0
    return f"**{text}**" if above else text


def _distance(row: Row, name: str) -> float:
    """Return the excess of an error over the goal, both rounded to 0.1%."""
    return round(round(100.0 * float(row[name]), 1) - round(100.0 * float(row["goal_mape"]), 1), 1)
