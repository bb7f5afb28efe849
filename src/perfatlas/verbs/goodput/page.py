"""Goodput as an HTML page: time by category, its variation and possible improvements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import DAY_S, counted
from perfatlas.report.charts import (
    BLUE,
    GREEN,
    PURPLE,
    RED,
    Axis,
    Bar,
    BarChart,
    Histogram,
    Line,
    LineChart,
    Waterfall,
    shares_of_bins,
)
from perfatlas.report.pages import (
    Section,
    Table,
    Value,
    answer_page,
    results_page,
)
from perfatlas.report.text import share_text, typeset
from perfatlas.scenario.interrupted_jobs import SpareNodes
from perfatlas.verbs.goodput.answer import pool_of
from perfatlas.verbs.goodput.groups import FRONTIER
from perfatlas.verbs.goodput.text import (
    BUCKETS,
    FACTORS,
    goodput_headline,
    result_lines,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.report.pages import Page

    Answered = Mapping[str, Any]

MOST_BINS: Final = 40
LEAST_WAIT: Final = 1e-6  # share of the time that is drawn
WAITS: Final = "share of the time that the job waits"
MOST_VALUES: Final = 4  # that the page begins with


def goodput_page(
    answer: Answered,
    columns: Mapping[str, Sequence[float]] | None = None,
    *,
    reproduce: str,
) -> Page:
    """Return goodput as an HTML page.

    Args:
        columns: Replicas: goodput, ended_s; None for a closed form.
    """
    if FRONTIER in answer["results"]:
        return results_page(answer, sections=[_strategies(answer)], reproduce=reproduce)
    lines = result_lines(answer["results"])
    rows = [(typeset(label), value, interval) for label, value, interval in lines]
    results = Table(head=("", "value", "90% interval"), rows=rows)
    return answer_page(
        answer,
        title=goodput_headline(answer),
        values=[
            Value(label=label, value=value, interval=interval)
            for label, value, interval in lines[:MOST_VALUES]
        ],
        sections=[Section(title="Results", blocks=[results]), *_charts(answer, columns or {})],
        reproduce=reproduce,
    )


def spares_page(answer: Answered, *, reproduce: str) -> Page:
    """Return spares as an HTML page: the share of time that a job waits, by their number."""
    results = answer["results"]
    known = SpareNodes.model_fields
    asked = {
        name: one for name, one in answer["scenario"].items() if name in known and one is not None
    }
    pool = pool_of(SpareNodes.read(asked))
    waits = {
        number: share
        for number in range(2 * int(results["spares"]) + MOST_VALUES)
        if (share := pool.blocked(number)) > LEAST_WAIT
    }
    numbers = list(waits)
    lines = [
        Line("by number of spares", numbers, list(waits.values()), BLUE),
        Line("these spares", [results["spares"]], [results["blocked_probability"]], RED, "mark"),
    ]
    if target := answer["scenario"].get("target"):
        lines.append(Line("target", [numbers[0], numbers[-1]], [1.0 - target] * 2, GREEN))
    chart = LineChart(lines, Axis("spare nodes", "count"), Axis(WAITS, "%", log=True))
    title = "Waiting time by spares"
    return results_page(
        answer,
        sections=[Section.charted(title, chart)] if waits else (),
        reproduce=reproduce,
    )


def _strategies(answer: Answered) -> Section:
    """Return the strategies that no other exceeds: goodput over the GPUs that they hold."""
    rows = answer["results"][FRONTIER]
    held, goodput = ([row[name] for row in rows] for name in ("gpus_held", "goodput"))
    names = [f"{row['response']}, {counted(row['spares'], 'spare')}" for row in rows]
    best = answer["results"]["best_strategy"]
    lines = [
        Line("not exceeded by another", held, goodput, BLUE, "dots", texts=names),
        Line("best per GPU-hour held", [best["gpus_held"]], [best["goodput"]], RED, "mark"),
    ]
    chart = LineChart(lines, Axis("GPUs held", "count"), Axis("goodput", "%"))
    return Section.charted("Recovery strategies", chart)


def _charts(answer: Answered, columns: Mapping[str, Sequence[float]]) -> list[Section]:
    results = answer["results"]
    sections = []
    if rows := answer["breakdown"]:
        title = "Where the time goes"
        figure = Waterfall(rows, BUCKETS, [share_text(row["share"]) for row in rows])
        sections.append(Section.charted(title, figure))
    if columns:
        sections.append(_spread(results, columns))
    if factors := results.get("factors"):
        sections.append(_factors(factors))
    if changes := results.get("changes"):
        sections.append(_changes(changes))
    return sections


def _spread(results: Answered, columns: Mapping[str, Sequence[float]]) -> Section:
    """Return the spread of replicas: of their end times or their goodput.

    Bins are counted here to keep the page small. Replicas save whole segments of work, so that bins
    as narrow as a segment would show a comb.
    """
    if "finish_s" in results:
        title, axis = "Distribution of the time to finish", Axis("time to finish [days]")
        values = [value / DAY_S for value in columns["ended_s"]]
    else:
        title, axis = "Distribution of the goodput", Axis("goodput of a simulated run", "%")
        values = list(columns["goodput"])
    centres, shares = shares_of_bins(values, MOST_BINS)
    figure = Histogram(centres, shares, axis, Axis("share of simulated runs", "%"))
    return Section.charted(title, figure)


def _factors(factors: Mapping[str, float]) -> Section:
    title = "Goodput decomposition"
    bars = [
        Bar(FACTORS[name], value, share_text(value), PURPLE if name == "product" else BLUE)
        for name, value in factors.items()
    ]
    figure = BarChart(bars, Axis("share", "%", top=1.0))
    return Section.charted(title, figure)


def _changes(changes: Sequence[Answered]) -> Section:
    title = "Gain from single changes"
    bars = [
        Bar(
            name=str(row["name"]),
            value=row["gained_gpu_hours"],
            colour=GREEN,
            interval=_ends(row["gained_gpu_hours"], row["gained_gpu_hours_half_width"]),
        )
        for row in changes
    ]
    figure = BarChart(bars, Axis("useful GPU-hours gained, with 90% intervals"))
    return Section.charted(title, figure, *_assumed(changes))


def _ends(value: float, half_width: float | None) -> tuple[float, float] | None:
    return None if half_width is None else (value - half_width, value + half_width)


def _money(row: Answered) -> str:
    """Return what a change is worth at the price of a GPU-hour."""
    gained = f"it gains {row['gained_usd']:,.0f} USD"
    return f"{gained} and costs {row['added_usd']:,.0f} USD" if row["added_usd"] else gained


def _assumed(changes: Sequence[Answered]) -> list[str]:
    """Return the assumptions and added GPU-hours of changes, one sentence each."""
    entries = []
    for row in changes:
        hours = row["added_gpu_hours"]
        more = f"{hours:,.0f} additional GPU-hours are reserved" if hours else ""
        if "gained_usd" in row:
            more += f"{'; ' if more else ''}{_money(row)}"
        if said := "; ".join(text for text in (row["assumes"], more) if text):
            entries.append(f"{row['name']}: {said}")
    return entries
