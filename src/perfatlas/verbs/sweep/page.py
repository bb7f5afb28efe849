"""HTML page of a sweep: its objective by what varies, as curves with intervals or a heat map."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from perfatlas.report.charts import COLOURS, GREY, Axis, HeatMap, Line, LineChart
from perfatlas.report.pages import Section, Table, results_page
from perfatlas.report.text import format_value, label_of, spelled_out
from perfatlas.studies.sweeps import RESULT_PREFIX, is_higher_better
from perfatlas.vocabulary.metrics import find_metric

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.report.charts import Drawing
    from perfatlas.report.pages import Page

    Rows = Sequence[Mapping[str, Any]]
    Columns = Mapping[str, Sequence[Any]]

MOST_LINES: Final = 5
MOST_CELLS: Final = 30  # of an axis of a heat map
FEWEST: Final = 3  # numbers that make a curve


def sweep_page(
    answer: Mapping[str, Any], columns: Columns | None = None, *, reproduce: str
) -> Page:
    """Return a sweep as an HTML page.

    Args:
        columns: All rows as columns; None for the summary alone.
    """
    results, study = answer["results"], answer["scenario"]["study"]
    sections = _charts(columns, study, results["objective"]) if columns else []
    best = results["best"]
    if best:
        cells = {
            name: (lambda row, name=name: _cell(name, row.get(name)))
            for name in dict.fromkeys(name for row in best for name in row)
        }
        sections.append(Section(title="Best rows", blocks=[Table.of(best, cells, tuple(cells))]))
    return results_page(answer, sections=sections, reproduce=reproduce)


def _cell(name: str, value: object) -> str:
    return "-" if value is None else format_value(name, value)


def _charts(columns: Columns, study: Mapping[str, Any], objective: str) -> list[Section]:
    """Return the objective over what varies; of combinations of other values, the best."""
    name = RESULT_PREFIX + objective if RESULT_PREFIX + objective in columns else objective
    if name not in columns:
        return []
    rows = [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]
    rows = [row for row in rows if row[name] is not None]
    found = {key: list(dict.fromkeys(row.get(key) for row in rows)) for key in _varied(study)}
    axes = {key: values for key, values in found.items() if len(values) > 1}
    if not axes:
        return []
    shown = label_of(objective)
    metric = find_metric(objective)
    value = Axis(shown, "s" if metric and metric.unit == "s" else "")
    curve = next((text for text, values in axes.items() if _is_curve(values)), None)
    lines = math.prod(len(values) for text, values in axes.items() if text != curve)
    if curve is not None and lines <= MOST_LINES:
        figure: Drawing = _curves(rows, axes, curve, (name, value))
        return [Section.charted(f"{shown} by {spelled_out(curve)}", figure)]
    x, *more = sorted(axes, key=lambda name: -len(axes[name]))
    own = {key: axes[key] for key in (x, *more[:1])}
    if hidden := ", ".join(map(spelled_out, more[1:])):
        value = value._replace(title=f"{shown}, best {hidden}")
    figure = _cells(rows, own, (name, value), higher=is_higher_better(objective))
    return [Section.charted(f"{shown} by {' and '.join(map(spelled_out, own))}", figure)]


def _varied(study: Mapping[str, Any]) -> list[str]:
    """Return the names that a study varies, alone or together."""
    together = study.get("zip", ())
    tables = [study.get("vary", {}), *([together] if isinstance(together, dict) else together)]
    sampled = study.get("sample", {})
    return [*dict.fromkeys(name for table in tables for name in table), *sampled]


def _is_curve(values: Sequence[Any]) -> bool:
    numbers = all(
        isinstance(value, (int, float)) and not isinstance(value, bool) for value in values
    )
    return numbers and len(values) >= FEWEST


def _curves(
    rows: Rows, axes: Mapping[str, Sequence[Any]], x: str, of: tuple[str, Axis]
) -> LineChart:
    """Return the objective over a number, a line for each combination of the others."""
    name, value = of
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        others = [f"{spelled_out(axis)} {row[axis]}" for axis in axes if axis != x]
        groups.setdefault(", ".join(others) or value.title, []).append(row)
    colours = (*COLOURS, *[GREY] * len(groups))
    lines = [
        Line.of(sorted(own, key=lambda row: float(row[x])), x, name, group, colour)
        for (group, own), colour in zip(groups.items(), colours, strict=False)
    ]
    numbers = [float(one) for one in axes[x]]
    wide = min(numbers) > 0.0 and max(numbers) / min(numbers) > 10.0 * FEWEST
    return LineChart(lines, Axis(spelled_out(x), log=wide), value)


def _cells(
    rows: Rows, axes: Mapping[str, Sequence[Any]], of: tuple[str, Axis], *, higher: bool
) -> HeatMap:
    """Return the best objective of each pair of values of two axes, or of one."""
    name, values = of
    (x, columns), *more = axes.items()
    (y, lines) = more[0] if more else ("", [""])
    columns, lines = _ordered(columns)[:MOST_CELLS], _ordered(lines)[:MOST_CELLS]
    best: dict[tuple[Any, Any], float] = {}
    for row in rows:
        place = row[x], row[y] if y else ""
        value = float(row[name])
        known = best.get(place, value)
        best[place] = max(known, value) if higher else min(known, value)
    cells = [[best.get((column, line)) for column in columns] for line in lines]
    texts = [
        ["" if number is None else format_value(name, number) for number in row] for row in cells
    ]
    names = ((spelled_out(x), list(map(str, columns))), (spelled_out(y), list(map(str, lines))))
    return HeatMap(*names, cells, texts, values)


def _ordered(values: Sequence[Any]) -> list[Any]:
    return sorted(values) if _is_curve(values) else list(values)
