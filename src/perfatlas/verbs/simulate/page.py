"""A simulation as one HTML page: its answer, its distributions, its state over time."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfatlas.report.charts import CHART_STYLE, HOVER_SCRIPT, Chart, Line, Span, chart_html
from perfatlas.report.text import (
    Shown,
    distributions,
    format_interval,
    format_share,
    format_value,
    headline,
    kind_rows,
    kinds_of,
    label_of,
    shown_results,
    subheadline,
    tail_title,
    tails,
)
from perfatlas.vocabulary.metrics import STATISTICS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Columns = Mapping[str, Sequence[Any]]

METRICS: Final = ("ttft_s", "tpot_s", "request_latency_s", "queue_s", "kv_transfer_s")
COLOURS: Final = ("#1f6feb", "#bc4c00", "#1a7f37", "#8250df", "#bf3989")
PART_COLOURS: Final = {
    "http": "#8c959f",
    "tokenize": "#4d2d00",
    "stream": "#116329",
    "queue": "#bc4c00",
    "prompt": "#1f6feb",
    "shared": "#8250df",
    "decode": "#1a7f37",
    "interference": "#d4a72c",
    "preemption": "#cf222e",
    "transfer": "#0598bc",
    "join": "#a0d8e8",
    "failure": "#57606a",
    "load": "#bf3989",
}
OUT_COLOURS: Final = {"crash": "#cf222e", "drain": "#d4a72c"}
UP, DOWN = "#1a7f37", "#bc4c00"
MOST_DOTS: Final = 4_000  # drawn one by one
MOST_MARKS: Final = 200  # starts and stops of replicas that are drawn
STYLE: Final = """
body{font:16px/1.5 system-ui,sans-serif;color:#1f2328}
body{margin:2rem auto;max-width:68rem;padding:0 1rem}
h1{font-size:1.4rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .3rem}p{margin:.3rem 0}
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.15rem .9rem .15rem 0;text-align:right}
td:first-child,th:first-child{text-align:left}th{color:#59636e;font-weight:500}
.note{color:#59636e}code{overflow-wrap:anywhere}
"""
OWN_STYLE: Final = """
td{white-space:nowrap}tr.seeds td{color:#59636e;font-size:.9rem}
.bar{display:flex;height:1.5rem;margin:.3rem 0}.bar i{display:block}
.warning{border-left:.25rem solid #bc4c00;padding-left:.7rem}
.swatch{display:inline-block;width:.8rem;height:.8rem;margin-right:.5rem}
"""


class SimulatedRun(NamedTuple):
    """What one run did, request by request and over time.

    Args:
        columns: What came of every request, as `Simulation.per_request` tells.
        series: State over time: time_s, running, waiting, kv_used_share, replicas.
        out_of_service: When replicas did not serve: replica, from_s, to_s, kind.
        seed: Which run, where results are means over several seeds; None otherwise.
    """

    columns: Columns
    series: Columns
    out_of_service: Sequence[Mapping[str, Any]] = ()
    seed: int | None = None


def traffic_page(answer: Mapping[str, Any], run: SimulatedRun, *, reproduce: str) -> str:
    """Return a simulation as an HTML page that needs no network and no library.

    Args:
        answer: The `--json` object of `simulate`.
        run: The run that charts show.
        reproduce: The command line that gives it again.
    """
    results = answer.get("results") or {}
    parts = [
        f"<h1>{html.escape(headline(answer))}</h1>",
        f'<p class="note">{html.escape(subheadline(answer))}</p>',
        *(f'<p class="warning">{html.escape(text)}</p>' for text in answer.get("warnings") or []),
        _distributions_table(results),
        _results_table(results),
        _kinds_table(results),
        *_tails(results),
        *_charts(run),
        "<h2>How sure</h2>",
        *(
            f'<p class="note">{html.escape(text)}</p>'
            for text in (answer.get("evidence") or {}).get("assumptions") or []
        ),
        f"<p><code>{html.escape(reproduce)}</code></p>",
        HOVER_SCRIPT,
    ]
    body = "\n".join(part for part in parts if part)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>perfatlas simulate</title>'
        f"<style>{STYLE}{OWN_STYLE}{CHART_STYLE}</style><body>\n{body}\n</body></html>\n"
    )


def _cells(cells: Sequence[str], kind: str = "td") -> str:
    return "".join(f"<{kind}>{html.escape(cell)}</{kind}>" for cell in cells)


def _distributions_table(results: Mapping[str, Any]) -> str:
    rows = []
    for name, values in distributions(results).items():
        told = [format_value(name, values[one]) for one in STATISTICS]
        low, high = ((results.get(f"{name}_{end}") or {}).get("mean") for end in ("low", "high"))
        told.append("-" if low is None or high is None else format_interval(name, low, high))
        rows.append(f"<tr>{_cells([label_of(name), *told])}</tr>")
        if width := results.get(f"{name}_seed_half_width"):
            told = [f"± {format_value(name, width[one])}" for one in STATISTICS]
            rows.append(f'<tr class="seeds">{_cells(["over seeds, 90 %", *told, ""])}</tr>')
    head = _cells(["", *STATISTICS, "mean in 90 %"], "th")
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>" if rows else ""


def _results_table(results: Mapping[str, Any]) -> str:
    shown = shown_results(results)
    seeds = any(one.seeds for one in shown)
    rows = "".join(f"<tr>{_cells(_result_cells(one, seeds=seeds))}</tr>" for one in shown)
    titles = ["", "", "90 % interval", *(["over seeds, 90 %"] if seeds else [])]
    return f"<table><tr>{_cells(titles, 'th')}</tr>{rows}</table>"


def _result_cells(one: Shown, *, seeds: bool) -> list[str]:
    return [one.label, one.value, one.interval, *([one.seeds] if seeds else [])]


def _kinds_table(results: Mapping[str, Any]) -> str:
    """Return what each kind of replicas did, nothing of one kind."""
    kinds = kinds_of(results)
    if not kinds:
        return ""
    head, *rows = kind_rows(kinds)
    cells = "".join(f"<tr>{_cells(row)}</tr>" for row in rows)
    return f"<table><tr>{_cells(head, 'th')}</tr>{cells}</table>"


def _tails(results: Mapping[str, Any]) -> list[str]:
    """Return what the slowest requests spent their time on: a bar and a table each."""
    told = []
    for tail in tails(results):
        bars = "".join(
            f'<i style="width:{100.0 * part.share:.3f}%;background:{PART_COLOURS[part.name]}"'
            f' title="{html.escape(part.label)}: {part.value}"></i>'
            for part in tail.parts
        )
        rows = "".join(
            f'<tr><td><i class="swatch" style="background:{PART_COLOURS[part.name]}"></i>'
            f"{html.escape(part.label)}</td>{_cells([part.value, format_share(part.share)])}</tr>"
            for part in tail.parts
        )
        told.append(
            f"<h2>{html.escape(tail_title(results, tail))}</h2>"
            f'<div class="bar">{bars}</div><table>{rows}</table>'
        )
    return told


def _charts(run: SimulatedRun) -> list[str]:
    """Return charts under their titles, and what they are of."""
    title = "Latencies: share of requests that take less"
    spread = Chart(
        _spread(run.columns), "latency", "share of requests", x_log=True, top=1.0, percent=True
    )
    charts = [(title, "", spread)]
    dots, note = _first_tokens(run.columns)
    spans = _spans(run)
    at, ttft = "time of arrival, seconds", "time to first token, seconds"
    charts.append(("Time to first token by arrival", note, Chart(dots, at, ttft, spans=spans)))
    charts += [(title, "", chart) for title, chart in _states(run.series, spans)]
    told = []
    if run.seed is not None:
        told.append(f'<p class="note">The charts show the run of seed {run.seed}.</p>')
    for title, note, chart in charts:
        drawn = chart_html(chart)
        if drawn:
            told.append(f"<h2>{html.escape(title)}</h2>")
            told.append(f'<p class="note">{html.escape(note)}</p>' if note else "")
            told.append(drawn)
    return told


def _spread(columns: Columns) -> list[Line]:
    lines = []
    for name, colour in zip(METRICS, COLOURS, strict=True):
        values = sorted(value for value in columns.get(name, ()) if value is not None)
        if values and values[-1] > 0.0:
            lines.append(Line(label_of(name), *_thinned(values), colour))
    return lines


def _first_tokens(columns: Columns) -> tuple[list[Line], str]:
    """Return a dot for each request, and which are left out where they are many."""
    rows = [
        (at, value)
        for at, value in zip(columns["arrival_s"], columns["ttft_s"], strict=True)
        if value is not None
    ]
    if not rows:
        return [], ""
    step = -(-len(rows) // MOST_DOTS)
    note = ""
    shown = rows[::step]
    if step > 1:
        slow = sorted(rows, key=lambda row: row[1], reverse=True)[: MOST_DOTS // 4]
        shown = sorted({*shown, *slow})
        note = f"One request in {step:,}, and the {len(slow):,} slowest."
    at, values = zip(*shown, strict=True)
    return [Line(label_of("ttft_s"), at, values, COLOURS[0], "dots")], note


def _states(series: Columns, spans: Sequence[Span]) -> list[tuple[str, Chart]]:
    """Return titles and charts of the state over time; of replicas where their number varies."""
    told = (("running", "running"), ("waiting", "waiting"))
    charts = [
        ("Requests in the engines", _state(series, told, "requests", spans)),
        (
            "Cache in use",
            _state(
                series,
                (("kv_used_share", "blocks that requests hold"),),
                "share of the KV cache",
                spans,
            )._replace(top=1.0, percent=True),
        ),
    ]
    if len(set(series["replicas"])) > 1:
        serving = (("replicas", "serving"),)
        charts.append(("Replicas that serve", _state(series, serving, "replicas", spans)))
    return charts


def _state(
    series: Columns, names: Sequence[tuple[str, str]], unit: str, spans: Sequence[Span]
) -> Chart:
    lines = [
        Line(label, list(series["time_s"]), list(series[name]), colour, "step")
        for (name, label), colour in zip(names, COLOURS, strict=False)
    ]
    return Chart(lines, "time, seconds", unit, spans=spans)


def _spans(run: SimulatedRun) -> list[Span]:
    """Return when replicas were out of service, or, of an autoscaler, started and stopped."""
    out = []
    for one in run.out_of_service:
        end_s = float("inf") if one["to_s"] is None else one["to_s"]
        what = "crash" if one["kind"] == "crash" else "drained"
        until = "for good" if one["to_s"] is None else f"to {one['to_s']:g} s"
        said = f"replica {one['replica']} out of service ({what}) from {one['from_s']:g} s {until}"
        name = f"a replica out of service ({what})"
        out.append(Span(name, one["from_s"], end_s, OUT_COLOURS[one["kind"]], said))
    return out or _marks(run.series)


def _marks(series: Columns) -> list[Span]:
    """Return when the number of replicas that serve changed; nothing where that is too often."""
    marks = []
    number = list(series["replicas"])
    for at_s, before, after in zip(series["time_s"][1:], number, number[1:], strict=False):
        if before != after:
            name = "replicas start to serve" if after > before else "replicas stop"
            said = f"{at_s:.4g} s: {before:g} to {after:g} replicas"
            marks.append(Span(name, at_s, at_s, UP if after > before else DOWN, said))
    return marks if len(marks) <= MOST_MARKS else []


def _thinned(values: list[float]) -> tuple[list[float], list[float]]:
    """Return at most a thousand points of a distribution, its ends among them."""
    count = len(values)
    kept = sorted({round(i * (count - 1) / 999) for i in range(1000)})
    return [values[i] for i in kept], [(i + 1) / count for i in kept]
