"""`perfatlas web` in Chromium: no errors, forms, answers to the digit, a cancelled search."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

pytest.importorskip("playwright.sync_api")
pytest.importorskip("fastapi")

if TYPE_CHECKING:
    from playwright.sync_api import Browser

MODEL, SYSTEM = "openai/gpt-oss-20b", "h200_sxm"
ANSWER: Final = f"/estimate?model={MODEL}&system={SYSTEM}&batch=8"
PAGES: Final = (
    "/",
    "/estimate",
    "/train",
    "/catalog/systems/h200_sxm",
    ANSWER,
    f"/estimate?model={MODEL}&system={SYSTEM}&frontier=true",
)
SHORT: Final = ("/estimate", ANSWER)  # a form and an answer; the other pages are studies


@pytest.mark.slow
@pytest.mark.parametrize("width", [400, pytest.param(1200, marks=pytest.mark.study)])
@pytest.mark.parametrize(
    "path", [pytest.param(one, marks=[pytest.mark.study] * (one not in SHORT)) for one in PAGES]
)
def test_pages_have_no_errors_and_fit(
    path: str, width: int, browser: Browser, address: str
) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900})
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text))
    page.on("pageerror", lambda problem: errors.append(str(problem)))
    page.on("requestfailed", lambda request: errors.append(request.url))
    page.goto(address + path)
    if "model" in path:
        page.wait_for_selector(".chart svg")
    inputs = "[...document.querySelectorAll('input:not([type=hidden]),select')]"
    unlabelled = f"{inputs}.filter(one => !one.labels.length)"
    assert page.evaluate(f"{unlabelled}.length") == 0
    assert page.evaluate("document.querySelectorAll('main').length") == 1
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert errors == []
    page.close()


@pytest.mark.slow
def test_a_form_answers_and_its_address_reproduces_the_answer(
    browser: Browser, address: str
) -> None:
    page = browser.new_page()
    page.goto(f"{address}/estimate")
    page.fill("#model", MODEL)
    page.fill("#system", SYSTEM)
    page.fill("#batch", "8")
    page.click("text=Answer")
    assert page.url.partition("?")[2] == "model=openai%2Fgpt-oss-20b&system=h200_sxm&batch=8"
    values = page.inner_text(".values")
    link = page.get_attribute("#answer a:text('JSON')", "href")
    answer = page.request.get(f"{address}{link}").json()
    other = browser.new_page()
    other.goto(page.url)
    assert other.inner_text(".values") == values
    assert f"{1e3 * answer['results']['tpot_s']:.2f} ms" in values
    for one in (page, other):
        one.close()


@pytest.mark.slow
def test_a_slider_redraws_the_answer_and_undo_returns(browser: Browser, address: str) -> None:
    page = browser.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda problem: errors.append(str(problem)))
    page.goto(address + ANSWER)
    before = page.inner_text("#answer .values")
    page.locator("#slider-device-memory-bandwidth").fill("1")
    page.wait_for_selector("#change:has-text('memory bandwidth 4.8 TB/s → 9.6TB/s')")
    assert page.inner_text("#answer .values") != before
    assert page.input_value("#system") == "h200_sxm{device.memory.bandwidth=9.6TB/s}"
    page.locator("#batch").fill("16")
    page.wait_for_selector("#change:has-text('batch 8 → 16')")
    page.wait_for_selector("#answer .chart svg")
    assert "memory.bandwidth" in page.url
    assert page.url.endswith("batch=16")
    for _ in range(2):
        with page.expect_event("load"):  # a page of the history is asked for again
            page.evaluate("setTimeout(() => history.back())")
    assert page.inner_text("#answer .values") == before
    assert errors == []
    page.close()


@pytest.mark.slow
def test_a_profile_is_sent_and_explained(browser: Browser, address: str) -> None:
    from playwright.sync_api import expect

    page = browser.new_page()
    page.goto(address)
    folder = Path(__file__).parents[2] / "examples/profiles"
    page.set_input_files(".own input >> nth=0", folder / "h100_two_layers.json.gz")
    page.wait_for_url("**/profile?files=*")
    page.wait_for_selector("h1:has-text('Kineto trace of NVIDIA H100')", timeout=60_000)
    page.wait_for_selector(".chart svg")
    assert "perfatlas profile h100_two_layers.json.gz" in page.inner_text(".asked code")
    page.goto(f"{address}/estimate")
    page.set_input_files("label.file:near(#model) input >> nth=0", __file__)
    expect(page.locator("#model")).to_have_value(re.compile("^upload:"))
    page.fill("#system", SYSTEM)
    page.click("text=Answer")
    assert "test_browser.py" in page.inner_text("#error")
    page.close()
