"""Charts that --figure-chart names: known before anything is computed, and those of the pages."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Final

import pytest

from perfatlas.cli import main
from perfatlas.commands.flags import CHART_TITLES, may_be_title
from tests.examples import few

MODEL: Final = ["--model", "meta-llama/Llama-3.1-8B", "--system", "h100_sxm"]
JOB: Final = [*MODEL, "--gpus", "16", "--global-batch", "64", "--sequence-length", "2048"]
SLOW: Final = ["--checkpoint-write-s", "30", "--restart-s", "300", "--mtti-s", "28440"]
PAGES: Final = {
    "by batch": ("estimate", [*MODEL, "--frontier"]),
    "by clock": ("estimate", [*MODEL, "--frontier", "--frontier-over", "clock_ratio"]),
    "by operator": ("estimate", [*MODEL]),
    "a pass": ("estimate", ["--model", "resnet-50", "--system", "h100_sxm"]),
    "explained": ("estimate", [*MODEL, "--isl", "64", "--explain"]),
    "a product": ("kernel gemm", ["--system", "h100_sxm", "--m", "64", "--n", "512", "--k", "512"]),
    "sent": ("collective", [*MODEL[2:], "--op", "all_gather", "--bytes", "1MB", "--gpus", "8"]),
    "accuracy": ("accuracy", [*MODEL[:2], "--gemm-format", "nvfp4"]),
    "compared": ("compare", [*MODEL, "--systems", "h200_sxm"]),
    "simulated": ("simulate", [*MODEL, "--request-rate", "2", "--num-requests", "40"]),
    "pipeline": ("train", [*JOB, "--pp", "2"]),
    "searched": ("search", [*MODEL, "--gpus", "1", "--num-simulated", "0"]),
    "designed": (
        "kernel design attention", ["--system", "h100_sxm", "--kv-len", "256", "--num-heads", "4"],
    ),
    "goodput": ("goodput", [*SLOW, "--gpus", "1024"]),
    "scheduled": (
        "fleet schedule", ["--nodes", "8", "--num-jobs", "50", "--load", "0.8"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", few(PAGES, every=2))
def test_charts_of_a_page_are_known(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verb, words = PAGES[name]
    page = tmp_path / "page.html"
    assert main([*verb.split(), *words, "--html", str(page)]) == 0, capsys.readouterr().err
    found = re.findall(r'<figure aria-label="([^"]*)"', page.read_text("utf-8"))
    assert found
    for title in map(unescape, found):
        assert any(may_be_title(title, known) for known in CHART_TITLES[verb]), title
