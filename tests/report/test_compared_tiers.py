"""A limit beside a prediction is marked on its own line, wherever two answers are compared."""

from __future__ import annotations

import pytest

from perfatlas.report.text import limited_text, ratio_text


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
