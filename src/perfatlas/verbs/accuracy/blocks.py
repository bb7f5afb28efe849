"""What `accuracy` shows: the change of a benchmark, and the noise of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.report.charts import Axis, Bar, BarChart
from perfatlas.report.pages import Page, Section, results_page
from perfatlas.report.text import format_value, label_of
from perfatlas.verbs.accuracy.metrics import SQNR

if TYPE_CHECKING:
    from collections.abc import Mapping

DELTA: Final = "accuracy_delta"


def accuracy_page(answer: Mapping[str, Any], *, reproduce: str) -> Page:
    """Return what number formats change: on a page as bars."""
    return results_page(answer, on_page=lambda: _charts(answer), reproduce=reproduce)


def _charts(answer: Mapping[str, Any]) -> list[Section]:
    results = answer["results"]
    sections = []
    if results[DELTA] is not None:
        ends = (results[f"{DELTA}_low"], results[f"{DELTA}_high"])
        interval = None if None in ends else ends
        spread = results["repeated_spread"]
        bars = [
            Bar("change", results[DELTA], format_value(DELTA, results[DELTA]), interval=interval),
            Bar("repeated evaluations", 0.0, "90%", interval=(-1.645 * spread, 1.645 * spread)),
        ]
        chart = BarChart(bars, Axis("points, with 90% intervals"))
        title = f"Change of {answer['scenario']['benchmark']}"
        sections.append(Section.charted(title, chart))
    bars = [
        Bar(label_of(name, short=True), results[name], format_value(name, results[name]))
        for name in (f"{kind}_sqnr_db" for kind in SQNR)
        if results[name] is not None
    ]
    if bars:
        chart = BarChart(bars, Axis("signal over quantization noise [dB]"))
        sections.append(Section.charted("Quantization noise", chart))
    return sections
