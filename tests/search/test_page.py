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


def test_limits_are_marked_on_pages_and_in_charts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["search", *ASKED, "--systems", "tpu_v7", "--html", str(tmp_path / "page.html")]
    assert main([*words, "--html-script", "none"]) == 0
    told, page = capsys.readouterr().out, (tmp_path / "page.html").read_text("utf-8")
    for text in (told, page):
        assert ", at most" in " ".join(text.split())
        assert "≤" in text
    assert ">bound<" in page
    assert ">physics<" in page


@pytest.mark.parametrize("mode", ["aggregated", "disaggregated"])
def test_plans_of_several_systems_and_formats_are_named(
    mode: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["search", *ASKED, "--mode", mode, "--systems", "tpu_v7", "--formats", "bf16,fp8"]
    words += ["--html", str(tmp_path / "page.html"), "--html-script", "none", "--verbose"]
    assert main(words) == 0
    told, page = capsys.readouterr().out, (tmp_path / "page.html").read_text("utf-8")
    for text in (told, page):
        assert "on 2 x h200_sxm or tpu_v7" in " ".join(text.split())
    table = told[told.index("system") : told.index("why the first")]
    assert table.splitlines()[0].split()[:3] == ["system", "format", "plan"]
    assert "tpu_v7" in table
    assert "tpu_v7, fp8" in page
    assert "None" not in told


def test_points_of_the_frontier_have_their_tier() -> None:
    asked: dict[str, Any] = {"model": "meta-llama/Llama-3.1-8B", "gpus": 2, "num_simulated": 0}
    for mode in ("aggregated", "disaggregated"):
        for system, tier in (("h200_sxm", "physics"), ("tpu_v7", "bound")):
            found = search(**asked, system=system, mode=mode)
            assert {row["tier"] for row in found.results["frontier"]} == {tier}
            assert {row["tier"] for row in found.results["plans"]} == {tier}
            assert set(found.columns["tier"]) == {tier}


def test_the_probability_of_limits_is_shown_where_there_are_limits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for limit in ([], ["--slo-tpot-s", "1"]):
        words = ["search", *ASKED, *limit, "--html", str(tmp_path / "page.html")]
        assert main([*words, "--html-script", "none"]) == 0
        told, page = capsys.readouterr(), (tmp_path / "page.html").read_text("utf-8")
        for text in (told.out, page):
            assert ("P(SLO)" in text) == bool(limit)
