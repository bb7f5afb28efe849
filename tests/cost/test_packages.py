"""Packages: rectangles on a wafer, outlines, yields of interposers, and what is refused."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from perfatlas.cost import chip_data
from perfatlas.cost.packages import Package, interposers_of, package_of, packages_per_wafer
from perfatlas.quantities import InfeasibleError, InvalidSpecError

DATA = chip_data()["package"]
RADIUS_MM = 147.0  # of a wafer within its unusable edge


def _package(die_mm2: float, dies: int, stacks: int, interposer: str = "") -> Package:
    return package_of(die_mm2, dies, stacks, DATA, interposer)


def test_rectangles_on_a_wafer() -> None:
    # four squares around the center reach sqrt(2) sides, nine around one 1.5 sqrt(2)
    side = 50.0
    for count, reach in ((4, math.sqrt(2.0)), (9, 1.5 * math.sqrt(2.0))):
        assert packages_per_wafer((side, side), side * reach + 1e-9) == count
        assert packages_per_wafer((side, side), side * reach - 1e-6) < count


@given(st.floats(5.0, 150.0), st.floats(5.0, 150.0), st.floats(0.3, 1.0))
def test_smaller_packages_are_at_least_as_many_and_fit_the_area(
    width: float, height: float, ratio: float
) -> None:
    count = packages_per_wafer((width, height), RADIUS_MM)
    assert packages_per_wafer((width * ratio, height), RADIUS_MM) >= count
    assert count * width * height <= math.pi * RADIUS_MM**2


def test_packages_beside_reports() -> None:
    """28 packages of H100 on a wafer, and 4 to 7 of 5.5 reticles, where area alone gives 12."""
    assert _package(814.0, 1, 5).per_wafer == pytest.approx(28, abs=3)
    side = math.sqrt(5.5 * 26.0 * 33.0)
    count, good_share = interposers_of((side, side), "cowos_l", DATA)
    assert 4.0 <= count * good_share <= 7.0


@pytest.mark.parametrize(
    ("die_mm2", "dies", "stacks", "published_mm2", "error"),
    [(800.0, 2, 8, 2739.0, 0.05), (858.0, 2, 8, 3320.0, 0.15), (858.0, 4, 16, 7470.0, 0.25)],
)
def test_outlines_beside_published_ones(
    die_mm2: float, dies: int, stacks: int, published_mm2: float, error: float
) -> None:
    """Blackwell, Rubin and Rubin Ultra (TrendForce); dies of inputs and outputs are missing."""
    assert _package(die_mm2, dies, stacks).area_mm2 == pytest.approx(published_mm2, rel=error)


def test_the_yield_of_two_reticles_is_the_published_one() -> None:
    package = _package(814.0, 1, 6)
    reticles = package.area_mm2 / (26.0 * 33.0)
    assert package.good_share == pytest.approx(0.74 ** (reticles / 2.0))
    assert _package(814.0, 1, 6, "cowos_r").good_share > package.good_share


def test_packages_that_cannot_be_made_are_refused() -> None:
    with pytest.raises(InvalidSpecError, match="0 dies"):
        _package(800.0, 0, 8)
    with pytest.raises(InvalidSpecError, match="-1 mm2"):
        _package(-1.0, 1, 8)
    with pytest.raises(InfeasibleError, match=r"cowos_s has at most 3.3.*device.interposer"):
        _package(800.0, 4, 16, "cowos_s")
    with pytest.raises(InfeasibleError, match="does not fit on a wafer"):
        _package(30.0, 1, 60, "cowos_l")
