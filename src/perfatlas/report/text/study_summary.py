"""The summary of a study: its counts, best rows, and reasons of refused rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from perfatlas.answer import limit_note
from perfatlas.files import Number
from perfatlas.hardware import FIELDS
from perfatlas.quantities import counted, format_quantity
from perfatlas.report.text.quantities import format_value
from perfatlas.report.text.results import limited_text, limits_of
from perfatlas.report.text.rows import label_of, print_labelled, print_rows
from perfatlas.report.text.terminal import print_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

SHOWN_ROWS: Final = 5
REASONS: Final = 5
RATIO: Final = "ratio_to_base"
TITLES: Final = {RATIO: "to base"}


def cell_text(name: str, value: Any) -> str:  # noqa: ANN401 - a cell
    """Return a value with its unit.

    Args:
        name: A field, hardware field or result.

    Example:
        >>> from perfatlas.report.text.study_summary import cell_text
        >>> cell_text("device.memory.bandwidth", 4.8e12), cell_text("batch", 64)
        ('4.8 TB/s', '64')
        >>> cell_text("ratio_to_base", 2.3)
        '2.30x'
    """
    if name == RATIO:
        return "-" if value is None else f"{value:,.2f}x"
    path = re.sub(r"^(prefill|decode|feed_forward)_system\.", "", name)
    reader = FIELDS[path].reader if path in FIELDS else None
    if isinstance(reader, Number) and reader.unit:
        return format_quantity(float(value), reader.unit)
    return format_value(name, value)


def row_text(row: Mapping[str, Any], objective: str) -> str:
    """Return a row in one line: its values, then its objective.

    Args:
        row: A best row of a summary.
    """
    names = [name for name in _columns(row, objective) if name != "point"]
    limit = {_objective_column(row, objective): _limit(row, objective)}
    return ", ".join(
        f"{name.rpartition('.')[2]} {limited_text(cell_text(name, row[name]), limit.get(name, ''))}"
        for name in names
    )


def _columns(row: Mapping[str, Any], objective: str) -> list[str]:
    """Return the columns of a best row that are shown: the objective first, no intervals."""
    column = _objective_column(row, objective)
    hidden = (column, f"{column}_low", f"{column}_high", "point", "tier", RATIO)
    ratio = [RATIO] if RATIO in row else []
    return ["point", column, *ratio, *(name for name in row if name not in hidden)]


def _objective_column(row: Mapping[str, Any], objective: str) -> str:
    """Return the column of the objective in a best row."""
    return objective if objective in row else f"result_{objective}"


def _limit(row: Mapping[str, Any], objective: str) -> str:
    """Return "at least" or "at most" where the objective of a best row is a limit, else ""."""
    column = _objective_column(row, objective)
    ends = ("", "_low", "_high")
    interval = {f"{objective}{end}": row[column + end] for end in ends if column + end in row}
    return limits_of(interval, tier=str(row.get("tier") or "")).get(objective, "")


def print_study_summary(
    console: Console, results: Mapping[str, Any], verb: str, *, verbose: bool
) -> None:
    """Write the counts, best rows and refusals of a run."""
    excluded, refused = sum(results["left_out"].values()), results["failed"]
    counts = [f"{results['answered']:,} answered"]
    counts += [f"{refused:,} refused"] if refused else []
    counts += [f"{excluded:,} left out by constraints"] if excluded else []
    print_line(console, f"{verb} at {counted(results['points'], 'point')}", style="bold")
    print_line(console, ", ".join(counts))
    if bounds := results["rows_in_tier_bound"]:
        print_line(console, f"{bounds:,} rows in tier bound: limits, not predictions")
    _print_best(console, results, verbose=verbose)
    lines = [(f"{count:,}", f"left out: not {text}") for text, count in results["left_out"].items()]
    lines += [(f"{count:,}", f"not met: {text}") for text, count in results["not_met"].items()]
    shown = results["refusals"] if verbose else results["refusals"][:REASONS]
    lines += [
        (f"{row['count']:,}", f"refused, as point {row['point']}: {row['error'][:200]}")
        if row["error"]
        else (f"{row['count']:,}", row["reason"])
        for row in shown
    ]
    print_labelled(console, lines)
    if hidden := len(results["refusals"]) - len(shown):
        print_line(console, f"--verbose shows {counted(hidden, 'further reason')}", style="dim")


def _print_best(console: Console, results: Mapping[str, Any], *, verbose: bool) -> None:
    if not results["best"]:
        return
    objective = results["objective"]
    shown = results["best"] if verbose else results["best"][:SHOWN_ROWS]
    names = _columns(shown[0], objective)
    rows = [{name: cell_text(name, row[name]) for name in names} for row in shown]
    if len({limit_note(str(row.get("tier") or "")) for row in shown}) > 1:
        for cells, row in zip(rows, shown, strict=True):
            column = _objective_column(row, objective)
            cells[column] = limited_text(cells[column], _limit(row, objective))
            cells["tier"] = str(row.get("tier") or "")
        names = [*names, "tier"]
    titles = {
        name: label_of(name.removeprefix("result_"), short=True)
        if name in (objective, f"result_{objective}")
        else TITLES.get(name, name.removeprefix("device."))
        for name in names
    }
    which = "highest" if results["better"] == "higher" else "lowest"
    title = f"{which} {label_of(objective)}"
    print_rows(console, rows, columns=titles, title=title)
