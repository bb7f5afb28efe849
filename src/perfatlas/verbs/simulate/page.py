"""HTML page of a simulation: answer, distributions and state over time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfatlas.quantities import significant
from perfatlas.report.charts import (
    BLUE,
    BROWN,
    COLOURS,
    GREEN,
    GREY,
    OLIVE,
    ORANGE,
    PINK,
    PURPLE,
    RED,
    SKY,
    SLATE,
    TEAL,
    YELLOW,
    Axis,
    BarPart,
    Line,
    LineChart,
    Span,
    StackedBars,
)
from perfatlas.report.pages import (
    Chart,
    Section,
    Table,
    Value,
    answer_page,
    key_values,
)
from perfatlas.report.text import (
    distributions,
    format_share,
    format_value,
    headline,
    kind_rows,
    kinds_of,
    label_of,
    limits_of,
    mean_interval,
    printed_results,
    subheadline,
    tail_title,
    tails,
)
from perfatlas.vocabulary.metrics import STATISTICS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.report.pages import Page

    Columns = Mapping[str, Sequence[Any]]

METRICS: Final = ("ttft_s", "tpot_s", "request_latency_s", "queue_s", "kv_transfer_s")
# values at the top of a page, if available
OBJECTIVES: Final = (
    *("max_requests_per_s", "required_replicas", "goodput_requests_per_s", "slo_attainment"),
    "attainment_probability",
)
MEANS: Final = ("ttft_s", "tpot_s", "request_latency_s")
RATES: Final = (
    *("requests_per_s", "output_tokens_per_s", "output_tokens_per_s_per_gpu"),
    *("throughput_per_s", "throughput_per_s_per_gpu"),
    *("usd_per_hour", "usd_per_million_output_tokens", "usd_per_million_items"),
)
PART_COLOURS: Final = {
    "http": GREY,
    "tokenize": BROWN,
    "stream": OLIVE,
    "queue": ORANGE,
    "prompt": BLUE,
    "shared": PURPLE,
    "decode": GREEN,
    "interference": YELLOW,
    "preemption": RED,
    "transfer": TEAL,
    "join": SKY,
    "failure": SLATE,
    "load": PINK,
}
OUT_COLOURS: Final = {"crash": RED, "drain": YELLOW}
UP, DOWN = GREEN, ORANGE
MAX_DOTS: Final = 2_000  # maximum dots per chart
MAX_POINTS: Final = 400  # maximum points of a distribution
MAX_MARKS: Final = 200  # maximum starts and stops of replicas per chart
TIME: Final = Axis("time [s]")
ARRIVAL: Final = Axis("time of arrival [s]")


class SimulatedRun(NamedTuple):
    """Per-request results and state over time of one run."""

    columns: Columns  # Per-request results, from `Simulation.per_request`
    # State over time: time_s, running, waiting, kv_used_share, replicas, and deployment_power_w if
    # the devices have energies
    series: Columns
    # Outages of replicas: replica, from_s, to_s, kind
    out_of_service: Sequence[Mapping[str, Any]] = ()
    # Seed of the run, if results are means over several seeds; otherwise None
    seed: int | None = None


def traffic_page(
    answer: Mapping[str, Any], run: SimulatedRun | None = None, *, reproduce: str
) -> Page:
    """Return a simulation as an HTML page.

    Args:
        run: The run shown in charts; None for the answer alone.
    """
    results = answer.get("results") or {}
    limits = limits_of(results, tier=str(answer["evidence"]["tier"]))
    return answer_page(
        answer,
        title=headline(answer),
        subtitle=subheadline(answer),
        values=_values(results, str(answer["evidence"]["tier"])),
        sections=[
            *_results(results, limits),
            *(_charts(run, limits, graph="item" in results) if run else ()),
            *_tails(results),
            *_kinds(results),
        ],
        reproduce=reproduce,
    )


def _values(results: Mapping[str, Any], tier: str) -> list[Value]:
    """Return the key results of a simulation, of latencies the mean."""
    known = [name for name in MEANS if (results.get(name) or {}).get("mean") is not None]
    means = {
        f"{name}{end}": (results.get(f"{name}{end}") or {}).get("mean")
        for name in known
        for end in ("", "_low", "_high")
    }
    latencies = key_values(means, known, tier=tier, short=True)
    return [
        *key_values(results, OBJECTIVES, tier=tier),
        *(replace(latency, label=f"{latency.label}, mean") for latency in latencies),
        *key_values(results, RATES, tier=tier),
    ]


def _results(results: Mapping[str, Any], limits: Mapping[str, str]) -> list[Section]:
    """Return distributions and single results, each with its interval, or marked as a limit."""
    sections: list[Section] = []
    rows: list[list[str]] = []
    dim = []
    for name, values in distributions(results).items():
        cells = [format_value(name, values[statistic]) for statistic in STATISTICS]
        label = f"{label_of(name)}, {limits[name]}" if name in limits else label_of(name)
        rows.append([label, *cells, mean_interval(results, name)])
        if width := results.get(f"{name}_seed_half_width"):
            dim.append(len(rows))
            cells = [f"± {format_value(name, width[statistic])}" for statistic in STATISTICS]
            rows.append(["over seeds, 90%", *cells, ""])
    if rows:
        head = ("", *STATISTICS, "90% interval of the mean")
        table = Table(head=head, rows=rows, dim_rows=dim)
        sections.append(Section(title="Latencies", blocks=[table]))
    shown = printed_results(results, limits=limits)
    seeds = any(one.seeds for one in shown)
    rows = [[one.label, one.value, one.interval, *([one.seeds] if seeds else [])] for one in shown]
    titles = ["", "value", "90% interval", *(["over seeds, 90%"] if seeds else [])]
    return [*sections, Section(title="Results", blocks=[Table(head=titles, rows=rows)])]


def _kinds(results: Mapping[str, Any]) -> list[Section]:
    """Return the results per replica type, if there are several."""
    kinds = kinds_of(results)
    if not kinds:
        return []
    head, *rows = kind_rows(kinds)
    return [Section(title="Replica types", blocks=[Table(head=head, rows=rows)])]


def _tails(results: Mapping[str, Any]) -> list[Section]:
    """Return the latency breakdown of the slowest requests: a bar and a table each."""
    sections = []
    for tail in tails(results):
        title = tail_title(results, tail)
        title = f"{title[0].upper()}{title[1:]}"
        parts = [
            BarPart(part.label, [part.share], [f"{part.value}, {format_share(part.share)}"], colour)
            for part in tail.parts
            for colour in [PART_COLOURS[part.name]]
        ]
        axis = Axis(f"share of {label_of(tail.metric, short=True)}", "%", top=1.0)
        figure = StackedBars([""], parts, axis)
        rows = [[part.label, part.value, format_share(part.share)] for part in tail.parts]
        colours = [part.colour for part in parts]
        table = Table(head=("part", "mean time", "share"), rows=rows, colours=colours)
        sections.append(Section.charted(title, figure, table))
    return sections


def _charts(run: SimulatedRun, limits: Mapping[str, str], *, graph: bool) -> list[Section]:
    """Return the charts with titles, without empty ones; latencies may be limits."""
    names = METRICS[2:] if graph else METRICS
    latency_limit = limits.get(names[0], "")
    dots, note = _first_tokens(run.columns)
    requests = _states(run.series, ("running", "running"), ("waiting", "waiting"))
    blocks_held = _states(run.series, ("kv_used_share", "blocks in use by requests"))
    serving = _states(run.series, ("replicas", "serving"))
    share = Axis("share of requests", "%", top=1.0)
    cache = Axis("share of the KV cache", "%", top=1.0)
    suffix = f", {latency_limit}" if latency_limit else ""
    latency = Axis(f"latency{suffix}", "s", log=True)
    ttft = Axis(f"time to first token{suffix}", "s")
    charts = [
        ("Latency distributions", "", _spread(run.columns, names), latency, share),
        ("Time to first token by arrival", note, dots, ARRIVAL, ttft),
        ("Requests in the engines", "", requests, TIME, Axis("requests", "count")),
        ("KV cache in use", "", blocks_held, TIME, cache),
    ]
    if graph:  # without tokens and their cache
        charts = [charts[0], charts[2]]
    if len(set(run.series["replicas"])) > 1:
        charts.append(("Serving replicas", "", serving, TIME, Axis("replicas", "count")))
    if "deployment_power_w" in run.series:
        watts = _states(run.series, ("deployment_power_w", "all GPU boards"))
        charts.append(("Power", "", watts, TIME, Axis("power", "W")))
    spans = _spans(run)
    sections: list[Section] = []
    seed = f"The charts show the run of seed {run.seed}." if run.seed is not None else ""
    for title, remark, lines, x, y in charts:
        if any(len(line.x) for line in lines):
            figure = LineChart(lines, x, y, spans=() if x.log else spans)
            texts = [text for text in (remark, "" if sections else seed) if text]
            chart = Chart(figure=figure, title=title)
            sections.append(Section(title=title, blocks=[*texts, chart]))
    return sections


def _spread(columns: Columns, names: Sequence[str]) -> list[Line]:
    lines = []
    for name, colour in zip(names, COLOURS, strict=False):
        values = sorted(value for value in columns.get(name, ()) if value is not None)
        if values and values[-1] > 0.0:
            lines.append(Line(label_of(name), *_thinned(values), colour))
    return lines


def _first_tokens(columns: Columns) -> tuple[list[Line], str]:
    """Return a dot per request, and a note on omitted dots if there are many."""
    rows = [
        (at, value)
        for at, value in zip(columns["arrival_s"], columns["ttft_s"], strict=True)
        if value is not None
    ]
    if not rows:
        return [], ""
    step = -(-len(rows) // MAX_DOTS)
    note = ""
    shown = rows[::step]
    if step > 1:
        slow = sorted(rows, key=lambda row: row[1], reverse=True)[: MAX_DOTS // 4]
        shown = sorted({*shown, *slow})
        note = f"Shows one in {step:,} requests, and the {len(slow):,} slowest."
    at, values = zip(*shown, strict=True)
    return [Line(label_of("ttft_s"), at, values, COLOURS[0], "dots")], note


def _states(series: Columns, *names: tuple[str, str]) -> list[Line]:
    """Return step lines of the state over time, for pairs of column and label."""
    return [
        Line(label, list(series["time_s"]), list(series[name]), colour, "step")
        for (name, label), colour in zip(names, COLOURS, strict=False)
    ]


def _spans(run: SimulatedRun) -> list[Span]:
    """Return the outages of replicas, or the starts and stops by an autoscaler."""
    out = []
    for row in run.out_of_service:
        end_s = float("inf") if row["to_s"] is None else row["to_s"]
        what = "crash" if row["kind"] == "crash" else "drained"
        until = "permanently" if row["to_s"] is None else f"to {row['to_s']:g} s"
        text = f"replica {row['replica']} out of service ({what}) from {row['from_s']:g} s {until}"
        name = f"a replica out of service ({what})"
        out.append(Span(name, row["from_s"], end_s, OUT_COLOURS[row["kind"]], text))
    return out or _marks(run.series)


def _marks(series: Columns) -> list[Span]:
    """Return the changes of the number of serving replicas, unless there are too many."""
    marks = []
    number = list(series["replicas"])
    for at_s, before, after in zip(series["time_s"][1:], number, number[1:], strict=False):
        if before != after:
            name = "replicas start to serve" if after > before else "replicas stop"
            text = f"{significant(at_s, 4)} s: {before:g} to {after:g} replicas"
            marks.append(Span(name, at_s, at_s, UP if after > before else DOWN, text))
    return marks if len(marks) <= MAX_MARKS else []


def _thinned(values: list[float]) -> tuple[list[float], list[float]]:
    """Return at most `MAX_POINTS` points of a distribution, including its ends."""
    count = len(values)
    kept = sorted({round(i * (count - 1) / (MAX_POINTS - 1)) for i in range(MAX_POINTS)})
    return [values[i] for i in kept], [(i + 1) / count for i in kept]
