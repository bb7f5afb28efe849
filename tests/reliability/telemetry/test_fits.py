from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import chi2, lognorm, weibull_min

from perfatlas.quantities import InfeasibleError, InvalidSpecError
from perfatlas.reliability.telemetry.fits import compare_families, distributions, fitness
from perfatlas.reliability.telemetry.fits.maximum_likelihood import fit_family
from perfatlas.reliability.telemetry.history import Lifetimes, lifetimes
from tests.examples import scaled_examples


def drawn(
    family: distributions.Family, seed: int, count: int = 2000, *, late: bool = False
) -> Lifetimes:
    """Return censored lifetimes of a known distribution, watched from an age or from new."""
    random = np.random.default_rng(seed)
    ages = {
        "exponential": lambda: random.exponential(2.0, count),
        "weibull": lambda: 2.0 * random.weibull(1.7, count),
        "lognormal": lambda: random.lognormal(0.3, 0.8, count),
    }[family.name]()
    end = random.uniform(0.3, 4.0, count)
    entry = random.uniform(0.0, 0.8, count) if late else np.zeros(count)
    seen = np.minimum(ages, end)
    watched = seen > entry
    return lifetimes(seen[watched], (ages <= end)[watched], entry[watched])


TRUTH = {
    "exponential": {"rate": 0.5},
    "weibull": {"shape": 1.7, "scale": 2.0},
    "lognormal": {"mu": 0.3, "sigma": 0.8},
}


def test_an_exponential_law_by_hand() -> None:
    # failures at 2 and 4, still alive at 6, first seen at age 1 and alive at 4: 2 / (2 + 4 + 6 + 3)
    seen = lifetimes([2.0, 4.0, 6.0, 4.0], [True, True, False, False], [0.0, 0.0, 0.0, 1.0])
    fit = fit_family(distributions.EXPONENTIAL, seen)
    assert fit.parameters["rate"] == pytest.approx(2.0 / 15.0, rel=1e-12)
    assert fit.log_likelihood == pytest.approx(2.0 * math.log(2.0 / 15.0) - 2.0, rel=1e-12)
    assert fit.aic == pytest.approx(2.0 - 2.0 * fit.log_likelihood)
    for end in (fit.low["rate"], fit.high["rate"]):
        drop = fit.log_likelihood - (2.0 * math.log(end) - 15.0 * end)
        assert 2.0 * drop == pytest.approx(chi2.ppf(0.95, 1), rel=1e-6)


def test_the_ends_of_a_weibull_interval_are_a_quantile_of_likelihood_away() -> None:
    seen = drawn(distributions.WEIBULL, 5, 300, late=True)
    fit = fit_family(distributions.WEIBULL, seen, level=0.9)
    failed = seen.failed_L
    for shape in (fit.low["shape"], fit.high["shape"]):
        # for a given shape the best scale is known: scale^shape = sum(t^shape - entry^shape) / d
        exposed = seen.weight_L @ (seen.exit_L**shape - seen.entry_L**shape) / seen.failures
        scale = exposed ** (1.0 / shape)
        hazard = weibull_min.logpdf(seen.exit_L, shape, scale=scale)
        hazard -= weibull_min.logsf(seen.exit_L, shape, scale=scale)
        alive = weibull_min.logsf(seen.exit_L, shape, scale=scale)
        alive -= weibull_min.logsf(seen.entry_L, shape, scale=scale)
        told = seen.weight_L @ (np.where(failed, hazard, 0.0) + alive)
        drop = 2.0 * (fit.log_likelihood - told)
        assert drop == pytest.approx(chi2.ppf(0.9, 1), rel=1e-5)


def test_likelihoods_are_those_of_scipy() -> None:
    ages, failed = [0.7, 1.9, 2.5, 3.0], np.array([True, True, False, True])
    for family in (distributions.WEIBULL, distributions.LOGNORMAL):
        fit = fit_family(family, lifetimes(ages, failed))
        first, second = fit.parameters.values()
        is_weibull = family is distributions.WEIBULL
        law = weibull_min if is_weibull else lognorm
        frozen = law(first, scale=second) if is_weibull else law(second, scale=math.exp(first))
        told = np.where(failed, frozen.logpdf(ages), frozen.logsf(ages)).sum()
        assert fit.log_likelihood == pytest.approx(told, rel=1e-12)
        assert fit.mean == pytest.approx(frozen.mean(), rel=1e-9)


@pytest.mark.study
@pytest.mark.parametrize("late", [False, True], ids=["from new", "left-truncated"])
@pytest.mark.parametrize("family", distributions.FAMILIES, ids=lambda f: f.name)
def test_known_laws_come_back_in_their_intervals(family: distributions.Family, late: bool) -> None:  # noqa: FBT001
    covered = 0
    for seed in range(4):
        fit = fit_family(family, drawn(family, seed, late=late))
        for name, value in TRUTH[family.name].items():
            assert fit.parameters[name] == pytest.approx(value, abs=0.2)
            covered += fit.low[name] <= value <= fit.high[name]
    # of 4 or 8 intervals at 95%, fewer than 2 or 5 come by chance less than once in 1,000
    assert covered >= {1: 2, 2: 5}[len(TRUTH[family.name])]


