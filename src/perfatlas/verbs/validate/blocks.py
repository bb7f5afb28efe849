"""Benchmarks beside their predictions, as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfatlas.report import charts, pages
from perfatlas.report.text import cell_text
from perfatlas.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.report.text import TitledRows


def benchmark_page(
    found: Mapping[str, Any], tables: Sequence[TitledRows], *, reproduce: str
) -> pages.Page:
    """Return the page of `validate serving`.

    Args:
        found: Its results.
        tables: What its text shows, the most important first.
        reproduce: The command line.
    """
    question = found["question"] or {}
    about = [str(question[name]) for name in ("model", "system") if name in question] or ["serving"]
    sections = [_section(one) for one in tables if one.rows]
    runs = [run for run in found["runs"] if run["tpot_measured_s"]]
    if runs:
        sections.insert(0, pages.Section.charted("TPOT of each run", _chart(runs)))
    return pages.Page(
        command="validate serving",
        title=f"Benchmarks of {' on '.join(about)} beside the prediction",
        sections=sections,
        reproduce=reproduce,
        versions={"perfatlas": __version__},
    )


def _chart(runs: Sequence[Mapping[str, Any]]) -> charts.LineChart:
    """Return predicted over measured TPOT, with the line on which they are equal."""
    dots = charts.Line.of(runs, "tpot_measured_s", "tpot_s", "runs", charts.BLUE)
    dots = dots._replace(kind="dots", texts=[str(run["run"]) for run in runs])
    ends = [*dots.x, *dots.y]
    equal = [min(ends), max(ends)]
    measured, predicted = (
        charts.Axis(f"TPOT, {word}", "s", log=True) for word in ("measured", "predicted")
    )
    line = charts.Line("equal", equal, equal, charts.GREY)
    return charts.LineChart([dots, line], measured, predicted)


def _section(table: TitledRows) -> pages.Section:
    columns = table.columns or {}
    texts = [at for at, key in enumerate(columns) if isinstance(table.rows[0].get(key), str)]
    cells = [[cell_text(key, row.get(key)) for key in columns] for row in table.rows]
    shown = pages.Table(head=tuple(columns.values()), rows=cells, text_columns=texts)
    return pages.Section(title=table.title, blocks=[shown])
