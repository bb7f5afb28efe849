"""The generated part of the page of tier measured, from scored cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import check_writable, write_atomic
from perfatlas.quantities import InvalidSpecError
from validation.kernels.measured import validate_measured
from validation.kernels.measured_edges import validate_edges
from validation.kernels.measured_medians import TUNED
from validation.scoring import (
    EMPTY_CELL,
    data_text,
    goal_of,
    kernel_goals,
    percent,
    read_data,
    table,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from validation.kernels.measured_medians import UnseenScore

Row = dict[str, Any]
REGENERATE: Final = "python -m validation measured --page validation/pages/measured.md"
FIRST: Final = "<!-- generated -->\n"
LAST: Final = "<!-- end of generated -->\n"
TEMPLATE: Final = "measured_page.md"
REASONS: Final = "measured_misses.toml"


def write_measured_page(
    path: Path, progress: Callable[[UnseenScore], None] | None = None
) -> dict[str, list[Row]]:
    """Score every cell, write the figures between the markers of a page, and return the medians.

    Args:
        path: A Markdown file with the lines `FIRST` and `LAST`.
        progress: Called after each score.

    Returns:
        {"medians": on held-out shapes, "edges": beyond the measured sizes}.

    Raises:
        MissingDependencyError: The measured tables are not installed.
        InvalidSpecError: The file cannot be read or written, or has no markers.
    """
    check_writable(path)
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise InvalidSpecError(f"cannot read {path}: {error.strerror}") from error
    before, first, rest = text.partition(FIRST)
    _, last, after = rest.partition(LAST)
    if not first or not last:
        raise InvalidSpecError(
            f"{path} has no markers: add {FIRST.strip()} and {LAST.strip()}, each on a separate"
            " line"
        )
    medians = validate_measured(progress=progress)["medians"]
    edges = validate_edges(progress=progress)["medians"]
    write_atomic(path, f"{before}{first}{measured_page(medians, edges)}{last}{after}")
    return {"medians": medians, "edges": edges}


def measured_page(medians: Sequence[Row], edges: Sequence[Row]) -> str:
    """Return the generated part of the page.

    Args:
        medians: On unseen shapes, of `validate_measured`.
        edges: Beyond the measured sizes, of `validate_edges`.
    """
    return data_text(TEMPLATE).format(
        regenerate=REGENERATE,
        tuned=", ".join(TUNED),
        tally=_tally(medians),
        unseen=_unseen(medians),
        missed=_missed(medians),
        edges=_edges(edges),
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


def _missed(medians: Sequence[Row]) -> str:
    """Return a line per cell above its goal, largest excess first, with the reason."""
    missed = [row for row in medians if row["goal_met"] == "no"]
    missed.sort(key=lambda row: -_worst(row))
    lines = [
        f"- {row['operator']} {row['family']} {row['format']} ({row['unseen']}):"
        f" {percent(row['measured_mape'])} over all GPUs, {percent(row['others_mape'])} over the"
        f" others, goal {percent(row['goal_mape'])}, above by {_worst(row):.1f}. {_why(row)}"
        for row in missed
    ]
    return "\n".join(lines) or "No cell."


def _worst(row: Row) -> float:
    names = ("measured_mape", "others_mape")
    return max(_distance(row, name) for name in names if row[name] is not None)


def _why(row: Row) -> str:
    names = ("operator", "family", "format", "unseen")
    for reason in miss_reasons():
        if all(reason[name] == row[name] for name in names):
            return str(reason["why"])
    return "Not investigated."


def miss_reasons() -> list[Mapping[str, str]]:
    """Return the known reasons for missed goals."""
    return list(read_data(REASONS).get("miss", []))


def _edges(edges: Sequence[Row]) -> str:
    names = ("physics_mape", "measured_mape", "others_mape", "inside_90", "half_width")
    headings = ["operator", "engine", "format", "GPUs", "rows", "physics", "measured", "others"]
    return table(
        [*headings, "inside 90%", "half-width"],
        (
            [
                *(row[name] for name in ("operator", "family", "format")),
                str(row["gpus"]),
                f"{row['rows']:,}",
                *(percent(row[name]) for name in names),
            ]
            for row in edges
        ),
    )
