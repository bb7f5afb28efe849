from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from perfatlas.fitting import fit_parameters
from perfatlas.operators import FloatArray
from perfatlas.sampling import error_statistics

SIZES = np.geomspace(1e3, 1e9, 60)


def test_statistics_by_hand() -> None:
    # 10% too slow and 20% too fast: mean 15%, ln ratios 0.0953 and -0.2231, mean -0.0639
    found = error_statistics(np.array([1.1, 0.8]), np.array([1.0, 1.0]))
    assert found.mape == pytest.approx(0.15)
    assert found.median_error == pytest.approx(0.15)
    assert found.bias == pytest.approx(-0.0639, abs=1e-4)
    assert found.residual_quantiles["q50"] == pytest.approx(0.0639, abs=1e-4)


@settings(deadline=None)
@given(launch_us=st.floats(1.0, 50.0), rate_tb=st.floats(0.5, 5.0))
def test_known_parameters_are_found_again(launch_us: float, rate_tb: float) -> None:
    truth = np.array([launch_us * 1e-6, rate_tb * 1e12])

    def predict(values: FloatArray) -> FloatArray:
        times: FloatArray = values[0] + SIZES / values[1]
        return times

    fitted = fit_parameters(
        predict,
        predict(truth),
        start=np.array([10e-6, 1e12]),
        low=np.array([1e-7, 1e11]),
        high=np.array([1e-3, 1e13]),
    )
    assert fitted == pytest.approx(truth, rel=0.02)


def test_the_answer_stays_inside_the_bounds() -> None:
    fitted = fit_parameters(
        lambda values: SIZES / values[0],
        SIZES / 9.0,
        start=np.array([2.0]),
        low=np.array([1.0]),
        high=np.array([4.0]),
    )
    assert fitted[0] == pytest.approx(4.0)
