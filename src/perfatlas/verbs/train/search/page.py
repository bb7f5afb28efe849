"""HTML page of a search among training layouts: throughput of the best, with intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.report.charts import Axis, Bar, BarChart
from perfatlas.report.pages import Section, Table, results_page
from perfatlas.report.text import format_interval, format_value, label_of
from perfatlas.verbs.train.search.text import layout_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.report.pages import Page

RATE: Final = "tokens_per_s_per_gpu"
SHOWN: Final = ("step_time_s", RATE, "mfu")


def layouts_page(answer: Mapping[str, Any], *, reproduce: str) -> Page:
    """Return the best layouts of a training job as an HTML page."""
    rows = answer["results"]["layouts"]
    names = [layout_text(row) for row in rows]
    ends = [(row[f"{RATE}_low"], row[f"{RATE}_high"]) for row in rows]
    bars = [
        Bar(name, row[RATE], format_value(RATE, row[RATE]), interval=None if None in own else own)
        for name, row, own in zip(names, rows, ends, strict=True)
    ]
    cells = [
        [name, *(_cell(row, metric) for metric in SHOWN)]
        for name, row in zip(names, rows, strict=True)
    ]
    table = Table(head=("layout", *(label_of(one, short=True) for one in SHOWN)), rows=cells)
    axis = Axis(f"{label_of(RATE)}, with 90% intervals")
    best = Section.charted("Best layouts", BarChart(bars, axis), table)
    return results_page(answer, sections=[best] if rows else (), reproduce=reproduce)


def _cell(row: Mapping[str, Any], name: str) -> str:
    """Return a metric of a layout with its interval."""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    shown = format_value(name, row[name])
    return shown if None in (low, high) else f"{shown} ({format_interval(name, low, high)})"
