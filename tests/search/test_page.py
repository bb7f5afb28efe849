"""The HTML page of a search: plans, reasons and frontier, the same bytes for the same search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from perfatlas.cli import main
from perfatlas.verbs.search import search

if TYPE_CHECKING:
    from pathlib import Path

ASKED = ["--model", "meta-llama/Llama-3.1-8B", "--system", "h200_sxm", "--gpus", "2"]
ASKED += ["--isl", "512", "--osl", "64", "--num-simulated", "0"]


@pytest.mark.parametrize("mode", ["aggregated", "static", "disaggregated"])
def test_a_page_has_plans_reasons_and_the_frontier(
    mode: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = []
    for name in ("one.html", "two.html"):
        words = ["search", *ASKED, "--mode", mode, "--html", str(tmp_path / name)]
        assert main([*words, "--html-script", "none"]) == 0
        pages.append((tmp_path / name).read_text("utf-8"))
    told = capsys.readouterr().err
    assert "--html written to" in told
    assert pages[0] == pages[1]
    for text in ("Best plans", "why not a higher load", "Frontier of throughput and speed"):
        assert text in pages[0], text


# without calibrations, and faster than any GPU
FAST_CPU = "cpu{device.memory.bandwidth=20TB/s, device.sm_count=40000}"


def test_limits_are_marked_on_pages_and_in_charts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["search", *ASKED, "--systems", FAST_CPU, "--html", str(tmp_path / "page.html")]
    assert main([*words, "--html-script", "none"]) == 0
    told, page = capsys.readouterr().out, (tmp_path / "page.html").read_text("utf-8")
    for text in (told, page):
        assert ", at most" in " ".join(text.split())
        assert "≤" in text
    assert ">bound<" in page
    assert ">physics<" in page


def test_points_of_the_frontier_have_their_tier() -> None:
    asked: dict[str, Any] = {"model": "meta-llama/Llama-3.1-8B", "gpus": 2, "num_simulated": 0}
    for mode in ("aggregated", "disaggregated"):
        for system, tier in (("h200_sxm", "physics"), ("cpu", "bound")):
            found = search(**asked, system=system, mode=mode)
            assert {row["tier"] for row in found.results["frontier"]} == {tier}
            assert {row["tier"] for row in found.results["plans"]} == {tier}
            assert set(found.columns["tier"]) == {tier}
