from __future__ import annotations

import numpy as np
import pytest
from scipy.special import lambertw

from perfatlas.reliability.fleet import closed_form
from perfatlas.reliability.fleet.model import NINETY, NORMAL_90, NORMAL_95
from perfatlas.sampling import standard_errors


def test_the_optimal_interval_is_one_plus_lamberts_w() -> None:
    writes = np.geomspace(1e-2, 100.0, 2000)  # of an MTTI; at shorter ones 1 + W cancels
    expected = 1.0 + lambertw(-np.exp(-1.0 - writes)).real
    found = closed_form.optimal_interval_s(writes, 1.0)
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=0.0)


def test_the_optimal_interval_is_a_root_at_any_length_of_the_write() -> None:
    """x + d + ln(1 - x) = 0, which is x^2 / 2 + x^3 / 3 = d for small x."""
    writes = np.geomspace(1e-16, 1e-8, 50)
    found = closed_form.optimal_interval_s(writes, 1.0)
    np.testing.assert_allclose(found**2 / 2.0 + found**3 / 3.0, writes, rtol=1e-7, atol=0.0)


def test_constants_of_the_normal_law_are_its_quantiles() -> None:
    assert standard_errors(NINETY) == pytest.approx(NORMAL_90, rel=1e-15)
    assert standard_errors(0.95) == pytest.approx(NORMAL_95, rel=1e-15)
