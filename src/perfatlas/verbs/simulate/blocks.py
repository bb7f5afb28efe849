"""HTML page of a simulation: answer, distributions and state over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfatlas.quantities import significant
from perfatlas.report import charts, pages, text
from perfatlas.vocabulary.metrics import STATISTICS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    "http": charts.GREY,
    "tokenize": charts.BROWN,
    "stream": charts.OLIVE,
    "queue": charts.ORANGE,
    "prompt": charts.BLUE,
    "shared": charts.PURPLE,
    "decode": charts.GREEN,
    "interference": charts.YELLOW,
    "preemption": charts.RED,
    "transfer": charts.TEAL,
    "join": charts.SKY,
    "failure": charts.SLATE,
    "load": charts.PINK,
}
OUT_COLOURS: Final = {"crash": charts.RED, "drain": charts.YELLOW}
UP, DOWN = charts.GREEN, charts.ORANGE
MAX_DOTS: Final = 2_000  # maximum dots per chart
MAX_POINTS: Final = 400  # maximum points of a distribution
MAX_MARKS: Final = 200  # maximum starts and stops of replicas per chart
TIME: Final = charts.Axis("time [s]")
ARRIVAL: Final = charts.Axis("time of arrival [s]")


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
) -> pages.Page:
    """Return a simulation.

    Args:
        run: The run shown in charts; None for the answer alone.
    """
    results = answer.get("results") or {}
    limits = text.limits_of(results, tier=str(answer["evidence"]["tier"]))
    return pages.answer_page(
        answer,
        [pages.answer_text(answer)],
        on_page=lambda: (
            *_results(results, limits),
            *(_charts(run, limits, graph="item" in results) if run else ()),
            *_tails(results),
            *_kinds(results),
        ),
        values=_values(results, str(answer["evidence"]["tier"])),
        reproduce=reproduce,
    )


def _values(results: Mapping[str, Any], tier: str) -> list[text.Value]:
    """Return the key results of a simulation, of latencies the mean."""
    known = [name for name in MEANS if (results.get(name) or {}).get("mean") is not None]
    means = {
        f"{name}{end}": (results.get(f"{name}{end}") or {}).get("mean")
        for name in known
        for end in ("", "_low", "_high")
    }
    latencies = pages.key_values(means, known, tier=tier, short=True)
    return [
        *pages.key_values(results, OBJECTIVES, tier=tier),
        *(latency._replace(label=f"{latency.label}, mean") for latency in latencies),
        *pages.key_values(results, RATES, tier=tier),
    ]


def _results(results: Mapping[str, Any], limits: Mapping[str, str]) -> list[pages.Section]:
    """Return distributions and single results, each with its interval, or marked as a limit."""
    sections: list[pages.Section] = []
    rows: list[list[str]] = []
    dim = []
    for name, values in text.distributions(results).items():
        cells = [text.format_value(name, values[statistic]) for statistic in STATISTICS]
        label = f"{text.label_of(name)}, {limits[name]}" if name in limits else text.label_of(name)
        rows.append([label, *cells, text.mean_interval(results, name)])
        if width := results.get(f"{name}_seed_half_width"):
            dim.append(len(rows))
            cells = [f"± {text.format_value(name, width[statistic])}" for statistic in STATISTICS]
            rows.append(["over seeds, 90%", *cells, ""])
    if rows:
        head = ("", *STATISTICS, "90% interval of the mean")
        table = pages.Table(head=head, rows=rows, dim_rows=dim)
        sections.append(pages.Section(title="Latencies", blocks=[table]))
    shown = pages.Values(all=text.printed_results(results, limits=limits))
    return [*sections, pages.Section(title="Results", blocks=[shown])]


def _kinds(results: Mapping[str, Any]) -> list[pages.Section]:
    """Return the results per replica type, if there are several."""
    kinds = text.kinds_of(results)
    if not kinds:
        return []
    head, *rows = text.kind_rows(kinds)
    return [pages.Section(title="Replica types", blocks=[pages.Table(head=head, rows=rows)])]


def _tails(results: Mapping[str, Any]) -> list[pages.Section]:
    """Return the latency breakdown of the slowest requests: a bar and a table each."""
    sections = []
    for tail in text.tails(results):
        title = text.tail_title(results, tail)
        rows = [[part.label, part.value, text.format_share(part.share)] for part in tail.parts]
        parts = [
            charts.BarPart(label, [part.share], [f"{value}, {share}"], PART_COLOURS[part.name])
            for part, (label, value, share) in zip(tail.parts, rows, strict=True)
        ]
        axis = charts.Axis(f"share of {text.label_of(tail.metric, short=True)}", "%", top=1.0)
        colours = [part.colour for part in parts]
        table = pages.Table(head=("part", "mean time", "share"), rows=rows, colours=colours)
        figure = charts.StackedBars([""], parts, axis)
        sections.append(pages.Section.charted(f"{title[0].upper()}{title[1:]}", figure, table))
    return sections


def _charts(run: SimulatedRun, limits: Mapping[str, str], *, graph: bool) -> list[pages.Section]:
    """Return the charts with titles, without empty ones; latencies may be limits."""
    names = METRICS[2:] if graph else METRICS
    latency_limit = limits.get(names[0], "")
    dots, note = _first_tokens(run.columns)
    requests = _states(run.series, ("running", "running"), ("waiting", "waiting"))
    blocks_held = _states(run.series, ("kv_used_share", "blocks in use by requests"))
    serving = _states(run.series, ("replicas", "serving"))
    share = charts.Axis("share of requests", "%", top=1.0)
    cache = charts.Axis("share of the KV cache", "%", top=1.0)
    suffix = f", {latency_limit}" if latency_limit else ""
    latency = charts.Axis(f"latency{suffix}", "s", log=True)
    ttft = charts.Axis(f"time to first token{suffix}", "s")
    drawn = [
        ("Latency distributions", "", _spread(run.columns, names), latency, share),
        ("Time to first token by arrival", note, dots, ARRIVAL, ttft),
        ("Requests in the engines", "", requests, TIME, charts.Axis("requests", "count")),
        ("KV cache in use", "", blocks_held, TIME, cache),
    ]
    if graph:  # without tokens and their cache
        drawn = [drawn[0], drawn[2]]
    if len(set(run.series["replicas"])) > 1:
        drawn.append(("Serving replicas", "", serving, TIME, charts.Axis("replicas", "count")))
    if "deployment_power_w" in run.series:
        watts = _states(run.series, ("deployment_power_w", "all GPU boards"))
        drawn.append(("Power", "", watts, TIME, charts.Axis("power", "W")))
    spans = _spans(run)
    sections: list[pages.Section] = []
    seed = f"The charts show the run of seed {run.seed}." if run.seed is not None else ""
    for title, remark, lines, x, y in drawn:
        if any(len(line.x) for line in lines):
            figure = charts.LineChart(lines, x, y, spans=() if x.log else spans)
            notes = filter(None, (remark, "" if sections else seed))
            chart = pages.Chart(figure=figure, title=title)
            sections.append(pages.Section(title=title, blocks=[*notes, chart]))
    return sections


def _spread(columns: Columns, names: Sequence[str]) -> list[charts.Line]:
    lines = []
    for name, colour in zip(names, charts.COLOURS, strict=False):
        values = sorted(value for value in columns.get(name, ()) if value is not None)
        if values and values[-1] > 0.0:
            lines.append(charts.Line(text.label_of(name), *_thinned(values), colour))
    return lines


def _first_tokens(columns: Columns) -> tuple[list[charts.Line], str]:
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
    return [charts.Line(text.label_of("ttft_s"), at, values, charts.COLOURS[0], "dots")], note


def _states(series: Columns, *names: tuple[str, str]) -> list[charts.Line]:
    """Return step lines of the state over time, for pairs of column and label."""
    return [
        charts.Line(label, list(series["time_s"]), list(series[name]), colour, "step")
        for (name, label), colour in zip(names, charts.COLOURS, strict=False)
    ]


def _spans(run: SimulatedRun) -> list[charts.Span]:
    """Return the outages of replicas, or the starts and stops by an autoscaler."""
    out = []
    for row in run.out_of_service:
        end_s = float("inf") if row["to_s"] is None else row["to_s"]
        what = "crash" if row["kind"] == "crash" else "drained"
        until = "permanently" if row["to_s"] is None else f"to {row['to_s']:g} s"
        detail = (
            f"replica {row['replica']} out of service ({what}) from {row['from_s']:g} s {until}"
        )
        name = f"a replica out of service ({what})"
        out.append(charts.Span(name, row["from_s"], end_s, OUT_COLOURS[row["kind"]], detail))
    return out or _marks(run.series)


def _marks(series: Columns) -> list[charts.Span]:
    """Return the changes of the number of serving replicas, unless there are too many."""
    marks = []
    number = list(series["replicas"])
    for at_s, before, after in zip(series["time_s"][1:], number, number[1:], strict=False):
        if before != after:
            name = "replicas start to serve" if after > before else "replicas stop"
            detail = f"{significant(at_s, 4)} s: {before:g} to {after:g} replicas"
            marks.append(charts.Span(name, at_s, at_s, UP if after > before else DOWN, detail))
    return marks if len(marks) <= MAX_MARKS else []


def _thinned(values: list[float]) -> tuple[list[float], list[float]]:
    """Return at most `MAX_POINTS` points of a distribution, including its ends."""
    count = len(values)
    kept = sorted({round(i * (count - 1) / (MAX_POINTS - 1)) for i in range(MAX_POINTS)})
    return [values[i] for i in kept], [(i + 1) / count for i in kept]
