"""Charts that pages of several verbs have: rooflines, steps by operator, memory, intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.report import charts
from perfatlas.report.pages.page import Section, Table
from perfatlas.report.text import (
    format_share,
    format_value,
    label_of,
    limited_text,
    limits_of,
    share_text,
)
from perfatlas.vocabulary.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Rows = Sequence[Mapping[str, Any]]

PHASE_TITLES: Final = {"prefill": "Prefill", "decode": "Decode step", "pass": "Pass"}
FREE: Final = "free"
MAX_OPERATORS: Final = 24  # of a step; the shortest of more are one bar
MAX_BARS: Final = 10  # of a tornado
MIN_SHOWN: Final = 0.005
NOT_PARTS: Final = ("total_bytes", "capacity_bytes")
MEMORY_COLOURS: Final = {
    "weights_bytes": charts.BLUE,
    "kv_bytes": charts.TEAL,
    "gradients_bytes": charts.GREEN,
    "optimizer_bytes": charts.PURPLE,
    "activation_bytes": charts.YELLOW,
    "other_bytes": charts.ORANGE,
}
RATE: Final = charts.Axis("arithmetic", "FLOP/s", log=True)


def roofline(
    groups: Mapping[str, Rows],
    peaks: Mapping[str, float],
    bytes_per_s: float,
    per: str = "byte of device memory",
) -> charts.LineChart:
    """Return operators as points below the ceilings of a machine.

    Args:
        groups: Operators by the name of their group: rows of name, flop, memory_bytes and time_s,
            with time_s_low and time_s_high where a group has intervals.
        peaks: Peak arithmetic by number format [FLOP/s].
        bytes_per_s: Memory bandwidth [B/s].
        per: The bytes that intensities count.
    """
    points = [line for line in _points(groups) if len(line.x)]
    intensities = [x for line in points for x in line.x]
    ridges = [peak / bytes_per_s for peak in peaks.values()]
    left, right = min([*intensities, *ridges]) / 2.0, max([*intensities, *ridges]) * 2.0
    name = f"memory, {format_value('bytes_per_s', bytes_per_s)}"
    slope = [left, max(ridges)]
    ceilings = [charts.Line(name, slope, [bytes_per_s * x for x in slope], charts.GREY)]
    for format_name, peak in peaks.items():
        name = f"{format_name}, {format_value('flop_per_s', peak)}"
        ceilings.append(charts.Line(name, [peak / bytes_per_s, right], [peak, peak], charts.GREY))
    return charts.LineChart([*ceilings, *points], charts.Axis(f"FLOP per {per}", log=True), RATE)


def _points(groups: Mapping[str, Rows]) -> Iterator[charts.Line]:
    """Yield the operators of each group that have arithmetic, the longest first."""
    for (name, rows), colour in zip(
        groups.items(), (charts.BLUE, charts.ORANGE, charts.GREEN, charts.PURPLE), strict=False
    ):
        shown = [row for row in rows if row["flop"] and row["memory_bytes"] and row["time_s"]]
        shown.sort(key=lambda row: -float(row["time_s"]))
        rates = [row["flop"] / row["time_s"] for row in shown]
        has_intervals = all(row.get(f"time_s_{end}") for row in shown for end in ("low", "high"))
        yield charts.Line(
            name,
            [row["flop"] / row["memory_bytes"] for row in shown],
            rates,
            colour,
            "dots",
            [row["flop"] / row["time_s_high"] for row in shown] if has_intervals else (),
            [row["flop"] / row["time_s_low"] for row in shown] if has_intervals else (),
            [str(row["name"]) for row in shown],
        )


def steps_section(title: str, rows: Rows) -> Section:
    """Return the share of the operators of a step in its time, and what bounds each.

    Args:
        rows: Rows of a breakdown of one phase, in execution order.
    """
    longest = sorted(rows, key=lambda row: -float(row["time_s"]))
    shown = [row for row in rows if row in longest[:MAX_OPERATORS]]
    total_s = sum(row["time_s"] for row in rows)
    rest_s = total_s - sum(row["time_s"] for row in shown)
    if len(shown) < len(rows):
        name = f"{len(rows) - len(shown)} others"
        shown.append({"name": name, "bound": "others", "time_s": rest_s})
    texts = [format_value("time_s", row["time_s"]) for row in shown]
    names = [f"{row['name']}, {text}" for row, text in zip(shown, texts, strict=True)]
    parts = []
    time_s: dict[str, float] = {}
    for row in shown:
        time_s[row["bound"]] = time_s.get(row["bound"], 0.0) + row["time_s"]
    for bound in (
        *(key for key in charts.BOUND_COLOURS if key in time_s),
        *(time_s.keys() - charts.BOUND_COLOURS),
    ):
        values = [row["time_s"] / total_s if row["bound"] == bound else 0.0 for row in shown]
        parts.append(
            charts.BarPart(bound, values, texts, charts.BOUND_COLOURS.get(bound, charts.GREY))
        )
    cells = [
        [
            part.name,
            format_value("time_s", time_s[part.name]),
            share_text(time_s[part.name] / total_s),
        ]
        for part in parts
    ]
    table = Table(
        head=("bound", "time", "share"), rows=cells, colours=[part.colour for part in parts]
    )
    chart = charts.StackedBars(names, parts, charts.Axis("share of the time of the step", "%"))
    return Section.charted(title, chart, table)


def memory_section(title: str, memory: Mapping[str, Any]) -> Section:
    """Return the memory of a GPU by kind as a bar with the length of its capacity."""
    amounts = {
        name: float(value)
        for name, value in memory.items()
        if name.endswith("_bytes") and name not in NOT_PARTS and value
    }
    spare = iter(charts.COLOURS[::-1])
    colours = {name: MEMORY_COLOURS.get(name) or next(spare, charts.GREY) for name in amounts} | {
        FREE: charts.GREY
    }
    amounts[FREE] = max(memory["capacity_bytes"] - memory["total_bytes"], 0.0)
    labels = {name: FREE if name == FREE else label_of(f"memory.{name}") for name in amounts}
    texts = {name: format_value("memory.total_bytes", value) for name, value in amounts.items()}
    parts = [
        charts.BarPart(labels[name], [value], [texts[name]], colours[name])
        for name, value in amounts.items()
    ]
    rows = [
        [labels[name], texts[name], format_share(value / memory["capacity_bytes"])]
        for name, value in amounts.items()
    ]
    table = Table(head=("part", "memory", "share"), rows=rows, colours=list(colours.values()))
    return Section.charted(
        title, charts.StackedBars([""], parts, charts.Axis("memory", "B")), table
    )


def tornado(
    values: Mapping[str, float], axis: charts.Axis, *, higher_is_better: bool
) -> charts.BarChart:
    """Return signed elasticities as bars, the largest on top; what improves the result is green.

    Values that are shown as 0 have none.
    """
    largest = sorted(values.items(), key=lambda pair: -abs(pair[1]))[:MAX_BARS]
    bars = [
        charts.Bar(
            name,
            value,
            f"{value:+.2f}",
            charts.GREEN if (value > 0.0) is higher_is_better else charts.ORANGE,
        )
        for name, value in largest
        if abs(value) >= MIN_SHOWN
    ]
    return charts.BarChart(bars, axis)


def compared_section(name: str, scenarios: Mapping[str, Mapping[str, Any]], title: str) -> Section:
    """Return a metric of several scenarios as bars with intervals, the best in green.

    Args:
        name: The metric.
        scenarios: Results, each with the metric, by the name of their scenario.
    """
    values = {label: float(results[name]) for label, results in scenarios.items()}
    best = (max if METRICS[name].better == "higher" else min)(values.values())
    bars = []
    for label, results in scenarios.items():
        low, high = (results.get(f"{name}_{end}") for end in ("low", "high"))
        ends = None if low is None or high is None else (float(low), float(high))
        limit = limits_of(results, tier=str(results.get("tier") or "")).get(name, "")
        shown = limited_text(format_value(name, values[label]), limit)
        colour = charts.GREEN if values[label] == best else charts.BLUE
        bars.append(charts.Bar(label, values[label], shown, colour, ends))
    return Section.charted(title, charts.BarChart(bars, charts.Axis.of(name)), on="page")
