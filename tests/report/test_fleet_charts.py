from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perfatlas.cli import main
from perfatlas.verbs.fleet.blocks import causes_chart, days_chart, lives_chart
from tests.report.figures import plotly_figure

HOUR = 3600.0


def figure_of(blocks: list[Any]) -> Any:  # noqa: ANN401 - a figure
    chart, *_ = blocks
    return plotly_figure(chart.figure)


def test_lives_are_drawn_in_the_unit_of_the_text() -> None:
    # by doubling: 1 to 64 machines of 8 GPUs, 320 h to 5 h
    jobs = [{"gpus": 8 << n, "mtti_s": 320 * HOUR / (1 << n)} for n in range(7)]
    figure = figure_of(lives_chart(jobs))
    assert figure.layout.yaxis.title.text == "mean time to interruption [hours]"
    assert (figure.layout.xaxis.type, figure.layout.yaxis.type) == ("log", "log")
    assert figure.data[0].y == pytest.approx([320 / (1 << n) for n in range(7)])


@pytest.mark.parametrize(
    ("shortest_s", "unit"),
    [(20.0, "second"), (90.0, "minute"), (5000.0, "hour"), (2e5, "day"), (1e8, "year")],
)
def test_the_shortest_life_sets_the_unit_of_all(shortest_s: float, unit: str) -> None:
    jobs = [{"gpus": 16, "mtti_s": 2 * shortest_s}, {"gpus": 32, "mtti_s": shortest_s}]
    figure = figure_of(lives_chart(jobs))
    assert figure.layout.yaxis.title.text == f"mean time to interruption [{unit}s]"


def test_one_life_alone_is_no_line() -> None:
    assert lives_chart([{"gpus": 8, "mtti_s": HOUR}, {"gpus": 16, "mtti_s": float("inf")}]) == []


def test_one_cause_alone_needs_no_chart() -> None:
    cause = {"name": "gpu", "share": 1.0}
    assert causes_chart([cause]) == []
    figure = figure_of(causes_chart([cause | {"share": 0.75}, {"name": "nic", "share": 0.25}]))
    assert list(figure.data[0].y) == ["gpu", "nic"]
    assert list(figure.data[0].x) == [0.75, 0.25]


def test_of_many_causes_the_most_frequent_are_drawn() -> None:
    causes = [{"name": f"c{n}", "share": 1 / 30} for n in range(30)]
    blocks = causes_chart(causes)
    assert blocks[1] == "The 20 most frequent; the table has 10 more."
    assert len(figure_of(blocks).data[0].y) == 20


def test_days_without_a_failure_have_no_chart() -> None:
    assert days_chart({"days": [], "failures_per_day": []}) == []
    days = ["2026-03-01", "2026-03-02"]
    assert days_chart({"days": days[:1], "failures_per_day": [3]}) == []
    figure = figure_of(days_chart({"days": days, "failures_per_day": [3, 1]}))
    assert list(figure.data[0].x) == days
    assert list(figure.data[0].y) == [3, 1]


def test_charts_of_a_fleet_are_written_as_an_image(tmp_path: Path) -> None:
    image = tmp_path / "causes.svg"
    words = ["fleet", "report", "llama3", "--figure", str(image), "--figure-chart", "by cause"]
    assert main(words) == 0
    assert image.read_bytes().startswith(b"<?xml")
    assert main([*words[:5], "--figure-chart", "power"]) == 2
