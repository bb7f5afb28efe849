"""Charts as image files: every kind of chart, every format, and what is refused."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

import pytest

from perfatlas.cli import main
from perfatlas.quantities import MissingDependencyError, UsageError
from perfatlas.report.charts import (
    Axis,
    Bar,
    BarChart,
    BarPart,
    DaysChart,
    HeatMap,
    Histogram,
    Line,
    LineChart,
    PipelineChart,
    Span,
    StackedBars,
    Waterfall,
    figure_bytes,
)
from tests.examples import few

if TYPE_CHECKING:
    from pathlib import Path

    from perfatlas.report.charts import Drawing

HOSTILE: Final = "$x_{1}$ <b> \\frac{"
RISING: Final = Line(HOSTILE, [1.0, 5.0, 10.0], [1.0, 2.0, 4.0], "#123456")
PASS: Final = {"stage": [0], "chunk": [0], "micro_batch": [0], "start_s": [0.0], "end_s": [1.0]}
CHARTS: Final[dict[str, Drawing]] = {
    "lines": LineChart(
        [RISING, RISING._replace(kind="step"), RISING._replace(kind="dots")],
        Axis(HOSTILE, "s", log=True),
        Axis("requests", "count"),
        [Span("out", 1.0, 3.0, "red", ""), Span("up", 2.0, 2.0, "green", "")],
    ),
    "bars": BarChart(
        [Bar(HOSTILE, 2.0, "2 us", interval=(1.5, 2.5)), Bar("b", 1.0)], Axis("hours")
    ),
    "waterfall": Waterfall(
        [{"name": "useful", "share": 0.75}, {"name": "lost", "share": 0.25}],
        {"useful": "useful work", "lost": HOSTILE},
        ["75%", "25%"],
    ),
    "parts": StackedBars([""], [BarPart("queue", [0.75], ["3 s"], "red")], Axis("share", "%")),
    "bins": Histogram([0.5, 1.5], [0.25, 0.75], Axis("days"), Axis("runs", "%")),
    "intervals": LineChart(
        [
            RISING._replace(low=[0.5, 1.0, 2.0], high=[2.0, 3.0, 5.0]),
            RISING._replace(kind="mark", low=[0.5, 1.0, 2.0], high=[2.0, 3.0, 5.0]),
            RISING._replace(kind="dots", texts=[HOSTILE, "b", "c"]),
        ],
        Axis("x", log=True),
        Axis("y", log=True),
    ),
    "cells": HeatMap(
        (HOSTILE, ["a", "b"]), ("y", [HOSTILE]), [[1.0, None]], [[HOSTILE, ""]], Axis("time", "s")
    ),
    "days": DaysChart(["2026-03-01", "2026-03-02"], [3, 1], Axis("failures", "count")),
    "pipeline": PipelineChart({**PASS, "rank": [0], "pass": ["forward"], "overlapped": [False]}),
}
BEGINNINGS: Final = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}
ESTIMATE: Final = [
    *("estimate", "--model", "meta-llama/Llama-3.1-8B", "--system", "h200_sxm"),
    *("--isl", "64", "--osl", "8", "--frontier"),
]


@pytest.mark.parametrize("name", few(CHARTS, every=3))
def test_every_chart_is_drawn_with_its_title_and_hostile_text_as_text(name: str) -> None:
    svg = figure_bytes([(HOSTILE, CHARTS[name])], "svg")
    assert ET.fromstring(svg).tag.endswith("svg")  # noqa: S314 - written above
    assert figure_bytes([(HOSTILE, CHARTS[name])], "svg") == svg


@pytest.mark.study
@pytest.mark.parametrize("file_format", BEGINNINGS)
def test_charts_stand_below_one_another_in_every_format(file_format: str) -> None:
    one = figure_bytes([("a", CHARTS["bars"])], file_format)
    two = figure_bytes([("a", CHARTS["bars"]), ("b", CHARTS["bins"])], file_format)
    assert one.startswith(BEGINNINGS[file_format])
    assert len(two) > len(one)
    if file_format == "png":  # height in pixels, bytes 20 to 24
        assert int.from_bytes(two[20:24], "big") > int.from_bytes(one[20:24], "big")


def test_a_missing_matplotlib_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError, match=r"perfatlas\[plot\]"):
        figure_bytes([("a", CHARTS["bars"])], "png")


@pytest.mark.study
def test_a_frontier_is_written_whole_or_one_chart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*ESTIMATE, "--frontier-over", "clock_ratio"]
    sizes = []
    for title in ([], ["--figure-chart", "energy over time per"]):
        target = tmp_path / "frontier.svg"
        assert main([*words, "--figure", str(target), *title]) == 0
        sizes.append(target.stat().st_size)
    assert sizes[0] > sizes[1]
    page, image = tmp_path / "page.html", tmp_path / "frontier.pdf"
    assert main([*ESTIMATE, "--html", str(page), "--figure", str(image)]) == 0
    assert image.read_bytes().startswith(b"%PDF")
    assert "tp 1" in page.read_text("utf-8")
    told = capsys.readouterr().err
    assert "--html written to" in told
    assert "--figure written to" in told


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
