from __future__ import annotations

from typing import Any

import pytest

from perfatlas.verbs.fleet.glossary import unit_of
from perfatlas.verbs.fleet.page import lives_of, shares_of
from tests.report.figures import plotly_figure

HOUR = 3600.0


def figure_of(sections: list[Any]) -> Any:  # noqa: ANN401 - a figure
    ((*_, chart),) = (section.blocks for section in sections)
    return plotly_figure(chart.figure)


def test_lives_are_drawn_in_the_unit_of_the_text() -> None:
    # by doubling: 1 to 64 machines of 8 GPUs, 320 h to 5 h
    jobs = [{"gpus": 8 << n, "mtti_s": 320 * HOUR / (1 << n)} for n in range(7)]
    figure = figure_of(lives_of(jobs))
    assert figure.layout.yaxis.title.text == "mean time to interruption [hours]"
    assert (figure.layout.xaxis.type, figure.layout.yaxis.type) == ("log", "log")
    assert figure.data[0].y == pytest.approx([320 / (1 << n) for n in range(7)])


@pytest.mark.parametrize(
    ("shortest_s", "unit"),
    [(20.0, "second"), (90.0, "minute"), (5000.0, "hour"), (2e5, "day"), (1e8, "year")],
)
def test_the_shortest_life_sets_the_unit_of_all(shortest_s: float, unit: str) -> None:
    jobs = [{"gpus": 16, "mtti_s": 2 * shortest_s}, {"gpus": 32, "mtti_s": shortest_s}]
    figure = figure_of(lives_of(jobs))
    assert figure.layout.yaxis.title.text == f"mean time to interruption [{unit}s]"


def test_one_cause_alone_needs_no_chart() -> None:
    cause = {"name": "gpu", "share": 1.0}
    assert shares_of([cause]) == []
    figure = figure_of(shares_of([cause | {"share": 0.75}, {"name": "nic", "share": 0.25}]))
    assert list(figure.data[0].y) == ["gpu", "nic"]
    assert list(figure.data[0].x) == [0.75, 0.25]


def test_a_unit_is_the_largest_that_is_full() -> None:
    assert [unit_of(s) for s in (0.5, 59.0, 3599.0, 86_399.0, 7e7)] == [
        "second",
        "second",
        "minute",
        "hour",
        "year",
    ]
