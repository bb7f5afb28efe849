"""Benchmarks beside their predictions, as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.report import charts, pages
from perfatlas.report.text import TitledRows, cell_text
from perfatlas.verbs.validate.answer import run_names
from perfatlas.version import __version__
from perfatlas.vocabulary.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

COMPARED: Final = {
    "tpot": METRICS["tpot_s"].short_label,
    "output_tokens_per_s_per_gpu": METRICS["output_tokens_per_s_per_gpu"].label,
    "ttft": METRICS["ttft_s"].short_label,
}
TOTAL_HEADINGS: Final = {
    "figure": "",
    "rows": "runs",
    "mape": "MAPE",
    "median_error": "median",
    "bias": "bias",
    "inside_90": "in 90%",
}
TPOT_HEADINGS: Final = {
    "run": "",
    "concurrency": "concurrency",
    "isl": "in",
    "osl": "out",
    "tpot_measured_s": "measured",
    "tpot_s": "predicted",
    "tpot_error": "error",
    "tpot_inside_90": "in 90%",
    "tpot_bound_s": "roofline",
    "tpot_statistic": "measured is",
}
RATE_HEADINGS: Final = {
    "run": "",
    "gpus": "GPUs",
    "output_tokens_per_s_per_gpu_measured": "measured",
    "output_tokens_per_s_per_gpu": "predicted",
    "output_tokens_per_s_per_gpu_error": "error",
    "output_tokens_per_s_per_gpu_inside_90": "in 90%",
}
TTFT_HEADINGS: Final = {
    "run": "",
    "ttft_measured_s": "measured",
    "ttft_s": "predicted",
    "ttft_error": "error",
    "ttft_statistic": "measured is",
}
BOUND_HEADINGS: Final = {
    "run": "",
    "tpot_measured_s": "measured",
    "tpot_bound_s": "roofline",
    "tpot_s": "predicted",
}


def benchmark_page(answer: Mapping[str, Any], *, reproduce: str) -> pages.Page:
    """Return the page of `validate serving`: tables, and the TPOT of each run beside its own."""
    found = answer["results"]
    question = found["question"] or {}
    about = [str(question[name]) for name in ("model", "system") if name in question] or ["serving"]
    sections = [_section(one) for one in benchmark_tables(found) if one.rows]
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


def benchmark_tables(found: Mapping[str, Any]) -> list[TitledRows]:
    """Return the tables: totals, exclusions and remarks before the runs."""
    runs = found["runs"]
    totals = [_total(name, title, found) for name, title in COMPARED.items()] if runs else []
    statistics = dict.fromkeys(run["tpot_statistic"] for run in runs if run["tpot_statistic"])
    title = f"TPOT (measured: {', '.join(statistics) or 'nothing'})"
    columns = dict(TPOT_HEADINGS)
    if len(statistics) < 2:
        del columns["tpot_statistic"]
    faster = "faster than the roofline: check the plan, the formats and the load"
    notes = [note | {"about": run_names(note["runs"])} for note in found["notes"]]
    notes += [{"about": "TTFT", "note": found["ttft_note"]}] if runs else []
    return [
        TitledRows("predicted and measured", totals, TOTAL_HEADINGS),
        TitledRows(title, runs, columns),
        TitledRows("output tokens/s per GPU", runs, RATE_HEADINGS),
        TitledRows(faster, found["below_bound"], BOUND_HEADINGS),
        TitledRows("not compared", found["refused_runs"], {"run": "", "error": "why"}),
        TitledRows("notes", notes, {"about": "", "note": "note"}),
        TitledRows("TTFT", runs, TTFT_HEADINGS),
    ]


def _total(name: str, title: str, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the totals of one metric with the keys of the table."""
    figures = ("rows", "mape", "median_error", "bias", "inside_90")
    return {"figure": title, **{figure: found[f"{name}_{figure}"] for figure in figures}}
