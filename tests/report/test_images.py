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
