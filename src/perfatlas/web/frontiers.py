"""Frontiers of pinned questions in one chart, each point with its plan and its address."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import counted
from perfatlas.report import charts
from perfatlas.report.text import format_value, label_of
from perfatlas.web.pins import address, names_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ALONG: Final = "output_tokens_per_s_per_user"
UP: Final = "output_tokens_per_s_per_gpu"
LOADS: Final = ("batch", "concurrency", "request_rate", "mode", "method")  # which a frontier varies
HOVER: Final = (
    "ttft_s",
    "tpot_s",
    UP,
    "usd_per_million_output_tokens",
    "energy_per_output_token_j",
)
MAX_BANDS: Final = 3  # that can be told apart


def frontier_values(values: Mapping[str, str]) -> dict[str, str]:
    """Return the values of a question with all batches in place of its load."""
    kept = {name: text for name, text in values.items() if name not in (*LOADS, "explain")}
    return {**kept, "frontier": "true"}


def frontier_chart(
    questions: Sequence[tuple[Mapping[str, str], Sequence[Mapping[str, Any]]]], path: str
) -> dict[str, str]:
    """Return the chart of frontiers: title, JSON of plotly.js with addresses of points, text.

    Args:
        questions: Values of each question, and the rows of its frontier.
        path: The page of a point.
    """
    names = names_of([values for values, _ in questions])
    lines, links = [], []
    for (values, rows), name, colour in zip(questions, names, charts.COLOURS * 2, strict=False):
        line = charts.Line.of(rows, ALONG, UP, name, colour)
        details = ["\n".join(_hover(row)) for row in rows]
        if len(questions) > MAX_BANDS:
            line = line._replace(low=(), high=())
        lines.append(line._replace(details=details))
        kept = {key: text for key, text in values.items() if key not in LOADS}
        loads = [{"batch": str(row["batch"]), "mode": "static"} for row in rows]
        links.append([address(path, {**kept, **load}, []) for load in loads])
    along, up = charts.Axis.of(ALONG), charts.Axis.of(UP)
    chart = charts.LineChart(lines, along._replace(log=True), up._replace(log=True))
    figure = json.loads(charts.figure_json(chart))
    of_lines = iter(links)
    figure["layout"]["meta"] = {
        "links": [[] if "fill" in trace else next(of_lines) for trace in figure["data"]]
    }
    title = "Throughput per GPU against speed of a user"
    text = json.dumps(figure).replace("<", "\\u003c")
    return {"title": title, "figure": text, "alt": charts.alt_text(title, chart)}


def _hover(row: Mapping[str, Any]) -> list[str]:
    """Return the plan of a point and its metrics, as lines."""
    shown = [f"{label_of(name, short=True)} {format_value(name, row[name])}" for name in HOVER
             if row.get(name) is not None]  # fmt: skip
    return [f"batch {row['batch']}, {counted(row['gpus'], 'GPU')}", *shown]
