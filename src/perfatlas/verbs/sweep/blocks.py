"""What a sweep shows on a page: its objective by what varies.

What varies decides the chart. Samples are points over each number that is sampled. A grid is a
line for each combination of other values over the number with most values, or bars if no number
has three. Too many lines become panels, and many values of one name a heat map.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from perfatlas.hardware import FIELDS, unit_of
from perfatlas.report import charts
from perfatlas.report.pages import Section, Table, Values, results_page
from perfatlas.report.text import (
    Value,
    cell_text,
    format_value,
    interval_text,
    label_of,
    spelled_out,
)
from perfatlas.studies.sweeps import RESULT_PREFIX, flattened, is_higher_better, overridden
from perfatlas.vocabulary.metrics import find_metric

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perfatlas.report.pages import Page

    Row = Mapping[str, Any]
    Rows = Sequence[Row]
    Columns = Mapping[str, Sequence[Any]]
    Factor = tuple[str, ...]  # names that vary together

ABBREVIATIONS: Final = re.compile(r"\b(sm|l2|tdp)\b")
MAX_LINES: Final = 6  # of a chart; more are panels, or a heat map
MAX_BANDS: Final = 3  # intervals of a chart that can be told apart
MAX_PANELS: Final = 12
MAX_CELLS: Final = 40  # of an axis of a heat map
MAX_BARS: Final = 30
MIN_CURVE_POINTS: Final = 3  # numbers that make a curve
COLOURS_OF_LINES: Final = (*charts.COLOURS, charts.SLATE)
WITHOUT_BANDS: Final = "`perfatlas runs export` writes the rows with their 90% intervals."
MET: Final = "meets_constraints"


def sweep_page(answer: Row, columns: Columns | None = None, *, reproduce: str) -> Page:
    """Return a sweep as an HTML page.

    Args:
        columns: All rows as columns; None for the summary alone.
    """
    results, study = answer["results"], answer["scenario"]["study"]
    objective = results["objective"]
    column = (
        RESULT_PREFIX + objective if RESULT_PREFIX + objective in (columns or ()) else objective
    )
    rows: list[Row] = []
    if columns and column in columns:
        every = zip(*columns.values(), strict=True)
        rows = [dict(zip(columns, values, strict=True)) for values in every]
        rows = [row for row in rows if row[column] is not None]
    factors = _factors(rows, study)
    sections = _Picture(rows, column, objective, tuple(study.get("base", ()))).sections(
        factors, [name for name in flattened(study.get("sample", {}).get("vary", {})) if rows]
    )
    best = results["best"]
    if best:
        ends = ("_low", "_high")
        shown = dict.fromkeys(name for row in best for name in row if not name.endswith(ends))
        if len({row.get("tier") for row in best}) == 1:
            shown.pop("tier", None)
        cells = {
            label_of(name, short=True) if find_metric(name) else label_of(_words(name)): (
                lambda row, name=name: cell_text(name, row[name]) if name in row else "-"
            )
            for name in shown
        }
        sections.append(Section(title="Best rows", blocks=[Table.of(best, cells, tuple(cells))]))
    names = [_words(name) for factor in factors for name in factor]
    title = f"{study['verb']}: {label_of(objective)}" if objective else str(study["verb"])
    fixed = study.get("scenario", {})
    for word, name in (("of", "model"), ("on", "system")):
        title += f" {word} {fixed[name]}" if objective and name in fixed else ""
    title += f" by {_listed(names)}" if objective and names else ""
    return results_page(
        answer,
        *sections,
        title=title,
        lines=(),
        shown=Values(all=_summary(results, flattened(study.get("scenario", {})))),
        reproduce=reproduce,
    )


def _summary(results: Row, fixed: Row) -> list[Value]:
    """Return the best value with its interval, what it is reached with, and the counts of rows."""
    objective, shown = results["objective"], []
    if results["best"]:
        row = results["best"][0]
        own = objective if objective in row else RESULT_PREFIX + objective
        ends = {name.removeprefix(RESULT_PREFIX): value for name, value in row.items()}
        which = "highest" if results["better"] == "higher" else "lowest"
        value = cell_text(objective, row[own])
        shown.append(Value(f"{which} {label_of(objective)}", value, interval_text(ends, objective)))
        hidden = (own, f"{own}_low", f"{own}_high", "point", "tier")
        at = [f"{_words(name)} {cell_text(name, row[name])}" for name in row if name not in hidden]
        shown.append(Value("reached at", ", ".join(at), ""))
    if fixed:
        same = [f"{_words(name)} {cell_text(name, value)}" for name, value in fixed.items()]
        shown.append(Value("at all points", ", ".join(same), ""))
    left_out = sum(results["left_out"].values())
    counts = {"points": results["points"], "answered": results["answered"]}
    counts |= {"refused": results["failed"], "left out by constraints": left_out}
    shown += [Value(name, f"{count:,}", "") for name, count in counts.items() if count]
    return shown


def _factors(rows: Rows, study: Row) -> list[Factor]:
    """Return what varies, of names that vary together those that tell rows apart, texts first."""
    zips = study.get("zip", ())
    groups = [[name] for name in flattened(study.get("vary", {}))]
    groups += [list(flattened(table)) for table in zips]
    groups += [[name] for name in flattened(study.get("sample", {}).get("vary", {}))]
    factors = []
    for group in groups:
        known = [name for name in group if rows and name in rows[0]]
        known.sort(key=lambda name: _is_number([row[name] for row in rows]))
        kept: list[str] = []
        for name in known:
            if len(_distinct(rows, (*kept, name))) > max(1, len(_distinct(rows, kept))):
                kept.append(name)
        if kept:
            factors.append(tuple(kept))
    return factors


def _distinct(rows: Rows, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return the values of names in rows, each once, in order."""
    return list(dict.fromkeys(tuple(row[name] for name in names) for row in rows))


