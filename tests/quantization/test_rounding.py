"""Rounding of number formats and their signal-to-noise ratio."""

from __future__ import annotations

import csv
from typing import Final

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.quantization import ROUNDINGS, round_float, shaped_values, sqnr_db
from validation.runs.shared_data import shared_folder

SAMPLES: Final = 2**20
SPELLED: Final = {"int8 g4096(per-row)": "int8 g4096 sym", "int8 g128": "int8 g128 sym"}
DISTRIBUTIONS: Final = {"gauss+8/4096 ch x20": "outliers"}


def test_codes_of_e2m1() -> None:
    """0, 0.5, 1, 1.5, 2, 3, 4 and 6; 2.5 lies halfway and goes to the even mantissa of 2."""
    values = np.array([0.2, 0.3, 1.2, 1.3, 2.5, 3.4, 3.6, 5.2])
    expected = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
    assert round_float(values, 1, 0).tolist() == expected


def test_uniform_integers_against_their_closed_form() -> None:
    """12 Q^2 sigma^2 / amax^2 with Q = 127."""
    values = shaped_values(SAMPLES)["gauss"]
    expected = 10 * np.log10(12 * 127**2 * np.mean(values**2) / np.max(np.abs(values)) ** 2)
    assert sqnr_db(values, ROUNDINGS["int8 tensor"]) == pytest.approx(expected, abs=0.05)


@given(st.sampled_from(sorted(ROUNDINGS)), st.integers(-20, 20))
def test_powers_of_two_change_no_error(name: str, power: int) -> None:
    values = shaped_values(4096)["gauss"]
    scaled = ROUNDINGS[name].quantized(values * 2.0**power) / 2.0**power
    if "fp16" not in name:
        assert np.allclose(scaled, ROUNDINGS[name].quantized(values), rtol=0, atol=1e-9)


@pytest.mark.study
def test_published_table() -> None:
    """All 76 cells, from the same samples."""
    path = shared_folder() / "sqnr_formats_measured.csv"
    if not path.is_file():
        pytest.skip(f"no {path}; PERFATLAS_SHARED_DATA names the folder of data")
    rows = list(csv.DictReader(path.read_text("utf-8").splitlines()))
    values = shaped_values(SAMPLES)
    for row in rows:
        shape = DISTRIBUTIONS.get(row["distribution"], row["distribution"])
        name = SPELLED.get(row["format"], row["format"]).replace("mxfp4 ", "mxfp4_e2m1 ")
        if name.startswith("mxfp") and "(" not in name:
            name += " (floor)"
        found = sqnr_db(values[shape], ROUNDINGS[name])
        assert found == pytest.approx(float(row["sqnr_db"]), abs=0.02), (name, shape)
    assert len(rows) == 76
