"""HTML page of a profile: times, classes and operators beside the prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.report.charts import BLUE, ORANGE, Axis, BarPart, StackedBars
from perfatlas.report.pages import Page, Section, Table, Value
from perfatlas.report.text import format_value
from perfatlas.verbs.profile.text import (
    change_rows,
    class_changes,
    class_rows,
    operator_rows,
    prediction_lines,
    profile_title,
    retimed_lines,
    time_lines,
)
from perfatlas.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Facts = Mapping[str, Any]

MOST_BARS: Final = 12  # operators in the chart
MOST_ROWS: Final = 200  # operators in the table
TEXTS: Final = ("operator", "class", "", "predicted")


def profile_page(results: Facts, *, reproduce: str) -> Page:
    """Return the results of `profile` as an HTML page."""
    times = [(label.strip(), text) for label, text in time_lines(results)]
    sections = [
        Section(title="Time", blocks=[_pairs([*times, *prediction_lines(results)])]),
        *_classes(results),
        *_operators(results["operators"]),
    ]
    for name, label in (("against", "against"), ("on", "was")):
        if name in results:
            sections += _changes(results, name, label)
    if results["integrity"]:
        rows = [[note] for note in results["integrity"]]
        sections.append(Section(title="Integrity", blocks=[Table(head=("note",), rows=rows)]))
    return Page(
        command="profile",
        title=profile_title(results),
        values=[
            Value(label=label, value=format_value("time_s", results[name]))
            for name, label in (("wall_s", "first to last activity"), ("busy_s", "busy"))
            if results[name] is not None
        ],
        sections=sections,
        reproduce=reproduce,
        versions={"perfatlas": __version__},
    )


def _pairs(lines: Sequence[tuple[str, str]]) -> Table:
    return Table(head=("", ""), rows=lines, text_columns=(0, 1))


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return rows of equal titles as a table."""
    head = tuple(rows[0])
    texts = [place for place, title in enumerate(head) if title in TEXTS]
    return Table(
        head=head, rows=[[str(one) for one in row.values()] for row in rows], text_columns=texts
    )


def _bars(rows: Sequence[Facts], name: str) -> StackedBars:
    """Return the times of rows as bars."""
    texts = [format_value("time_s", row["time_s"]) for row in rows]
    part = BarPart("measured", [1e3 * row["time_s"] for row in rows], texts, BLUE)
    return StackedBars([row[name] for row in rows], [part], Axis("time [ms]"))


def _classes(results: Facts) -> list[Section]:
    if not results["classes"]:
        return []
    figure = _bars(results["classes"], "class")
    return [Section.charted("Time by class", figure, _table(class_rows(results)))]


def _operators(operators: Sequence[Facts]) -> list[Section]:
    if not operators:
        return []
    shown = _table(operator_rows(operators[:MOST_ROWS], roofline=True))
    told = (
        [] if len(operators) <= MOST_ROWS else [f"The longest {MOST_ROWS} of {len(operators):,}."]
    )
    priced = [row for row in operators if row["predicted_s"]][:MOST_BARS]
    if not priced:
        return [Section(title="Operators", blocks=[shown, *told])]
    names = [f"{row['name'][:34]} {row['shape'][:40]}".strip() for row in priced]
    sides = [
        BarPart(
            label,
            [1e3 * row[key] if side == place % 2 else 0.0 for row in priced for place in (0, 1)],
            [format_value("time_s", row[key]) for row in priced for _ in (0, 1)],
            colour,
        )
        for side, (label, key, colour) in enumerate(
            (("measured", "time_s", BLUE), ("predicted", "predicted_s", ORANGE))
        )
    ]
    rows = [f"{name} {side}" for name in names for side in ("", "(predicted)")]
    figure = StackedBars(rows, sides, Axis("time [ms]"))
    return [Section.charted("Operators beside their predictions", figure, shown, *told)]


def _changes(results: Facts, name: str, label: str) -> list[Section]:
    """Return what changed against another profile, or on another system."""
    changes = results[name]
    if name == "on":
        title, first = f"Re-timed on {changes['system']}", [_pairs(retimed_lines(results))]
    else:
        title, first = f"Against {changes['device'] or 'unnamed device'}", []
    rows = (class_changes(changes, label), change_rows(changes, label, MOST_ROWS))
    return [Section(title=title, blocks=[*first, *(_table(one) for one in rows if one)])]
