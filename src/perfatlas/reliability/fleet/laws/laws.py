"""Laws of lifetimes, repairs and phases, as users write them and as compiled code reads them.

Shape legend: N draws or values, K knots of tables.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.compiled import entry, exponential, replica_key
from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.fleet.laws.hazards import (
    BATHTUB,
    CONSTANT,
    EXPONENTIAL,
    LAW,
    LOGNORMAL,
    TABLE,
    WEIBULL,
    age_at,
)
from perfatlas.reliability.fleet.laws.records import MAX_LAWS, TICKS_PER_SECOND

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.reliability.fleet.laws.columns import FloatArray

_KNOTS: Final = 4001
SHAPES: Final = (0.05, 1000.0)  # of Weibull distributions; beyond, means leave the range of numbers
SIGMAS: Final = (1e-6, 10.0)


@dataclass(frozen=True, kw_only=True)
class Constant:
    """Always the same time."""

    value_s: float  # The time [s]


@dataclass(frozen=True, kw_only=True)
class Exponential:
    """Memoryless: a constant rate."""

    mean_s: float  # Mean time [s]


@dataclass(frozen=True, kw_only=True)
class Weibull:
    """Infant mortality below shape 1, wear-out above."""

    shape: float  # k
    scale_s: float  # Age that a share 1/e survives [s]


@dataclass(frozen=True, kw_only=True)
class LogNormal:
    """Heavy upper tail, typical of repairs."""

    median_s: float  # Median [s]
    sigma: float  # Standard deviation of the logarithm


@dataclass(frozen=True, kw_only=True)
class Bathtub:
    """Bathtub curve: the sum of infant mortality, constant and wear-out hazards."""

    infant: Weibull  # Weibull with a shape below 1
    chance: Exponential
    wear: Weibull  # Weibull with a shape above 1


@dataclass(frozen=True, kw_only=True)
class Empirical:
    """Observed values, with linear interpolation between order statistics."""

    values_s: tuple[float, ...]  # At least two observed times, in any order [s]


@dataclass(frozen=True, kw_only=True)
class Tabled:
    """A distribution by its quantiles, linear between them."""

    probability_K: tuple[float, ...]  # Rising, from 0 to 1 (K,)
    value_s_K: tuple[float, ...]  # Quantiles, not falling [s] (K,)


Law = Constant | Exponential | Weibull | LogNormal | Bathtub | Empirical | Tabled


def mean_s(law: Law) -> float:
    """Return the mean of a distribution [s].

    Example:
        >>> from perfatlas.reliability.fleet.laws import Weibull, mean_s
        >>> mean_s(Weibull(shape=1.0, scale_s=7.0))
        7.0
    """
    match law:
        case Constant():
            return law.value_s
        case Exponential():
            return law.mean_s
        case Weibull():
            return law.scale_s * math.gamma(1.0 + 1.0 / law.shape)
        case LogNormal():
            return law.median_s * math.exp(law.sigma**2 / 2.0)
        case Empirical():
            ends = (min(law.values_s) + max(law.values_s)) / 2.0
            return (sum(law.values_s) - ends) / (len(law.values_s) - 1)
        case Tabled():
            middles = np.convolve(law.value_s_K, (0.5, 0.5), "valid")
            return float(np.diff(law.probability_K) @ middles)
        case Bathtub():
            from scipy.integrate import quad

            longest = min(law.infant.scale_s, law.chance.mean_s, law.wear.scale_s)
            value, _ = quad(lambda x: survival(law, x * longest), 0.0, np.inf, limit=200)
            return float(value * longest)


def weibull_of_mean(mean: float, shape: float) -> Weibull:
    """Return the Weibull distribution of a mean [s] and shape.

    Args:
        mean: Mean [s].
    """
    return Weibull(shape=shape, scale_s=mean / math.gamma(1.0 + 1.0 / shape))


def scaled(law: Law, factor: float) -> Law:
    """Return a distribution of the same shape with all times multiplied by a factor.

    Args:
        factor: Above zero.

    Example:
        >>> from perfatlas.reliability.fleet.laws import Weibull, scaled
        >>> scaled(Weibull(shape=2.0, scale_s=10.0), 0.5)
        Weibull(shape=2.0, scale_s=5.0)
    """
    match law:
        case Constant():
            return Constant(value_s=law.value_s * factor)
        case Exponential():
            return Exponential(mean_s=law.mean_s * factor)
        case Weibull():
            return Weibull(shape=law.shape, scale_s=law.scale_s * factor)
        case LogNormal():
            return LogNormal(median_s=law.median_s * factor, sigma=law.sigma)
        case Empirical():
            return Empirical(values_s=tuple(value * factor for value in law.values_s))
        case Tabled():
            longer = tuple(value * factor for value in law.value_s_K)
            return Tabled(probability_K=law.probability_K, value_s_K=longer)
        case Bathtub():
            infant, chance, wear = law.infant, law.chance, law.wear
            return Bathtub(
                infant=Weibull(shape=infant.shape, scale_s=infant.scale_s * factor),
                chance=Exponential(mean_s=chance.mean_s * factor),
                wear=Weibull(shape=wear.shape, scale_s=wear.scale_s * factor),
            )


@lru_cache(maxsize=64)
def residual(law: Law) -> Law:
    """Return the residual lifetime at a random time in steady state.

    Source: equilibrium renewal theory, Cox 1962: density S(t) / mean. Quantiles by the trapezoid on
        4001 knots, dense near probability 0, where the failures of a large fleet occur.
    """
    if isinstance(law, Exponential):
        return law
    reach = _reach(law)
    age_K = reach * np.linspace(0.0, 1.0, _KNOTS) ** 4
    survival_K = np.array([survival(law, float(age)) for age in age_K])
    area_K = np.diff(age_K) * (survival_K[1:] + survival_K[:-1]) / 2.0
    below_K = np.concatenate([[0.0], np.cumsum(area_K)])
    keep = np.concatenate([[True], np.diff(below_K) > 0.0])
    probability_K = below_K[keep] / below_K[-1]
    return Tabled(probability_K=tuple(probability_K), value_s_K=tuple(age_K[keep]))


def _reach(law: Law) -> float:
    """Return an age that at most 1e-9 of lifetimes exceed [s]."""
    match law:
        case Constant():
            return law.value_s
        case Empirical():
            return max(law.values_s)
        case Tabled():
            return law.value_s_K[-1]
        case _:
            high = mean_s(law)
            while survival(law, high) > 1e-9:
                high *= 1.5
            return high


def survival(law: Law, age: float) -> float:
    """Return the probability of surviving an age.

    Args:
        age: Age [s].
    """
    match law:
        case Constant():
            return float(age < law.value_s)
        case Exponential():
            return math.exp(-age / law.mean_s)
        case Weibull():
            return math.exp(-((age / law.scale_s) ** law.shape))
        case LogNormal():
            if age <= 0.0:
                return 1.0
            return 0.5 * math.erfc(math.log(age / law.median_s) / law.sigma / math.sqrt(2.0))
        case Bathtub():
            return math.prod(survival(part, age) for part in (law.infant, law.chance, law.wear))
        case Empirical() | Tabled():
            probability_K, value_K = _knots(law)
            return 1.0 - float(np.interp(age, value_K, probability_K))


def _knots(law: Empirical | Tabled) -> tuple[FloatArray, FloatArray]:
    if isinstance(law, Tabled):
        return np.array(law.probability_K), np.array(law.value_s_K)
    value_K = np.sort(np.array(law.values_s, np.float64))
    return np.linspace(0.0, 1.0, value_K.size), value_K


def check_law(law: Law, name: str) -> None:
    """Raise for a distribution with invalid parameters.

    Raises:
        InvalidSpecError: A mean, scale or shape that is not positive, a negative time.
    """
    match law:
        case Constant():
            _require(name, value_s=law.value_s, zero=True)
        case Exponential():
            _require(name, mean_s=law.mean_s)
        case Weibull():
            _require(name, shape=law.shape, scale_s=law.scale_s)
            _between(name, "shape", law.shape, SHAPES)
        case LogNormal():
            _require(name, median_s=law.median_s, sigma=law.sigma)
            _between(name, "sigma", law.sigma, SIGMAS)
        case Bathtub():
            for part in (law.infant, law.chance, law.wear):
                check_law(part, name)
        case Empirical():
            if len(law.values_s) < 2:
                raise InvalidSpecError(
                    f"{name}: an empirical distribution needs at least two values"
                )
            _require(name, smallest=min(law.values_s), largest=max(law.values_s), zero=True)
        case Tabled():
            _require(name, smallest=law.value_s_K[0], largest=law.value_s_K[-1], zero=True)


def _between(name: str, field: str, value: float, ends: tuple[float, float]) -> None:
    if not ends[0] <= value <= ends[1]:
        raise InvalidSpecError(f"{name}: {field} = {value:g}: expected {ends[0]:g} to {ends[1]:g}")


def _require(name: str, *, zero: bool = False, **values: float) -> None:
    for field, value in values.items():
        if not math.isfinite(value) or value < 0.0 or (value == 0.0 and not zero):
            rule = "not below zero" if zero else "above zero"
            raise InvalidSpecError(f"{name}: {field} = {value:g}: expected a finite number {rule}")


class PackedLaws:
    """Distributions in the order they were added, for compiled code."""

    def __init__(self) -> None:
        """Start empty; distribution 0 is always zero."""
        self._places: dict[Law, int] = {}
        self._rows: list[tuple[float, ...]] = []
        self._probability: list[FloatArray] = []
        self._ticks: list[FloatArray] = []
        self._knots = 0
        self.add(Constant(value_s=0.0), "nothing")

    def add(self, law: Law, name: str) -> int:
        """Add a distribution and return its index.

        Raises:
            InvalidSpecError: Its parameters are invalid, or there are too many.
        """
        if law in self._places:
            return self._places[law]
        check_law(law, name)
        if len(self._rows) == MAX_LAWS:
            raise InvalidSpecError(
                f"{name}: more than {MAX_LAWS} different distributions in one model"
            )
        self._places[law] = len(self._rows)
        self._rows.append(self._row(law))
        return self._places[law]

    def rows(self) -> NDArray[Any]:
        """Return the distributions as rows of type `LAW`."""
        return np.array(self._rows, LAW)

    def knots(self) -> FloatArray:
        """Return probabilities and ages [ticks] of table laws (2, K)."""
        if not self._knots:
            return np.zeros((2, 1))
        return np.stack([np.concatenate(self._probability), np.concatenate(self._ticks)])

    def _row(self, law: Law) -> tuple[float, ...]:
        ticks = float(TICKS_PER_SECOND)
        match law:
            case Constant():
                return (CONSTANT, law.value_s * ticks, 0, 0, 0, 0, 0, 0)
            case Exponential():
                return (EXPONENTIAL, law.mean_s * ticks, 0, 0, 0, 0, 0, 0)
            case Weibull():
                return (WEIBULL, law.scale_s * ticks, law.shape, 0, 0, 0, 0, 0)
            case LogNormal():
                return (LOGNORMAL, law.median_s * ticks, law.sigma, 0, 0, 0, 0, 0)
            case Bathtub():
                infant, wear = law.infant, law.wear
                first = (BATHTUB, infant.scale_s * ticks, infant.shape, law.chance.mean_s * ticks)
                return (*first, wear.scale_s * ticks, wear.shape, 0, 0)
            case Empirical() | Tabled():
                probability_K, value_K = _knots(law)
                self._probability.append(probability_K)
                self._ticks.append(value_K * ticks)
                first_knot, count = self._knots, probability_K.size
                self._knots += count
                return (TABLE, 0, 0, 0, 0, 0, first_knot, count)


@entry
def _fill(
    law_L: NDArray[Any],
    knots_2K: NDArray[np.float64],
    row: int,
    seed: int,
    value_N: NDArray[np.float64],
) -> None:
    key = replica_key(seed, 0)
    for n in range(value_N.shape[0]):
        value_N[n] = age_at(law_L[row], knots_2K, exponential(key, 0, n))


def sample_s(law: Law, count: int, *, seed: int) -> FloatArray:
    """Return independent draws from a distribution [s] (N,).

    Args:
        seed: The same seed gives the same draws.

    Raises:
        InvalidSpecError: The parameters of the distribution are invalid.

    Example:
        >>> from perfatlas.reliability.fleet.laws import Constant
        >>> from perfatlas.reliability.fleet.laws import sample_s
        >>> sample_s(Constant(value_s=2.0), 2, seed=1).tolist()
        [2.0, 2.0]
    """
    laws = PackedLaws()
    index = laws.add(law, "law")
    value_N = np.empty(count)
    _fill(laws.rows(), laws.knots(), index, seed, value_N)
    return value_N / TICKS_PER_SECOND
