from __future__ import annotations

import numpy as np
import pytest
from scipy.special import lambertw

from perfatlas.reliability.fleet.closed_form.renewal import ITERATED_VALUES, lambert_w
from perfatlas.reliability.fleet.model import NINETY, NORMAL_90, NORMAL_95
from perfatlas.sampling import standard_errors


def test_few_values_are_those_of_scipy() -> None:
    # up to e^-1 - 0.29, where the series ends, and beyond
    writes = np.concatenate((np.geomspace(1e-6, 1.5, 2000), [1.6, 3.0, 10.0]))
    z_N = -np.exp(-1.0 - writes)
    few = [
        lambert_w(z_N[place : place + ITERATED_VALUES])
        for place in range(0, z_N.size, ITERATED_VALUES)
    ]
    # the last digit depends on how scipy was built: with or without fused multiply-adds
    np.testing.assert_allclose(np.concatenate(few), lambertw(z_N).real, rtol=1e-15, atol=0.0)
    assert np.array_equal(lambert_w(z_N), lambertw(z_N).real)


def test_w_times_its_exponential_is_the_argument() -> None:
    assert lambert_w(np.array(-0.3)) == pytest.approx(-0.489402227180214, rel=1e-12)
    w_N = lambert_w(np.array([-0.35, -0.2, -0.1]))
    assert (w_N * np.exp(w_N)).tolist() == pytest.approx([-0.35, -0.2, -0.1], rel=1e-14)


def test_constants_of_the_normal_law_are_its_quantiles() -> None:
    assert standard_errors(NINETY) == pytest.approx(NORMAL_90, rel=1e-15)
    assert standard_errors(0.95) == pytest.approx(NORMAL_95, rel=1e-15)
