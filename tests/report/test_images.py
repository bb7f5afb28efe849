"""Charts as image files: every kind of chart, every format, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import pytest

from perfatlas.cli import main
from perfatlas.quantities import MissingDependencyError, UsageError
from perfatlas.report import charts
from tests.examples import few

HOSTILE: Final = "$x_{1}$ <b> \\frac{"
RISING: Final = charts.Line(HOSTILE, [1.0, 5.0, 10.0], [1.0, 2.0, 4.0], "#123456")
PASS: Final = {"stage": [0], "chunk": [0], "micro_batch": [0], "start_s": [0.0], "end_s": [1.0]}
CHARTS: Final[dict[str, charts.Drawing]] = {
    "lines": charts.LineChart(
        [RISING, RISING._replace(kind="step"), RISING._replace(kind="dots")],
        charts.Axis(HOSTILE, "s", log=True),
        charts.Axis("requests", "count"),
        [charts.Span("out", 1.0, 3.0, "red", ""), charts.Span("up", 2.0, 2.0, "green", "")],
    ),
    "bars": charts.BarChart(
        [charts.Bar(HOSTILE, 2.0, "2 us", interval=(1.5, 2.5)), charts.Bar("b", 1.0)],
        charts.Axis("hours"),
    ),
    "waterfall": charts.Waterfall(
        [{"name": "useful", "share": 0.75}, {"name": "lost", "share": 0.25}],
        {"useful": "useful work", "lost": HOSTILE},
        ["75%", "25%"],
    ),
    "parts": charts.StackedBars(
        [""], [charts.BarPart("queue", [0.75], ["3 s"], "red")], charts.Axis("share", "%")
    ),
    "bins": charts.Histogram(
        [0.5, 1.5], [0.25, 0.75], charts.Axis("days"), charts.Axis("runs", "%")
    ),
    "intervals": charts.LineChart(
        [
            RISING._replace(low=[0.5, 1.0, 2.0], high=[2.0, 3.0, 5.0]),
            RISING._replace(kind="mark", low=[0.5, 1.0, 2.0], high=[2.0, 3.0, 5.0]),
            RISING._replace(kind="dots", texts=[HOSTILE, "b", "c"]),
        ],
        charts.Axis("x", log=True),
        charts.Axis("y", log=True),
    ),
    "cells": charts.HeatMap(
        (HOSTILE, ["a", "b"]),
        ("y", [HOSTILE]),
        [[1.0, None]],
        [[HOSTILE, ""]],
        charts.Axis("time", "s"),
    ),
    "days": charts.DaysChart(
        ["2026-03-01", "2026-03-02"], [3, 1], charts.Axis("failures", "count")
    ),
    "pipeline": charts.PipelineChart(
        {**PASS, "rank": [0], "pass": ["forward"], "overlapped": [False]}
    ),
}
ESTIMATE: Final = [
    *("estimate", "--model", "meta-llama/Llama-3.1-8B", "--system", "h200_sxm"),
    *("--isl", "64", "--osl", "8", "--frontier"),
]


@pytest.mark.parametrize("name", few(CHARTS, every=3))
def test_every_chart_is_drawn_with_its_title_and_hostile_text_as_text(name: str) -> None:
    svg = charts.figure_bytes([(HOSTILE, CHARTS[name])], "svg")
    assert ET.fromstring(svg).tag.endswith("svg")  # noqa: S314 - written above
    assert charts.figure_bytes([(HOSTILE, CHARTS[name])], "svg") == svg


def test_a_missing_matplotlib_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError, match=r"\.\[plot\]"):
        charts.figure_bytes([("a", CHARTS["bars"])], "png")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--figure-chart", "power"], "has no effect without --figure"),
        (["--figure", "a.bmp"], "ends in .png, .svg, .pdf"),
        (["--figure", "a.svg", "--figure-chart", "nothing"], "no chart has this title"),
        (["--html-script", "cdn"], "has no effect without --html"),
        (["--html", "a.svg", "--figure", "a.svg"], "the image would replace the page"),
    ],
)
def test_flags_without_effect_are_refused(
    flags: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*ESTIMATE, *flags]) == UsageError.exit_code
    assert message in " ".join(capsys.readouterr().err.split())
    assert not list(tmp_path.iterdir())


def test_names_of_points_cover_neither_lines_nor_each_other() -> None:
    x = [float(one) for one in range(1, 40)]
    names = [f"batch {one:g}" for one in x]
    falling = charts.Line("falling", x, [1600.0 - one * one for one in x], "#123456", texts=names)
    chart = charts.LineChart([falling], charts.Axis("x"), charts.Axis("y"))
    figure = charts.drawn_figure([("A", chart)], "the question")
    figure.draw_without_rendering()
    assert figure.get_suptitle() == "the question"
    (panel,) = figure.axes
    boxes = [text.get_window_extent() for text in panel.texts]
    assert 8 <= len(boxes) < len(x)
    path = panel.transData.transform_path(panel.lines[0].get_path())
    for number, box in enumerate(boxes):
        assert panel.bbox.x0 <= box.x0 <= box.x1 <= panel.bbox.x1
        assert not any(box.overlaps(other) for other in boxes[:number])
        assert not path.intersects_bbox(box, filled=False)


def test_the_mark_is_named_first_and_once() -> None:
    dots = charts.Line("all", [1.0, 2.0], [1.0, 1.0], "#123456", "dots", texts=["a", "the best"])
    best = charts.Line("best", [2.0], [1.0], "#123456", "mark", texts=["the best"])
    chart = charts.LineChart([dots, best], charts.Axis("x"), charts.Axis("y"))
    (panel,) = charts.drawn_figure([("A", chart)]).axes
    assert [text.get_text() for text in panel.texts] == ["the best", "a"]


def test_stacked_bars_end_within_the_axis() -> None:
    parts = [
        charts.BarPart("a", [2.0, 1.0], ["", ""], "red"),
        charts.BarPart("b", [0.0, 0.5], ["", ""], "blue"),  # of no length at the end of the longest
    ]
    figure = charts.drawn_figure([("A", charts.StackedBars(["x", "y"], parts, charts.Axis("t")))])
    assert figure.axes[0].get_xlim() == pytest.approx((0.0, 2.1))
