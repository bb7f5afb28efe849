"""Figures: positions and units of their elements, and escaping of names."""

from __future__ import annotations

import json

import pytest

from perfatlas.report import charts
from tests.report.figures import plotly_figure

HOSTILE = '<a href="https://x.example">y</a>'
ESCAPED = '&lt;a href="https://x.example"&gt;y&lt;/a&gt;'
RISING = charts.Line("load", [0.0, 5.0, 10.0], [0.0, 1.0, 4.0], "#123456")
TIME, REQUESTS = charts.Axis("time [s]"), charts.Axis("requests", "count")


def test_lines_steps_and_dots_are_drawn_as_such() -> None:
    lines = [RISING, RISING._replace(kind="step"), RISING._replace(kind="dots")]
    figure = plotly_figure(
        charts.LineChart([*lines, charts.Line("none", [], [], "red")], TIME, REQUESTS)
    )
    assert [trace.mode for trace in figure.data] == ["lines", "lines", "markers"]
    assert [trace.line.shape for trace in figure.data] == [None, "hv", None]
    assert list(figure.data[0].x) == [0.0, 5.0, 10.0]
    assert list(figure.data[0].y) == [0.0, 1.0, 4.0]
    assert list(figure.layout.yaxis.range) == [0.0, pytest.approx(4.2)]  # 5 % above the highest
    assert figure.layout.yaxis.dtick == 1  # no half requests
    assert figure.layout.showlegend
    assert not plotly_figure(
        charts.LineChart([RISING], TIME, REQUESTS)
    ).layout.showlegend  # the axis says it


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize(
    ("axis", "first", "last"),
    [
        (charts.Axis("arithmetic", "FLOP/s"), "TFLOP/s", "PFLOP/s"),
        (charts.Axis.of("bus_bandwidth_bytes_per_s"), "TB/s", "PB/s"),
        (charts.Axis("parameters"), "T", "P"),
    ],
)
def test_large_ticks_have_si_prefixes(
    axis: charts.Axis, first: str, last: str, *, log: bool
) -> None:
    line = charts.Line("a", [1e12, 4e12, 3e15], [1e12, 4e12, 3e15], "#123456")
    chart = charts.LineChart([line], axis._replace(log=log), axis._replace(log=log))
    figure = plotly_figure(chart)
    assert figure.layout.xaxis.tickformat == figure.layout.yaxis.tickformat == "~s"
    assert (figure.layout.yaxis.ticksuffix or "") == axis.unit
    drawn = charts.drawn_figure([("a", chart)])
    drawn.draw_without_rendering()
    for own in (drawn.axes[0].xaxis, drawn.axes[0].yaxis):
        ticks = [label.get_text() for label in own.get_ticklabels()]
        assert max(map(len, ticks)) <= len("-500 TFLOP/s")
        assert any(tick.endswith(last) for tick in ticks)
        assert not log or any(tick.endswith(first) for tick in ticks)


def test_spans_are_shaded_up_to_the_last_point_and_named_once() -> None:
    spans = [
        charts.Span("out", 1.0, 3.0, "#cf222e", "replica 0 <out>"),
        charts.Span("out", 4.0, float("inf"), "#cf222e", "replica 1"),
        charts.Span("up", 2.0, 2.0, "#1a7f37", "one more"),
        charts.Span("out", 99.0, 100.0, "#cf222e", "after the end"),
    ]
    chart = charts.LineChart([RISING], TIME, REQUESTS, spans=spans)
    _, first, second, mark = plotly_figure(chart).data
    assert list(first.x) == [1.0, 1.0, 3.0, 3.0]
    assert list(second.x) == [4.0, 4.0, 10.0, 10.0]
    assert list(mark.x) == [2.0, 2.0]
    assert [first.showlegend, second.showlegend, mark.showlegend] == [True, False, True]
    assert first.text == "replica 0 &lt;out&gt;"


def test_a_waterfall_goes_from_all_to_what_is_left() -> None:
    rows = [
        {"name": "useful", "share": 0.75},
        {"name": "lost", "share": 0.25},
        {"name": "idle", "share": 0.0},
    ]
    labels = {"useful": "useful work", "lost": HOSTILE, "idle": "idle"}
    (trace,) = plotly_figure(charts.Waterfall(rows, labels, ["75.0 %", "25.0 %", "0 %"])).data
    assert list(trace.y) == ["total", ESCAPED, "useful work"]
    assert list(trace.x) == [1.0, 0.25, 0.75]
    assert list(trace.base) == [0.0, 0.75, 0.0]  # what is lost starts where what is left ends
    assert list(trace.text) == ["100%", "25.0%", "75.0%"]


def test_the_label_of_a_bar_is_beyond_its_interval() -> None:
    bars = [
        charts.Bar("a", 2.15, "$2.15", interval=(1.5, 8.0)),
        charts.Bar("b", -1.0, "down"),
    ]
    drawn, labels = plotly_figure(charts.BarChart(bars, charts.Axis("cost"))).data
    assert (list(drawn.x), drawn.textposition) == ([2.15, -1.0], "none")
    assert (list(labels.x), labels.textposition) == ([8.0, 0.0], "middle right")
    assert [text.strip() for text in labels.text] == ["$2.15", "down"]


def test_parts_are_stacked_and_bins_stand_side_by_side() -> None:
    parts = [
        charts.BarPart("queue", [0.75], ["3 s, 75 %"], "red"),
        charts.BarPart("decode", [0.25], ["1 s"], "blue"),
    ]
    figure = plotly_figure(charts.StackedBars([""], parts, charts.Axis("share", "%")))
    assert figure.layout.barmode == "stack"
    assert [list(trace.x) for trace in figure.data] == [[0.75], [0.25]]
    assert list(figure.data[0].hovertext) == ["3 s, 75%"]
    bins = charts.Histogram([0.5, 1.5], [0.25, 0.75], charts.Axis("days"), charts.Axis("runs", "%"))
    (trace,) = plotly_figure(bins).data
    assert trace.width == 1.0
    counts = charts.DaysChart(
        ["2026-03-01", "2026-03-02"], [300, 1], charts.Axis("failures", "count")
    )
    days = plotly_figure(counts)
    assert (days.layout.xaxis.type, days.layout.xaxis.dtick) == ("date", "D1")
    assert days.layout.yaxis.dtick is None  # 300 of them need no tick each


def test_nothing_in_a_figure_ends_its_script_or_is_read_as_html() -> None:
    chart = charts.LineChart(
        [RISING._replace(name="</script><script>alert(1)</script>")],
        charts.Axis(HOSTILE),
        charts.Axis("%{customdata}"),
        spans=[charts.Span(HOSTILE, 0.0, 1.0, "red", HOSTILE)],
    )
    text = charts.figure_json(chart)
    assert not set("<>") & set(text)
    told = json.loads(text)
    assert told["layout"]["xaxis"]["title"]["text"] == ESCAPED
    assert told["data"][0]["name"].startswith("&lt;/script&gt;")
    assert told["data"][1]["text"] == ESCAPED
    assert "template" not in told["layout"]  # the page sets colours and fonts
