"""Tables of the validation page as Markdown, from scored cells."""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from validation.scoring.medians import goal_of, kernel_goals

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Row = dict[str, Any]
Results = dict[str, list[Row]]  # protocol -> scored cells or medians
EMPTY_CELL: Final = "-"
SEEN: Final = (0.86, 0.94)  # target coverage on held-out rows of a device with its own fit
UNSEEN: Final = 0.80  # minimum coverage on a held-out device
WIDTH: Final = 1.2  # times the p90 error
HEADINGS: Final = {
    "own": "own",
    "unseen-shapes": "unseen shapes",
    "unseen-device": "unseen device",
    "unseen-family": "unseen family",
    "few-shot": "few-shot",
}


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table.

    Args:
        headings: One text per column.
        rows: Cells as text.

    Example:
        >>> from validation.scoring import table
        >>> print(table(["a", "b"], [["1", "2"]]))
        | a | b |
        |---|---|
        | 1 | 2 |
    """
    lines = [f"| {' | '.join(headings)} |", "|" + "---|" * len(headings)]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines)


def percent(value: float | None) -> str:
    """Return a fraction in percent with one decimal, "-" for None."""
    return EMPTY_CELL if value is None else f"{100 * value:.1f}"


def about(row: Row) -> str:
    """Return the name of a cell without its GPU.

    Args:
        row: A scored cell or a median.
    """
    return f"{row['operator']} {row['family']} {row['format']}"


def _by_about(medians: Results) -> dict[str, dict[str, Row]]:
    """Return cell name -> protocol -> median row, sorted."""
    found: dict[str, dict[str, Row]] = defaultdict(dict)
    for protocol, rows in medians.items():
        for row in rows:
            found[about(row)][protocol] = row
    return dict(sorted(found.items()))


def goal_table(medians: Results) -> str:
    """Return the medians over GPUs with their goals; missed ones in bold with the excess.

    Args:
        medians: Protocol -> median rows.
    """
    protocols = [name for name in HEADINGS if name in medians and name != "few-shot"]
    rows = []
    for goal in kernel_goals()["goal"]:
        for name, found in _by_about(medians).items():
            first = next(iter(found.values()))
            of = goal_of((first["operator"], first["family"], first["format"]))
            if of is None or of["name"] != goal["name"]:
                continue
            rows.append([goal["name"], name, *(_goal_cell(found.get(p)) for p in protocols)])
    return table(["goal", "cell", *(HEADINGS[name] for name in protocols)], rows)


def _goal_cell(row: Row | None) -> str:
    if row is None or row["goal_mape"] is None:
        return EMPTY_CELL
    reached, limit = row["goal_median_mape"], row["goal_mape"]
    text = f"{percent(reached)} ({percent(limit)})"
    return text if row["goal_met"] == "yes" else f"**{text} +{percent(reached - limit)}**"


def tally_table(medians: Results) -> str:
    """Return the number of cells that meet their goal, per goal and protocol.

    Args:
        medians: Protocol -> median rows.
    """
    protocols = [name for name in HEADINGS if name in medians and name != "few-shot"]
    rows = []
    for goal in kernel_goals()["goal"]:
        cells = []
        for protocol in protocols:
            met = [
                row
                for row in medians[protocol]
                if (of := goal_of((row["operator"], row["family"], row["format"])))
                and of["name"] == goal["name"]
                and row["goal_mape"] is not None
            ]
            aimed = percent(goal["mape"][protocol])
            count = sum(row["goal_met"] == "yes" for row in met)
            cells.append(f"{count} of {len(met)} (<= {aimed})")
        rows.append([goal["name"], *cells])
    return table(["goal", *(HEADINGS[name] for name in protocols)], rows)


def interval_table(cells: Results) -> str:
    """Return the coverage of the 90% intervals, per operator and protocol.

    Args:
        cells: Protocol -> scored cells.
    """
    rows = []
    for protocol in (name for name in HEADINGS if name in cells and name != "own"):
        groups: dict[str, list[Row]] = defaultdict(list)
        for cell in cells[protocol]:
            if cell["inside_90"] is not None:
                groups[cell["operator"]].append(cell)
        rows += [
            [HEADINGS[protocol], operator, *_interval_cells(found, protocol)]
            for operator, found in sorted(groups.items())
        ]
    headings = [
        "protocol",
        "operator",
        "cells",
        "median coverage",
        "reach the aim",
        "narrow enough",
    ]
    return table([*headings, "median score"], rows)


def _interval_cells(found: Sequence[Row], protocol: str) -> list[str]:
    """Return counts and medians of one operator's intervals."""
    seen = protocol in ("unseen-shapes", "few-shot")
    inside = [row["inside_90"] for row in found]
    good = [x for x in inside if (SEEN[0] <= x <= SEEN[1] if seen else x >= UNSEEN)]
    narrow = [row for row in found if row["half_width"] <= WIDTH * row["p90_error"]]
    return [
        str(len(found)),
        percent(median(inside)),
        str(len(good)),
        str(len(narrow)),
        f"{median(row['interval_score'] for row in found):.2f}",
    ]
