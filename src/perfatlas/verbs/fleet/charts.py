"""Charts of a fleet or a history: what fails, how long jobs run, failures per day."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from perfatlas.report.charts import (
    BLUE,
    ORANGE,
    Axis,
    Bar,
    BarChart,
    DaysChart,
    Line,
    LineChart,
)
from perfatlas.report.pages import Chart, Section
from perfatlas.report.text import share_text
from perfatlas.verbs.fleet.glossary import LENGTHS, unit_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Facts = Mapping[str, Any]

MOST_BARS: Final = 20


def shares_of(causes: Sequence[Facts]) -> list[Section]:
    """Return the chart of failure causes, None for a single cause.

    Args:
        causes: Causes of `fleet_facts`, most frequent first.
    """
    if len(causes) < 2:
        return []
    bars = [
        Bar(row["name"], row["share"], share_text(row["share"]), ORANGE)
        for row in causes[:MOST_BARS]
    ]
    left = len(causes) - len(bars)
    title = "Share of failures by cause"
    chart = Chart(figure=BarChart(bars, Axis("share of all failures", "%")), title=title)
    note = [f"The {MOST_BARS} most frequent; the table has {left} more."] if left else []
    return [Section(title=title, blocks=[*note, chart])]


def lives_of(jobs: Sequence[Facts]) -> list[Section]:
    """Return the chart of MTTI by job size, None for fewer than two points.

    Args:
        jobs: Jobs of `fleet_facts`.
    """
    rows = [row for row in jobs if math.isfinite(row["mtti_s"])]
    if len(rows) < 2:
        return []
    unit = unit_of(rows[-1]["mtti_s"])  # as in the table and the text of the largest job
    line = Line(
        "mean time to interruption",
        [row["gpus"] for row in rows],
        [row["mtti_s"] / LENGTHS[unit][0] for row in rows],
        BLUE,
    )
    y = Axis(f"mean time to interruption [{unit}s]", log=True)
    title = "Mean time to interruption by job size"
    figure = LineChart([line], Axis("GPUs of the job", log=True), y)
    return [Section(title=title, blocks=[Chart(figure=figure, title=title)])]


def days_of(facts: Facts) -> list[Section]:
    """Return the chart of failures per day, None for a single day.

    Args:
        facts: Result of `history_facts`.
    """
    if len(facts["days"]) < 2:
        return []
    title = "Failures per day"
    figure = DaysChart(facts["days"], facts["failures_per_day"], Axis("failures per day", "count"))
    return [Section(title=title, blocks=[Chart(figure=figure, title=title)])]
