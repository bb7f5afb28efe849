"""Goodput as one HTML page: where the time goes, how much it varies, what would change it."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.report.text import share_text
from perfatlas.verbs.goodput.text import (
    BUCKETS,
    FACTORS,
    METHODS,
    goodput_headline,
    result_lines,
)
from perfatlas.verbs.simulate import COLOURS, STYLE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Answered = Mapping[str, Any]

HEIGHT: Final = 380
MOST_BINS: Final = 40
WORDS: Final = "td.words,th.words{text-align:left}td.number{white-space:nowrap}\n"
DAY_S: Final = 86400.0


def goodput_page(
    answer: Answered, columns: Mapping[str, Sequence[float]], *, reproduce: str
) -> str:
    """Return goodput as an HTML page that needs no network.

    Args:
        answer: The `--json` object of `goodput`.
        columns: Replicas behind it: goodput, ended_s; empty for a closed form.
        reproduce: The command line that gives it again.
    """
    evidence = answer["evidence"]
    parts = [
        f"<h1>{html.escape(goodput_headline(answer))}</h1>",
        _table(result_lines(answer["results"])),
        *(f"<p>warning: {html.escape(text)}</p>" for text in answer["warnings"]),
        *_charts(answer, columns),
        *(
            f'<p class="note">{html.escape(text)}</p>'
            for text in _assumed(answer["results"].get("changes", ()))
        ),
        f"<h2>How sure: {METHODS[evidence['tier']]}</h2>",
        *(f'<p class="note">{html.escape(text)}</p>' for text in evidence["assumptions"]),
        f"<p><code>{html.escape(reproduce)}</code></p>",
    ]
    return page_of("perfatlas goodput", parts)


def page_of(title: str, parts: Sequence[str]) -> str:
    """Return parts of HTML as a page.

    Args:
        title: Of the window.
        parts: In order.
    """
    body = "\n".join(part for part in parts if part)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{STYLE}{WORDS}</style><body>\n{body}\n</body></html>\n"
    )


def _table(lines: Sequence[tuple[str, str, str]]) -> str:
    rows = "".join(
        f"<tr><td>{html.escape(label)}</td><td>{html.escape(value)}</td>"
        f'<td class="note">{html.escape(interval)}</td></tr>'
        for label, value, interval in lines
    )
    return f"<table><tr><th></th><th></th><th>90 % interval</th></tr>{rows}</table>"


def _charts(answer: Answered, columns: Mapping[str, Sequence[float]]) -> list[str]:
    results = answer["results"]
    figures = []
    if answer["breakdown"]:
        figures.append(("Where the time goes", waterfall_of(answer["breakdown"])))
    if columns:
        figures.append(_spread(results, columns))
    if results.get("factors"):
        figures.append(("What is left, factor by factor", _factors(results["factors"])))
    if results.get("changes"):
        figures.append(("What single changes would gain", _changes(results["changes"])))
    return charts_of(figures)


def charts_of(figures: Sequence[tuple[str, Any]]) -> list[str]:
    """Return figures as HTML under their titles; the first brings the code they share.

    Args:
        figures: (title, figure of plotly).
    """
    told = []
    for number, (title, figure) in enumerate(figures):
        figure.update_layout(
            template="plotly_white", height=HEIGHT, margin={"t": 30, "b": 50}, showlegend=False
        )
        told.append(f"<h2>{html.escape(title)}</h2>")
        told.append(
            figure.to_html(
                full_html=False, include_plotlyjs=number == 0, config={"displaylogo": False}
            )
        )
    return told


def waterfall_of(rows: Sequence[Answered], labels: Mapping[str, str] = BUCKETS) -> Any:  # noqa: ANN401 - a figure
    """Return a figure of the time from all of it down to what is useful.

    Args:
        rows: Buckets with name and share, the productive one first.
        labels: Names of buckets as people say them.
    """
    import plotly.graph_objects as go

    lost = [row for row in rows[1:] if row["share"]]
    names = ["all of the time", *(labels[row["name"]] for row in lost), labels["productive"]]
    figure = go.Figure()
    figure.add_waterfall(
        x=names,
        y=[100.0, *(-100.0 * row["share"] for row in lost), 100.0 * rows[0]["share"]],
        measure=["absolute", *("relative" for _ in lost), "total"],
        text=["100 %", *(share_text(row["share"]) for row in lost), share_text(rows[0]["share"])],
        decreasing={"marker": {"color": COLOURS[1]}},
        totals={"marker": {"color": COLOURS[0]}},
    )
    figure.update_yaxes(title="per cent of the time")
    return figure


def _spread(results: Answered, columns: Mapping[str, Sequence[float]]) -> tuple[str, Any]:
    """Return how much replicas differ: when they are done, or how much they do."""
    if "finish_s" in results:
        days = [value / DAY_S for value in columns["ended_s"]]
        return "When the work is done, if the job ran many times", _histogram(days, "days")
    shares = [100.0 * value for value in columns["goodput"]]
    title = "How much is useful, if the job ran many times"
    return title, _histogram(shares, "useful per cent of the time")


def _histogram(values: Sequence[float], axis: str) -> Any:  # noqa: ANN401 - a figure
    """Return a figure of per cents of runs in equal bins, counted here: a page stays small.

    Replicas bank whole segments of work, so that bins as narrow as a segment would show a comb.
    """
    import plotly.graph_objects as go

    counts, edges = np.histogram(values, bins=min(MOST_BINS, 5 + math.isqrt(len(values))))
    figure = go.Figure()
    figure.add_bar(
        x=((edges[:-1] + edges[1:]) / 2.0).tolist(),
        y=(100.0 * counts / len(values)).tolist(),
        width=float(edges[1] - edges[0]),
        marker={"color": COLOURS[0]},
    )
    figure.update_xaxes(title=axis)
    figure.update_yaxes(title="per cent of the runs")
    return figure


def _factors(factors: Mapping[str, float]) -> Any:  # noqa: ANN401 - a figure
    import plotly.graph_objects as go

    figure = go.Figure()
    figure.add_bar(
        x=[FACTORS[name].replace(": ", "<br>") for name in factors],
        y=[100.0 * value for value in factors.values()],
        text=[share_text(value) for value in factors.values()],
        marker={"color": [COLOURS[3] if name == "product" else COLOURS[0] for name in factors]},
    )
    figure.update_xaxes(tickangle=0)
    figure.update_yaxes(title="per cent", range=[0, 105])
    return figure


def _assumed(changes: Sequence[Answered]) -> list[str]:
    """Return what changes take for granted and what more they hold, a sentence for each."""
    told = []
    for row in changes:
        hours = row["added_gpu_hours"]
        more = f"{hours:,.0f} GPU-hours more are held for it" if hours else ""
        if said := "; ".join(text for text in (row["assumes"], more) if text):
            told.append(f"{row['name']}: {said}")
    return told


def _changes(changes: Sequence[Answered]) -> Any:  # noqa: ANN401 - a figure
    import plotly.graph_objects as go

    rows = list(reversed(changes))
    figure = go.Figure()
    figure.add_bar(
        y=[row["name"] for row in rows],
        x=[row["gained_gpu_hours"] for row in rows],
        error_x={"array": [row["gained_gpu_hours_half_width"] for row in rows]},
        orientation="h",
        marker={"color": COLOURS[2]},
    )
    figure.update_xaxes(title="GPU-hours of useful work gained, with 90 % intervals")
    figure.update_yaxes(automargin=True)
    return figure