@pytest.mark.parametrize("family", distributions.FAMILIES, ids=lambda f: f.name)
def test_the_family_that_made_the_data_wins_and_fits(family: distributions.Family) -> None:
    seen = drawn(family, 1, 4000)
    comparison = compare_families(seen)
    best = comparison.fits[0]
    assert family.name == best.family or comparison.fit(family.name).aic - best.aic < 2.5
    assert fitness(comparison.fit(family.name), seen).p_value > 0.01


@pytest.mark.study
def test_right_laws_are_rejected_as_often_as_they_should_be() -> None:
    values = []
    for seed in range(60):
        seen = drawn(distributions.EXPONENTIAL, seed, 300, late=True)
        values.append(fitness(fit_family(distributions.EXPONENTIAL, seen), seen).p_value)
    # 20% of 60 are 12; 4 and 21 are more than two standard deviations of 3.1 away
    assert 4 < np.count_nonzero(np.array(values) < 0.2) < 21


def test_a_wrong_law_is_found_out() -> None:
    seen = drawn(distributions.WEIBULL, 2, 4000)
    told = fitness(fit_family(distributions.EXPONENTIAL, seen), seen)
    assert told.p_value < 1e-6
    assert told.text().startswith("exponential does not fit")
    assert told.observed_J.sum() == pytest.approx(seen.failures)
    # the exponential and Weibull likelihoods are greatest where the expected sum is the found one
    assert told.expected_J.sum() == pytest.approx(seen.failures, rel=1e-6)


@settings(max_examples=scaled_examples(0.2))
@given(st.floats(1e-6, 1e6), st.integers(0, 10_000))
def test_the_unit_of_time_changes_nothing_but_the_scale(unit: float, seed: int) -> None:
    seen = drawn(distributions.WEIBULL, seed, 60)
    other = lifetimes(seen.exit_L * unit, seen.failed_L, seen.entry_L * unit)
    same = Lifetimes(
        entry_L=other.entry_L, exit_L=other.exit_L, failed_L=other.failed_L, weight_L=seen.weight_L
    )
    one, two = fit_family(distributions.WEIBULL, seen), fit_family(distributions.WEIBULL, same)
    assert two.parameters["shape"] == pytest.approx(one.parameters["shape"], rel=1e-5)
    assert two.parameters["scale"] == pytest.approx(unit * one.parameters["scale"], rel=1e-5)
    shift = one.failures * math.log(unit)
    assert two.log_likelihood == pytest.approx(one.log_likelihood - shift, rel=1e-6, abs=1e-5)


@settings(max_examples=scaled_examples(1.2))
@given(
    st.lists(
        st.tuples(st.floats(1e-3, 1e3), st.booleans(), st.floats(0.0, 0.99)),
        min_size=1,
        max_size=12,
    )
)
def test_any_lifetimes_are_fitted_best_or_declined(rows: list[tuple[float, bool, float]]) -> None:
    ages = [age for age, _, _ in rows]
    entry = [age * share for age, _, share in rows]
    seen = lifetimes(ages, [failed for _, failed, _ in rows], entry)
    if not seen.failures:
        return
    comparison = compare_families(seen)
    assert len(comparison.fits) + len(comparison.declined) == len(distributions.FAMILIES)
    for fit in comparison.fits:
        assert math.isfinite(fit.log_likelihood)
        for name, value in fit.parameters.items():
            assert fit.low[name] <= value <= fit.high[name]
        family = next(one for one in distributions.FAMILIES if one.name == fit.family)
        inside = family.fit(seen)
        for step in (0.03, -0.03):
            for which in range(inside.size):
                beside = inside.copy()
                beside[which] += step
                assert (
                    distributions.log_likelihood(family, beside, seen) <= fit.log_likelihood + 1e-9
                )


def test_what_cannot_be_fitted_is_said() -> None:
    with pytest.raises(InfeasibleError, match=r"2 units.* 7 of exposure"):
        fit_family(distributions.WEIBULL, lifetimes([3.0, 4.0], [False, False]))
    one_age = lifetimes([3.0, 3.0, 3.0], [True, True, True])
    comparison = compare_families(one_age)
    assert [fit.family for fit in comparison.fits] == ["exponential"]
    assert set(comparison.declined) == {"weibull", "lognormal"}
    with pytest.raises(InfeasibleError, match="more than one age"):
        comparison.fit("lognormal")
    few = lifetimes([1.0, 2.0, 3.0], [True, True, False])
    with pytest.raises(InfeasibleError, match="too few to test"):
        fitness(fit_family(distributions.EXPONENTIAL, few), few)


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        (([], []), "no rows"),
        (([1.0, 2.0], [True]), "one per unit"),
        (([1.0, -2.0], [True, False]), "row 2 of 2: first seen at 0, last seen at -2"),
        (([1.0, math.nan], [True, False]), "finite ages of at least 0"),
        (([1.0, 2.0], [True, False], [0.0, 2.0]), "observed for no time"),
        (([1.0, 2.0], [1, 7]), "neither true nor false"),
    ],
)
def test_wrong_lifetimes_are_refused(columns: tuple[list[float], ...], problem: str) -> None:
    with pytest.raises(InvalidSpecError, match=problem):
        lifetimes(*columns)
    with pytest.raises(InvalidSpecError, match="level = 95"):
        fit_family(distributions.EXPONENTIAL, lifetimes([1.0], [True]), level=95.0)
