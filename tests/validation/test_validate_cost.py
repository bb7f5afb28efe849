"""Published comparisons of costs, from their own inputs."""

from __future__ import annotations

import pytest

from validation.cost.chips import bills, interposers
from validation.runs.shared_data import shared_folder


def test_chips_beside_published_bills() -> None:
    path = shared_folder() / "cost" / "facts.csv"
    if not path.is_file():
        pytest.skip(f"no {path}; PERFATLAS_SHARED_DATA names the folder of data")
    totals = [row for row in bills(path) if row["part"] == "total" and row["published_usd"]]
    assert len(totals) == 3
    for row in totals:
        assert row["low_usd"] < row["published_usd"] < row["high_usd"]


def test_interposers_beside_published_ones() -> None:
    rows = {row["package"]: row for row in interposers()}
    assert rows["h100_sxm"]["per_wafer"] == pytest.approx(28, abs=2)
    assert 4 <= rows["5.5 reticles"]["good"] <= 7
