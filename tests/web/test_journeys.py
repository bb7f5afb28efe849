"""What users of `perfatlas web` do from their first click to what they came for, in Chromium."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

pytest.importorskip("playwright.sync_api")
pytest.importorskip("fastapi")

from tests.web.conftest import served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

MODEL: Final = "openai/gpt-oss-20b"
ANSWER: Final = f"/estimate?model={MODEL}&system=h200_sxm&batch=8"
OTHERS: Final = ("b200_sxm", "mi300x")
POINT: Final = """place => {
  const [{x, y}] = place.data.filter(trace => trace.name?.includes("b200_sxm"));
  const {_fullLayout: {xaxis, yaxis, _size: {l, t}}} = place;
  const {left, top} = place.getBoundingClientRect();
  return [left + l + xaxis.d2p(x[0]), top + t + yaxis.d2p(y[0])];
}"""
pytestmark = pytest.mark.slow


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    errors: list[str] = []
    found = browser.new_page(viewport={"width": 1400, "height": 900})
    found.on("pageerror", lambda problem: errors.append(str(problem)))
    yield found
    assert errors == []
    found.close()


def test_a_newcomer_has_an_answer_after_two_clicks(page: Page, address: str) -> None:
    page.goto(address)
    page.click("nav >> text=estimate")
    page.click("text=Example")
    values = page.locator("#answer .values").first
    assert "tokens/s" in values.inner_text()
    box = values.bounding_box()
    assert box is not None
    assert box["y"] < 900  # seen without scrolling
    page.goto(address)
    page.click("text=How fast is this model on this GPU?")
    page.wait_for_selector("#answer .chart svg")


def test_two_swept_names_are_a_heat_map(page: Page, address: str) -> None:
    page.goto(f"{address}/sweep")
    page.select_option("#verb", "kernel gemm")
    question = "system=h200_sxm&n=4096&k=4096"
    rows = {"vary": "m", "values": "64 to 8192 in 8 log steps", "vary_2": "device.memory.bandwidth"}
    for name, value in {
        **rows,
        "question": question,
        "values_2": "1TB/s to 8TB/s in 8 steps",
    }.items():
        page.fill(f"input[name={name}]", value)
    page.click("button:text('Answer')")
    chart = page.wait_for_selector(".js-plotly-plot:has(.heatmaplayer image)", timeout=60_000)
    assert chart is not None
    shape = "place => place.data.map(({type, z}) => [type, z?.length * z?.[0].length])"
    assert ["heatmap", 64] in chart.evaluate(shape)


def test_pinned_gpus_share_a_frontier_whose_points_are_estimates(page: Page, address: str) -> None:
    page.goto(address + ANSWER)
    for system in OTHERS:
        page.click("text=Pin this scenario")
        page.fill("#system", system)
        page.wait_for_selector(f"#answer code span:has-text('{system}')")
    page.wait_for_selector(".pinned li >> nth=1")
    page.locator("section[aria-label=Frontier]").scroll_into_view_if_needed()
    chart = page.wait_for_selector("section[aria-label=Frontier] .js-plotly-plot")
    assert chart is not None
    chart.scroll_into_view_if_needed()
    names = set(chart.evaluate("place => place.data.map(trace => trace.name)"))
    assert all(any(one in str(name) for name in names) for one in ("h200_sxm", *OTHERS))
    place, before = chart.evaluate(POINT), None
    while place != before:  # charts above it are still drawn, and move it
        page.wait_for_timeout(500)
        chart.scroll_into_view_if_needed()
        place, before = chart.evaluate(POINT), place
    page.mouse.move(place[0] - 3, place[1] - 3)
    page.mouse.move(*place)
    page.wait_for_selector(".hoverlayer .hovertext")
    with page.expect_navigation():
        page.mouse.click(*place)
    assert "system=b200_sxm&batch=" in page.url
    assert page.input_value("#system") == "b200_sxm"
    with page.expect_download() as saved:
        page.click("#answer a:text('TOML')")
    assert 'system = "b200_sxm"' in saved.value.path().read_text("utf-8")


def test_a_search_ends_with_the_command_that_launches_its_best_plan(
    page: Page, address: str
) -> None:
    page.goto(address)
    page.click("nav >> text=search")
    for name, value in {"model": MODEL, "system": "h200_sxm", "gpus": "1"}.items():
        page.fill(f"#{name}", value)
    page.click("summary:has(~ .fields #emit)")
    page.select_option("#emit", "vllm")
    page.click("button:text('Answer')")
    page.wait_for_selector("text=vllm serve", timeout=60_000)
    assert f"vllm serve {MODEL}" in page.inner_text("main")


def test_a_saved_question_is_found_after_a_restart(page: Page, tmp_path: Path) -> None:
    with served(tmp_path) as address:
        page.goto(address + ANSWER)
        page.fill("#saved-name", "my plan")
        page.click("text=Save")
        values = page.inner_text("#answer .values")
    with served(tmp_path) as address:
        page.goto(address)
        page.click(".saved >> text=my plan")
        assert page.inner_text("#answer .values") == values
        assert page.input_value("#batch") == "8"
