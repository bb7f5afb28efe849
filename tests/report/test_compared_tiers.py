"""A limit beside a prediction is marked on its own line, wherever two answers are compared."""

from __future__ import annotations

import pytest

from perfatlas.cli import main
from perfatlas.report.text import limited_text, ratio_text

MODEL = ["--model", "meta-llama/Llama-3.1-8B", "--isl", "512", "--osl", "32"]


def lines_of(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert main([*words]) == 0
    return [line.strip() for line in capsys.readouterr().out.splitlines()]


def line_with(lines: list[str], *texts: str) -> str:
    found = [line for line in lines if all(text in line for text in texts)]
    assert found, texts
    return found[0]


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        (("", ""), "x0.50"),
        (("at least", ""), "≥x0.50"),
        (("", "at least"), "≤x0.50"),
        (("at most", ""), "≤x0.50"),
        (("at least", "at least"), "(x0.50)"),
    ],
)
def test_ratios_by_hand(limits: tuple[str, str], text: str) -> None:
    """A time of at least 5 s beside one of 10 s: a ratio of at least 0.5; the inverse at most."""
    assert ratio_text(5.0, 10.0, limit=limits[0], base_limit=limits[1]) == text
    assert limited_text("5 s", "at most") == "≤5 s"


def test_compare(capsys: pytest.CaptureFixture[str]) -> None:
    lines = lines_of(capsys, "compare", *MODEL, "--system", "h100_sxm", "--systems", "cpu,h200_sxm")
    limit = line_with(lines, "cpu", "ms")
    assert limit.count("≥") == 4  # two times and their ratios
    assert limit.count("≤") == 2  # a rate and its ratio
    assert not {"≥", "≤"} & set(line_with(lines, "h200_sxm", "ms"))
    assert "lower limit on time" in " ".join(lines[lines.index(limit) :])
    lines = lines_of(
        capsys,
        "compare",
        *MODEL,
        "--system",
        "cpu",
        "--systems",
        "h200_sxm,cpu{device.memory.bandwidth=1TB/s}",
    )
    assert line_with(lines, "h200_sxm", "ms").count("≤x") == 2
    assert "(x" in " ".join(line for line in lines if "cpu" in line)