def _is_number(values: Sequence[Any]) -> bool:
    """Return whether all values are numbers, or unset."""
    known = [value for value in values if value not in (None, "")]
    return all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in known)


class _Picture:
    """The charts of an objective over the rows of a study."""

    def __init__(self, rows: Rows, column: str, objective: str, base: Sequence[str]) -> None:
        """Keep what all charts need."""
        self.rows, self.column, self.base = rows, column, base
        self.higher = is_higher_better(objective)
        self.label, self.value = label_of(objective), charts.Axis.of(objective)

    def sections(self, factors: Sequence[Factor], sampled: Sequence[str]) -> list[Section]:
        """Return the charts, chosen by what varies."""
        continuous = [
            name for name in sampled if (name,) in factors and self._is_curve(name, 1 + MAX_LINES)
        ]
        if continuous:
            others = [factor for factor in factors if factor[0] not in continuous]
            return [
                Section.charted(self._title(name), self._dots(name, others)) for name in continuous
            ]
        names = [
            name for factor in factors for name in factor if self._is_curve(name, MIN_CURVE_POINTS)
        ]
        x = max(names, key=lambda name: (name not in self.base, self._count((name,))), default="")
        left = [tuple(name for name in factor if name != x) for factor in factors]
        shared, panels = self._panels([factor for factor in left if factor], curved=bool(x))
        return self._paneled(x, shared, panels)

    def _is_curve(self, name: str, fewest: int) -> bool:
        values = [row[name] for row in self.rows]
        complete = None not in values and "" not in values
        return complete and _is_number(values) and self._count((name,)) >= fewest

    def _count(self, names: Sequence[str]) -> int:
        return len(_distinct(self.rows, names))

    def _panels(
        self, factors: Sequence[Factor], *, curved: bool
    ) -> tuple[list[str], list[list[str]]]:
        """Return the names that share a chart, and those that have a panel for each value.

        The factor with fewest values leaves the chart first, and those compared with a base last.
        """
        shared = sorted(factors, key=lambda factor: (self._is_base(factor), self._count(factor)))
        panels: list[Factor] = []
        while len(shared) > 1:
            if curved and self._count([name for one in shared for name in one]) <= MAX_LINES:
                break
            panels.append(shared.pop(0))
        while panels and self._count([name for one in panels for name in one]) > MAX_PANELS:
            panels.pop()  # of its values the best is shown
        return [name for one in shared for name in one], [list(one) for one in panels]

    def _is_base(self, factor: Factor) -> bool:
        return any(name in self.base for name in factor)

    def _paneled(
        self, x: str, shared: Sequence[str], panels: Sequence[Sequence[str]]
    ) -> list[Section]:
        """Return a chart for each combination of the values of panels."""
        apart = [name for names in panels for name in names]
        shown = [name for name in (*apart, *shared, x) if name]
        rows = self._best(shown)
        if not shown:
            return []
        found = []
        for values in _distinct(rows, apart):
            own = [row for row in rows if tuple(row[name] for name in apart) == values]
            chart = self._chart(own, x, shared)
            title = self._title(x, *([] if isinstance(chart, charts.LineChart) else shared))
            if apart:
                title += f", {self._labels(apart)(values)}"
            known = any(row.get(f"{self.column}_low") is not None for row in own)
            notes = _left_out(chart, len(own), known=known)
            found.append(Section.charted(title, chart, *notes))
        return found

    def _best(self, names: Sequence[str]) -> Rows:
        """Return the best row of each combination of values of names."""
        best: dict[tuple[Any, ...], Row] = {}
        for row in self.rows:
            key = tuple(row[name] for name in names)
            sign = 1.0 if self.higher else -1.0
            if key not in best or sign * row[self.column] > sign * best[key][self.column]:
                best[key] = row
        if len(best) < len(self.rows):
            which = "highest" if self.higher else "lowest"
            self.value = self.value._replace(title=f"{which} {self.value.title} of other values")
        return list(best.values())

    def _title(self, *names: str) -> str:
        return f"{self.label} by {_listed([_words(name) for name in names if name])}"

    def _chart(self, rows: Rows, x: str, shared: Sequence[str]) -> charts.Drawing:
        """Return lines over a number, a heat map of many lines, or bars."""
        label = self._labels(shared)
        if not x:
            return self._bars(rows, shared, label)
        groups = _distinct(rows, shared)
        if len(groups) > MAX_LINES:
            return self._cells(rows, x, shared, label)
        lines = []
        for values, colour in zip(groups, COLOURS_OF_LINES, strict=False):
            own = [row for row in rows if tuple(row[name] for name in shared) == values]
            own.sort(key=lambda row: float(row[x]))
            name = label(values) or self.value.title
            if all(row.get("tier") == "bound" for row in own):
                name += " (tier bound)"
            line = charts.Line.of(own, x, self.column, name, colour)
            lines.append(line if len(groups) <= MAX_BANDS else line._replace(low=(), high=()))
        missed = [row for row in rows if row.get(MET) is False]
        if missed:
            dots = charts.Line.of(
                missed, x, self.column, "does not meet the constraints", charts.SLATE
            )
            lines.append(dots._replace(kind="dots", low=(), high=()))
        return self._scaled(lines, x)

    def _scaled(self, lines: Sequence[charts.Line], x: str) -> charts.LineChart:
        """Return lines with logarithmic axes where their values span decades."""
        along, up = (
            charts.spans_decades(row[name] for row in self.rows) for name in (x, self.column)
        )
        path = overridden(x)[1]
        axis = charts.Axis(_words(x), unit_of(path)) if path in FIELDS else charts.Axis.of(x)
        return charts.LineChart(lines, axis._replace(log=along), self.value._replace(log=up))

    def _dots(self, x: str, others: Sequence[Factor]) -> charts.LineChart:
        """Return all rows as points over a sampled number, colored by the other factor."""
        colored = [one for one in others if self._count(one) <= MAX_LINES]
        by = max(colored, key=self._count, default=())
        label = self._labels(by)
        lines = []
        for values, colour in zip(_distinct(self.rows, by), COLOURS_OF_LINES, strict=False):
            own = [row for row in self.rows if tuple(row[name] for name in by) == values]
            line = charts.Line.of(own, x, self.column, label(values) or self.value.title, colour)
            lines.append(line._replace(kind="dots", low=(), high=()))
        return self._scaled(lines, x)

    def _bars(
        self, rows: Rows, names: Sequence[str], label: Callable[[tuple[Any, ...]], str]
    ) -> charts.BarChart:
        """Return a bar for each row; the first of too many."""
        bars = []
        for row in rows[:MAX_BARS]:
            low, high = row.get(f"{self.column}_low"), row.get(f"{self.column}_high")
            bars.append(
                charts.Bar(
                    label(tuple(row[name] for name in names)),
                    float(row[self.column]),
                    format_value(self.column.removeprefix(RESULT_PREFIX), row[self.column]),
                    interval=None if low is None or high is None else (low, high),
                )
            )
        return charts.BarChart(bars, self.value)

    def _cells(
        self, rows: Rows, x: str, shared: Sequence[str], label: Callable[[tuple[Any, ...]], str]
    ) -> charts.HeatMap:
        """Return the objective of each pair of values of a number and of other names."""
        columns = sorted({row[x] for row in rows})[:MAX_CELLS]
        lines = _distinct(rows, shared)
        lines = (sorted(lines) if _is_number([one for line in lines for one in line]) else lines)[
            :MAX_CELLS
        ]
        known = {
            (row[x], tuple(row[name] for name in shared)): float(row[self.column]) for row in rows
        }
        cells = [[known.get((column, line)) for column in columns] for line in lines]
        key = self.column.removeprefix(RESULT_PREFIX)
        texts = [["" if one is None else format_value(key, one) for one in row] for row in cells]
        titled = _listed([_words(name) for name in shared])
        single = len(shared) == 1
        named = [cell_text(shared[0], line[0]) if single else label(line) for line in lines]
        return charts.HeatMap(
            (_words(x), [cell_text(x, one) for one in columns]),
            (titled, named),
            cells,
            texts,
            self.value._replace(log=charts.spans_decades(known.values())),
        )

    def _labels(self, names: Sequence[str]) -> Callable[[tuple[Any, ...]], str]:
        """Return what labels the values of names: texts as they are, numbers with their name."""
        short = {name: _short_texts([row[name] for row in self.rows]) for name in names}

        def label(values: tuple[Any, ...]) -> str:
            words: list[str] = []
            for name, value in zip(names, values, strict=True):
                if value in (None, ""):
                    continue
                if isinstance(value, str):
                    text = short[name][value]
                    words.append(f"{_words(name)} {text}" if words else text)
                else:
                    words.append(f"{_words(name)} {cell_text(name, value)}")
            return ", ".join(words)

        return label


