from __future__ import annotations

from itertools import pairwise

import pytest

from perfatlas.verbs.fleet.charts import days_of, lives_of, shares_of
from perfatlas.verbs.fleet.glossary import spelled_time, unit_of

HOUR = 3600.0


def test_ticks_stand_within_decades_in_the_unit_of_the_text() -> None:
    # by doubling: 1 to 64 machines of 8 GPUs, 320 h to 5 h
    jobs = [{"gpus": 8 << n, "mtti_s": 320 * HOUR / (1 << n)} for n in range(7)]
    ((_, figure),) = lives_of(jobs)
    axis = figure.layout.yaxis
    assert axis.title.text == "hours, on average"
    assert list(axis.tickvals) == [5.0, 10.0, 20.0, 50.0, 100.0, 200.0]
    assert list(axis.ticktext) == ["5", "10", "20", "50", "100", "200"]
    low, high = (10.0**end for end in axis.range)
    assert low < 5.0
    assert high > 320.0
    assert figure.data[0].y == pytest.approx([320 / (1 << n) for n in range(7)])
    assert figure.data[0].text[-1] == "5 hours"


@pytest.mark.parametrize(
    ("shortest_s", "unit"),
    [(20.0, "second"), (90.0, "minute"), (5000.0, "hour"), (2e5, "day"), (1e8, "year")],
)
def test_the_shortest_life_sets_the_unit_of_all(shortest_s: float, unit: str) -> None:
    jobs = [{"gpus": 16, "mtti_s": 2 * shortest_s}, {"gpus": 32, "mtti_s": shortest_s}]
    ((_, figure),) = lives_of(jobs)
    assert figure.layout.yaxis.title.text == f"{unit}s, on average"
    assert figure.data[0].text[-1] == spelled_time(shortest_s)
    assert all(unit in text for text in figure.data[0].text)


def test_a_life_over_many_decades_has_few_ticks() -> None:
    jobs = [{"gpus": 10**n, "mtti_s": 1e9 / 10**n} for n in range(7)]
    ((_, figure),) = lives_of(jobs)
    ticks = list(figure.layout.yaxis.tickvals)
    assert all(later == pytest.approx(10 * first) for first, later in pairwise(ticks))


def test_one_reason_alone_needs_no_chart() -> None:
    cause = {"name": "gpu", "share": 1.0}
    assert shares_of([cause]) == []
    ((_, figure),) = shares_of([cause | {"share": 0.75}, {"name": "nic", "share": 0.25}])
    assert list(figure.data[0].y) == ["nic", "gpu"]
    assert list(figure.data[0].x) == [25.0, 75.0]


def test_days_without_a_failure_have_no_chart() -> None:
    assert days_of({"days": [], "failures_per_day": []}) == []
    days = ["2026-03-01", "2026-03-02"]
    assert days_of({"days": days[:1], "failures_per_day": [3]}) == []
    ((_, figure),) = days_of({"days": days, "failures_per_day": [3, 1]})
    assert (figure.layout.yaxis.dtick, figure.layout.xaxis.dtick) == (1, "D1")
    ((_, figure),) = days_of({"days": days, "failures_per_day": [300, 1]})
    assert figure.layout.yaxis.dtick is None


def test_lives_within_a_decade_have_ticks_too() -> None:
    jobs = [{"gpus": 8 << n, "mtti_s": 64 * HOUR / (1 << n)} for n in range(3)]
    ((_, figure),) = lives_of(jobs)
    assert list(figure.layout.yaxis.ticktext) == ["20", "40", "60", "80"]


def test_a_unit_is_the_largest_that_is_full() -> None:
    assert [unit_of(s) for s in (0.5, 59.0, 3599.0, 86_399.0, 7e7)] == [
        "second",
        "second",
        "minute",
        "hour",
        "year",
    ]
    assert spelled_time(30 * HOUR, "hour") == "30 hours"
