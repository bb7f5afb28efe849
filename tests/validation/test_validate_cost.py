"""Published comparisons of costs, from their own inputs."""

from __future__ import annotations

import pytest

from validation.cost.cases import cost_of, recomputed_cases
from validation.cost.chips import bills
from validation.runs.shared_data import shared_folder


def test_cost_by_hand() -> None:
    """1.29 USD/h at 2,400 tokens/s for 70% of the hours."""
    assert cost_of(1.29, 2400.0, 0.7) == pytest.approx(1.29 / 0.7 / 3600 / 2400 * 1e6)


def test_published_costs_from_their_own_inputs() -> None:
    path = shared_folder() / "cost" / "cases.csv"
    if not path.is_file():
        pytest.skip(f"no {path}; PERFATLAS_SHARED_DATA names the folder of data")
    cases, _ = recomputed_cases(path)
    assert len(cases) >= 60
    assert [case for case in cases if not case.agrees] == []


def test_chips_beside_published_bills() -> None:
    path = shared_folder() / "cost" / "facts.csv"
    if not path.is_file():
        pytest.skip(f"no {path}; PERFATLAS_SHARED_DATA names the folder of data")
    for row in bills(path):
        assert row["low_usd"] < row["published_usd"] < row["high_usd"]
