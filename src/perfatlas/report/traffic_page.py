"""A simulation as one HTML page: its answer, its distributions, its state over time."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any, Final

from perfatlas.report.kinds import kind_rows, kinds_of
from perfatlas.report.latencies import STATISTICS, distributions
from perfatlas.report.quantities_text import format_value
from perfatlas.report.results_text import HIDDEN, interval_text
from perfatlas.report.rows import label_of
from perfatlas.report.text import headline, subheadline

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Columns = Mapping[str, Sequence[Any]]

METRICS: Final = ("ttft_s", "tpot_s", "request_latency_s", "queue_s", "kv_transfer_s")
COLOURS: Final = ("#1f6feb", "#bc4c00", "#1a7f37", "#8250df", "#bf3989")
MOST_POINTS: Final = 20_000  # drawn one by one
STYLE: Final = """
body{font:16px/1.5 system-ui,sans-serif;color:#1f2328}
body{margin:2rem auto;max-width:68rem;padding:0 1rem}
h1{font-size:1.4rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .3rem}p{margin:.3rem 0}
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.15rem .9rem .15rem 0;text-align:right}
td:first-child,th:first-child{text-align:left}th{color:#59636e;font-weight:500}
.note{color:#59636e}code{overflow-wrap:anywhere}
"""


def traffic_page(
    answer: Mapping[str, Any], columns: Columns, series: Columns, *, reproduce: str
) -> str:
    """Return a simulation as an HTML page that needs no network.

    Args:
        answer: The `--json` object of `simulate`.
        columns: What came of every request, as `Simulation.per_request` tells.
        series: State over time: time_s, running, waiting, kv_used_share, replicas.
        reproduce: The command line that gives it again.
    """
    results = answer.get("results") or {}
    parts = [
        f"<h1>{html.escape(headline(answer))}</h1>",
        f'<p class="note">{html.escape(subheadline(answer))}</p>',
        _distributions_table(results),
        _results_table(results),
        _kinds_table(results),
        *(f"<p>warning: {html.escape(text)}</p>" for text in answer.get("warnings") or []),
        *_charts(columns, series),
        "<h2>How sure</h2>",
        *(
            f'<p class="note">{html.escape(text)}</p>'
            for text in (answer.get("evidence") or {}).get("assumptions") or []
        ),
        f"<p><code>{html.escape(reproduce)}</code></p>",
    ]
    body = "\n".join(part for part in parts if part)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>perfatlas simulate</title>'
        f"<style>{STYLE}</style><body>\n{body}\n</body></html>\n"
    )


def _distributions_table(results: Mapping[str, Any]) -> str:
    rows = [
        f"<tr><td>{html.escape(label_of(name))}</td>"
        + "".join(f"<td>{format_value(name, values[one])}</td>" for one in STATISTICS)
        + "</tr>"
        for name, values in distributions(results).items()
    ]
    head = "".join(f"<th>{one}</th>" for one in STATISTICS)
    return f"<table><tr><th></th>{head}</tr>{''.join(rows)}</table>" if rows else ""


def _results_table(results: Mapping[str, Any]) -> str:
    rows = [
        f"<tr><td>{html.escape(label_of(name))}</td><td>{format_value(name, value)}</td>"
        f'<td class="note">{html.escape(interval_text(results, name))}</td></tr>'
        for name, value in results.items()
        if not isinstance(value, dict)
        and name not in HIDDEN
        and not name.endswith(("_low", "_high"))
    ]
    return f"<table>{''.join(rows)}</table>"


def _kinds_table(results: Mapping[str, Any]) -> str:
    """Return what each kind of replicas did, nothing of one kind."""
    kinds = kinds_of(results)
    if not kinds:
        return ""
    head, *rows = ([html.escape(cell) for cell in row] for row in kind_rows(kinds))
    cells = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{''.join(f'<th>{cell}</th>' for cell in head)}</tr>{cells}</table>"


def _charts(columns: Columns, series: Columns) -> list[str]:
    import plotly.graph_objects as go

    figures: list[tuple[str, Any]] = []
    spread = go.Figure()
    for name, colour in zip(METRICS, COLOURS, strict=True):
        values = sorted(value for value in columns.get(name, ()) if value is not None)
        if values:
            values, shares = _thinned(values)
            spread.add_scatter(x=values, y=shares, name=label_of(name), line={"color": colour})
    spread.update_xaxes(title="seconds", type="log")
    spread.update_yaxes(title="share of requests", range=[0, 1])
    figures.append(("Latencies: share of requests that take less", spread))
    first = go.Figure()
    arrived = [
        (at, value)
        for at, value in zip(columns["arrival_s"], columns["ttft_s"], strict=True)
        if value is not None
    ]
    step = -(-max(len(arrived), 1) // MOST_POINTS)
    first.add_scattergl(
        x=[at for at, _ in arrived[::step]],
        y=[value for _, value in arrived[::step]],
        mode="markers",
        marker={"size": 3, "color": COLOURS[0]},
        name=label_of("ttft_s"),
    )
    first.update_xaxes(title="arrival, seconds")
    first.update_yaxes(title="time to first token, seconds", rangemode="tozero")
    figures.append(("Time to first token by arrival", first))
    figures += _states(series)
    told = []
    for number, (title, figure) in enumerate(figures):
        figure.update_layout(
            template="plotly_white",
            height=380,
            margin={"t": 40, "b": 50},
            legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"},
        )
        told.append(f"<h2>{title}</h2>")
        told.append(
            figure.to_html(
                full_html=False, include_plotlyjs=number == 0, config={"displaylogo": False}
            )
        )
    return told


def _states(series: Columns) -> list[tuple[str, Any]]:
    """Return titles and figures of the state over time; of replicas where their number varies."""
    figures = [
        ("Requests in the engines", _state(series, ("running", "waiting"), "requests")),
        ("Cache in use", _state(series, ("kv_used_share",), "share of the cache", top=1.0)),
    ]
    if len(set(series["replicas"])) > 1:
        figures.append(("Replicas that serve", _state(series, ("replicas",), "replicas")))
    return figures


def _state(series: Columns, names: Sequence[str], unit: str, top: float | None = None) -> Any:  # noqa: ANN401 - a figure
    import plotly.graph_objects as go

    figure = go.Figure()
    for name, colour in zip(names, COLOURS, strict=False):
        figure.add_scatter(
            x=list(series["time_s"]),
            y=list(series[name]),
            name=name.replace("_", " "),
            line={"color": colour, "shape": "hv"},
        )
    figure.update_xaxes(title="seconds")
    figure.update_yaxes(title=unit, range=None if top is None else [0, top], rangemode="tozero")
    return figure


def _thinned(values: list[float]) -> tuple[list[float], list[float]]:
    """Return at most a thousand points of a distribution, its ends among them."""
    count = len(values)
    kept = sorted({round(i * (count - 1) / 999) for i in range(1000)})
    return [values[i] for i in kept], [(i + 1) / count for i in kept]
