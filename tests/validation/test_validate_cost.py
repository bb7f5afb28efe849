"""Published comparisons of costs, from their own inputs."""

from __future__ import annotations

import pytest

from validation.cost.chips import bills
from validation.runs.shared_data import shared_folder


def test_chips_beside_published_bills() -> None:
    path = shared_folder() / "cost" / "facts.csv"
    if not path.is_file():
        pytest.skip(f"no {path}; PERFATLAS_SHARED_DATA names the folder of data")
    for row in bills(path):
        assert row["low_usd"] < row["published_usd"] < row["high_usd"]
