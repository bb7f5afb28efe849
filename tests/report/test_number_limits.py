"""Exact values have no interval, extreme shares are printed as limits, loads are complete."""

from __future__ import annotations

import pytest

from perfatlas.report.text import format_share, interval_text, share_text


def test_an_exact_value_has_no_interval() -> None:
    results = {"tokens": 909.0, "tokens_low": 909.0, "tokens_high": 909.0}
    assert interval_text(results, "tokens") == ""
    results |= {"tokens_low": 800.0}
    assert interval_text(results, "tokens") == "800 - 909"


@pytest.mark.parametrize(("share", "text"), [(1.66e-157, "< 0.000001%"), (3.18e7, "> 9,999%")])
def test_extreme_shares_are_printed_as_limits(share: float, text: str) -> None:
    assert share_text(share) == text
    assert format_share(3.18e7) == "> 9,999%"
