"""Charts of a fleet or a history: what fails, how long jobs run, failures per day."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from perfatlas.report.charts import log_ticks, ticks
from perfatlas.report.text import format_number, share_text
from perfatlas.verbs.fleet.glossary import LENGTHS, spelled_time, unit_of
from perfatlas.verbs.simulate import COLOURS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Facts = Mapping[str, Any]

CROWDED: Final = 1.5
WIDEST_BAR: Final = 0.16  # of the height of a chart
MARGIN: Final = 1.3  # of a logarithmic axis beyond its line
TICKED_DECADES: Final = 4.7  # that have room for three ticks each
FEW: Final = 8  # failures, of which an axis shows no halves
DAYS_NAMED: Final = 14  # each of which has room for its name


def shares_of(causes: Sequence[Facts]) -> list[tuple[str, Any]]:
    """Return the chart of what fails, or nothing where it is one thing alone.

    Args:
        causes: As `fleet_facts` tells them.
    """
    import plotly.graph_objects as go

    if len(causes) < 2:
        return []
    rows = list(reversed(causes))
    figure = go.Figure()
    figure.add_bar(
        y=[row["name"] for row in rows],
        x=[100.0 * row["share"] for row in rows],
        text=[share_text(row["share"]) for row in rows],
        width=min(0.8, WIDEST_BAR * len(rows)),
        orientation="h",
        marker={"color": COLOURS[1]},
    )
    figure.update_xaxes(title="per cent of all failures")
    figure.update_yaxes(automargin=True)
    return [("What fails, by share", figure)]


def lives_of(jobs: Sequence[Facts]) -> list[tuple[str, Any]]:
    """Return the chart of how long jobs run, or nothing where there is no line to draw.

    Args:
        jobs: As `fleet_facts` tells them.
    """
    import plotly.graph_objects as go

    rows = [row for row in jobs if math.isfinite(row["mtti_s"])]
    if len(rows) < 2:
        return []
    unit = unit_of(rows[-1]["mtti_s"])  # as in the table and the text of the largest job
    lives = [row["mtti_s"] / LENGTHS[unit][0] for row in rows]
    gpus = [row["gpus"] for row in rows]
    figure = go.Figure()
    figure.add_scatter(
        x=gpus,
        y=lives,
        mode="lines+markers",
        line={"color": COLOURS[0]},
        text=[spelled_time(row["mtti_s"], unit) for row in rows],
        hovertemplate="%{x:,} GPUs: %{text}<extra></extra>",
    )
    # the largest job, all of the fleet, may be too near the one before for both names
    sizes = [size for size in gpus[:-1] if gpus[-1] >= CROWDED * size] + gpus[-1:]
    low, high = min(lives) / MARGIN, max(lives) * MARGIN
    marks = log_ticks(low, high, TICKED_DECADES) if high > 10.0 * low else ticks(low, high)
    figure.update_xaxes(
        title="GPUs of the job",
        type="log",
        tickvals=sizes,
        ticktext=[f"{size:,}" for size in sizes],
    )
    figure.update_yaxes(
        title=f"{unit}s, on average",
        type="log",
        range=[math.log10(low), math.log10(high)],
        tickvals=marks,
        ticktext=[format_number(mark) for mark in marks],
    )
    return [("How long a job runs until it is interrupted", figure)]


def days_of(facts: Facts) -> list[tuple[str, Any]]:
    """Return the chart of failures per day, or nothing where they came on one day alone.

    Args:
        facts: As `history_facts` tells them.
    """
    import plotly.graph_objects as go

    if len(facts["days"]) < 2:
        return []
    figure = go.Figure()
    figure.add_bar(x=facts["days"], y=facts["failures_per_day"], marker={"color": COLOURS[1]})
    figure.update_yaxes(title="failures", rangemode="tozero")
    if max(facts["failures_per_day"]) < FEW:
        figure.update_yaxes(dtick=1)
    if len(facts["days"]) <= DAYS_NAMED:
        figure.update_xaxes(dtick="D1", tickformat="%-d %b\n%Y")
    return [("Failures per day", figure)]
