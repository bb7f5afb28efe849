from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from perfatlas.report.charts import Chart, Line, Span, chart_html, log_ticks, ticks
from perfatlas.report.charts.svg import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH

RISING = Line("load", [0.0, 5.0, 10.0], [0.0, 1.0, 4.0], "#123456")


def path_of(page: str, kind: str) -> str:
    found = re.search(rf'<path class="{kind}"[^>]* d="([^"]*)"', page)
    assert found is not None
    return found[1]


def test_points_are_where_they_belong() -> None:
    page = chart_html(Chart([RISING], "seconds", "requests", top=4.0))
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    middle = (LEFT + right) / 2
    # a quarter of the way up, in the middle of the way along
    assert path_of(page, "line") == (
        f"M{LEFT:.1f} {bottom:.1f}L{middle:.1f} {bottom - (bottom - TOP) / 4:.1f}"
        f"L{right:.1f} {TOP:.1f}"
    )


def test_a_step_holds_its_value_until_the_next() -> None:
    page = chart_html(Chart([RISING._replace(kind="step")], "seconds", "requests"))
    assert re.fullmatch(r"M[\d.]+ [\d.]+(H[\d.]+V[\d.]+){2}", path_of(page, "line"))


def test_nothing_to_draw_is_no_chart() -> None:
    assert chart_html(Chart([Line("load", [], [], "red")], "seconds", "requests")) == ""


def test_spans_and_marks_are_shaded_and_named_once() -> None:
    spans = [
        Span("out", 1.0, 3.0, "#cf222e", "replica 0 <out>"),
        Span("out", 4.0, float("inf"), "#cf222e", "replica 1"),
        Span("up", 2.0, 2.0, "#1a7f37", "one more"),
        Span("out", 99.0, 100.0, "#cf222e", "after the end"),
    ]
    page = chart_html(Chart([RISING], "seconds", "requests", spans=spans))
    assert page.count('<rect class="span"') == 2
    assert page.count('<path class="mark"') == 1
    assert "replica 0 &lt;out&gt;" in page
    assert "after the end" not in page
    assert len(re.findall(r"</i>out</span>", page)) == 1
    widths = [float(width) for width in re.findall(r'width="([\d.]+)" height', page)]
    assert widths == pytest.approx([0.2 * (WIDTH - RIGHT - LEFT), 0.6 * (WIDTH - RIGHT - LEFT)])


def test_seconds_on_a_logarithmic_axis_have_units() -> None:
    line = Line("TTFT", [0.0, 2e-5, 3e-3, 20.0], [0.0, 0.3, 0.6, 1.0], "red")
    page = chart_html(Chart([line], "latency", "requests", x_log=True, top=1.0, percent=True))
    for told in (">100 us<", ">1 ms<", ">1 s<", ">10 s<", ">100 %<"):
        assert told in page


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_ticks_are_few_and_inside(low: float, span: float) -> None:
    high = low + span
    found = ticks(low, high)
    assert len(found) <= 8
    assert all(low - 1e-6 * span <= value <= high + 1e-6 * span for value in found)


@given(st.floats(1e-6, 1e3), st.floats(1.2, 1e6))
def test_logarithmic_ticks_rise_inside(low: float, ratio: float) -> None:
    found = log_ticks(low, low * ratio)
    assert found == sorted(set(found))
    assert all(low <= value <= low * ratio for value in found)
