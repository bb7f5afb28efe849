"""HTML page of `accuracy`: the change of a benchmark, and the noise of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.report.charts import Axis, Bar, BarChart
from perfatlas.report.pages import Section, results_page
from perfatlas.report.text import format_value, label_of
from perfatlas.verbs.accuracy.metrics import SQNR

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.report.pages import Page

DELTA: Final = "accuracy_delta"


def accuracy_page(answer: Mapping[str, Any], *, reproduce: str) -> Page:
    """Return what number formats change as an HTML page."""
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
        title = f"Change of {answer['scenario']['benchmark']}"
        axis = Axis("points, with 90% intervals")
        sections.append(Section.charted(title, BarChart(bars, axis)))
    names = {f"{name}_sqnr_db": label_of(f"{name}_sqnr_db", short=True) for name in SQNR}
    bars = [
        Bar(label, results[name], format_value(name, results[name]))
        for name, label in names.items()
        if results[name] is not None
    ]
    if bars:
        axis = Axis("signal over quantization noise [dB]")
        sections.append(Section.charted("Quantization noise", BarChart(bars, axis)))
    return results_page(answer, sections=sections, reproduce=reproduce)
