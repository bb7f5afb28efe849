from __future__ import annotations

import numpy as np
import pytest

from perfatlas.measurements.residuals import residuals

# A grid as tables measure it: 9 x 9 sizes in octaves, every one in two kinds of load (0 and 3.2).
GRID_RF = np.array([[a, b, c] for a in range(9) for b in range(9) for c in (0.0, 3.2)], float)
QUERY_UF = np.array([[4.0, 4.0, 1.6], [3.5, 4.5, 1.6], [1.0, 7.25, 0.0], [4.0, 4.0, 0.0]])


@pytest.mark.parametrize("make", [residuals.all_pairs, residuals.search_tree])
def test_ties_are_taken_in_the_order_of_the_rows(make: type) -> None:
    # (4, 4) between both kinds of load: 2 rows at 1.6, 8 at sqrt(1 + 1.6^2), and of the 8 at
    # sqrt(2 + 1.6^2) the six of the lowest index.
    distance_UK, index_UK = residuals.nearest_rows(make(GRID_RF), QUERY_UF[:1], 16, len(GRID_RF))
    exact_R = np.sqrt(((GRID_RF - QUERY_UF[0]) ** 2).sum(axis=1)).round(9)
    expected = np.lexsort((np.arange(len(GRID_RF)), exact_R))[:16]
    assert index_UK[0].tolist() == expected.tolist()
    assert distance_UK[0, 9] < distance_UK[0, 10] == pytest.approx(np.sqrt(2 + 1.6**2))


@pytest.mark.parametrize("make", [residuals.all_pairs, residuals.search_tree])
def test_more_ties_than_are_looked_at_first_are_found(make: type) -> None:
    ring_RF = np.repeat([[1.0], [-1.0]], 100, axis=0)
    _, index_UK = residuals.nearest_rows(make(ring_RF), np.zeros((2, 1)), 5, 200)
    assert index_UK.tolist() == [[0, 1, 2, 3, 4]] * 2


@pytest.mark.parametrize("pairs", [0, residuals.FEW_PAIRS])
def test_the_last_digit_of_a_logarithm_changes_no_correction(
    pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(residuals, "FEW_PAIRS", pairs)
    draw = np.random.default_rng(5)
    residual_R = draw.normal(0.0, 0.2, len(GRID_RF))
    group_R = GRID_RF[:, 0].astype(np.int64)

    def factors(spread: float) -> np.ndarray:
        rows_RF, query_UF = (
            one * (1.0 + draw.uniform(-spread, spread, one.shape)) for one in (GRID_RF, QUERY_UF)
        )
        fitted = residuals.residuals_by_distance(rows_RF, residual_R, group_R)
        return residuals.correct(fitted, query_UF).factor_U

    exact_U = factors(0.0)
    for _ in range(4):
        assert factors(4e-16) == pytest.approx(exact_U, rel=1e-9)


def test_equal_halves_take_the_lower_residual() -> None:
    # Four neighbours at one distance: each has a quarter of the weight, and half is reached with
    # the second whichever way 1/d rounds. Kriging gives their mean, 0.25; (0.25 + 0.2) / 2.
    between = np.ones((1, 4, 4)) - np.eye(4)
    for jitter in (-2e-16, 0.0, 2e-16):
        distance = np.array([[1.1, 1.1, 1.1 * (1 + jitter), 1.1 * (1 - jitter)]])
        found = residuals.interpolate(distance, np.array([[0.4, 0.1, 0.2, 0.3]]), between)
        assert found[0] == pytest.approx(0.225)