def _left_out(chart: charts.Drawing, rows: int, *, known: bool) -> list[str]:
    """Return what a chart of rows does not show, in sentences."""
    if isinstance(chart, charts.LineChart):
        return [WITHOUT_BANDS] if known and not any(line.low for line in chart.lines) else []
    drawn = rows
    if isinstance(chart, charts.BarChart):
        drawn = len(chart.bars)
    elif isinstance(chart, charts.HeatMap):
        drawn = sum(value is not None for line in chart.cells for value in line)
    every = "`perfatlas runs export` writes all"
    return [f"{drawn:,} of {rows:,} rows are drawn; {every}."] if drawn < rows else []


def _short_texts(values: Sequence[Any]) -> dict[str, str]:
    """Return texts without what tells none of them apart: organizations, further overrides."""
    texts = list(dict.fromkeys(value for value in values if isinstance(value, str)))
    found = {}
    for text in texts:
        name, _, inside = text.removesuffix("}").partition("{")
        path, *more = inside.split(", ") if inside else [""]
        key, _, value = path.partition("=")
        short = f"{name.rpartition('/')[2]}" + (f" ({_words(key)} {value})" if inside else "")
        found[text] = short.replace(")", ", ...)") if more else short
    return found if len(set(found.values())) == len(texts) else dict(zip(texts, texts, strict=True))


def _words(name: str) -> str:
    """Return a name as words: hardware fields without their section."""
    words = spelled_out(overridden(name)[1].removeprefix("device.").replace(".", " "))
    return ABBREVIATIONS.sub(lambda found: found[0].upper(), words)


def _listed(names: Sequence[str]) -> str:
    """Return names as a list in words."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
