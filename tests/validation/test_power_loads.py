"""Energies fitted to sustained loads, and scores of loads that are not fitted."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfatlas.measurements.tables import has_silicon
from validation.power import (
    fit_kernels,
    fit_loads,
    power_splits,
    read_loads,
    score_loads,
    shipped_values,
)

MEASUREMENTS = Path(__file__).parents[2] / "measurements"


@pytest.mark.skipif(not has_silicon(), reason="the measured tables are not installed")
def test_shipped_energies_are_exactly_those_of_the_fits() -> None:
    assert fit_loads(MEASUREMENTS) | fit_kernels() == shipped_values()


def test_only_fitted_studies_are_read_by_the_fit_and_misaligned_streams_by_none() -> None:
    stated = power_splits().loads
    loads = read_loads(MEASUREMENTS, stated["fitted"])
    assert set(loads.text("study").tolist()) == set(stated["fitted"])
    streams = loads.take((loads.text("study") == "stream") & (loads.text("device") == "h100_sxm"))
    assert len(streams.rows) == 25


def test_scored_loads_are_predicted_within_15_percent_and_named_as_not_blind() -> None:
    stated = power_splits().loads
    rows = score_loads(MEASUREMENTS)
    assert stated["blind"] is False
    assert [(row["device"], row["study"]) for row in rows] == [
        (device, study) for device in stated["devices"] for study in stated["scored"]
    ]
    assert max(row["mape"] for row in rows) < 0.15
    assert sum(row["rows"] for row in rows) == 66
