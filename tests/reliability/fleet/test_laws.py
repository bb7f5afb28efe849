from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.fleet import laws
from perfatlas.reliability.fleet.laws.hazards import LAW, age_at, hazard_at, upper_normal
from perfatlas.reliability.fleet.laws.laws import Tabled

BATHTUB = laws.Bathtub(
    infant=laws.Weibull(shape=0.5, scale_s=400.0),
    chance=laws.Exponential(mean_s=100.0),
    wear=laws.Weibull(shape=5.0, scale_s=80.0),
)
CASES: list[tuple[laws.Law, object]] = [
    (laws.Exponential(mean_s=3.0), stats.expon(scale=3.0).cdf),
    (laws.Weibull(shape=0.7, scale_s=2.0), stats.weibull_min(0.7, scale=2.0).cdf),
    (laws.LogNormal(median_s=2.0, sigma=1.5), stats.lognorm(1.5, scale=2.0).cdf),
    (BATHTUB, lambda t: 1 - np.exp(-((t / 400.0) ** 0.5) - t / 100.0 - (t / 80.0) ** 5.0)),
    (laws.Empirical(values_s=(1.0, 2.0, 4.0)), lambda t: np.interp(t, [1, 2, 4], [0, 0.5, 1])),
]


@pytest.mark.parametrize(("law", "cdf"), CASES, ids=lambda case: type(case).__name__)
def test_draws_follow_the_law(law: laws.Law, cdf: object) -> None:
    draws = laws.sample_s(law, 20_000, seed=3)
    assert stats.kstest(draws, cdf).pvalue > 1e-3
    error = draws.std() / math.sqrt(draws.size)
    assert abs(draws.mean() - laws.mean_s(law)) < 4 * error


def test_means_by_hand() -> None:
    assert laws.mean_s(laws.Weibull(shape=2.0, scale_s=2.0)) == pytest.approx(math.sqrt(math.pi))
    assert laws.mean_s(laws.LogNormal(median_s=1.0, sigma=2.0)) == pytest.approx(math.exp(2.0))
    assert laws.mean_s(laws.Empirical(values_s=(1.0, 2.0, 4.0))) == pytest.approx((1.5 + 3.0) / 2)
    assert laws.mean_s(laws.weibull_of_mean(5.0, 0.7)) == pytest.approx(5.0)


def test_residual_life_of_a_constant_is_uniform_and_of_weibull_is_known() -> None:
    rest = laws.residual(laws.Constant(value_s=10.0))
    assert laws.mean_s(rest) == pytest.approx(5.0, rel=1e-3)
    law = laws.weibull_of_mean(10.0, 2.0)
    # mean residual life (m^2 + var) / 2m = E[T^2] / 2m
    second = law.scale_s**2 * math.gamma(2.0)
    assert laws.mean_s(laws.residual(law)) == pytest.approx(second / 20.0, rel=1e-4)
    assert laws.residual(laws.Exponential(mean_s=2.0)) == laws.Exponential(mean_s=2.0)


@pytest.mark.parametrize(
    ("kind", "hazard"),
    [
        (laws.hazards.EXPONENTIAL, 2.0),  # 20 days over a mean of 10
        (laws.hazards.WEIBULL, 8.0),  # (20 / 10)^3
        (laws.hazards.LOGNORMAL, -math.log(stats.norm.sf(math.log(2.0) / 3.0))),
        (laws.hazards.BATHTUB, 8.0 + 0.2 + 0.25),  # (20 / 10)^3 + 20 / 100 + (20 / 40)^2
    ],
)
def test_cumulative_hazards_by_hand(kind: int, hazard: float) -> None:
    law = np.array([(kind, 10.0, 3.0, 100.0, 40.0, 2.0, 0, 0)], LAW).view(np.recarray)[0]
    none_2K = np.empty((2, 0))
    assert hazard_at(law, none_2K, 20.0) == pytest.approx(hazard, rel=1e-12)
    assert hazard_at(law, none_2K, 0.0) == 0.0
    assert age_at(law, none_2K, hazard) == pytest.approx(20.0, rel=1e-9)


def test_early_quantiles_of_residual_life_are_those_of_a_rate() -> None:
    rest = laws.residual(laws.weibull_of_mean(10.0, 2.0))
    assert isinstance(rest, Tabled)
    early = np.interp(1e-6, rest.probability_K, rest.value_s_K)
    assert early == pytest.approx(1e-5, rel=1e-3)


@pytest.mark.parametrize("tail", [1e-300, 1e-20, 1e-3, 0.3, 0.5, 0.9, 1 - 1e-12])
def test_normal_quantiles_to_twelve_digits(tail: float) -> None:
    expected = float(stats.norm.isf(tail))
    assert upper_normal(tail) == pytest.approx(expected, rel=1e-11, abs=1e-11)


@pytest.mark.parametrize(
    "law",
    [
        laws.Exponential(mean_s=-1.0),
        laws.Exponential(mean_s=0.0),
        laws.Weibull(shape=0.0, scale_s=1.0),
        laws.LogNormal(median_s=1.0, sigma=-0.1),
        laws.Constant(value_s=-1.0),
        laws.Constant(value_s=math.inf),
        laws.Empirical(values_s=(1.0,)),
        laws.Empirical(values_s=(-1.0, 1.0)),
        laws.Bathtub(infant=BATHTUB.infant, chance=laws.Exponential(mean_s=0.0), wear=BATHTUB.wear),
    ],
)
def test_impossible_laws_are_refused(law: laws.Law) -> None:
    with pytest.raises(InvalidSpecError, match="repair"):
        laws.check_law(law, "repair")
