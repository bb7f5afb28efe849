"""Lemon nodes: nodes with a significantly higher failure rate than the fleet.

Three mixtures are compared by AIC: one rate for all; Gamma-distributed rates (negative binomial
counts); two rates, common and high. Each gives every node a probability that its rate exceeds
`ratio` times the fleet's median rate; these are averaged with Akaike weights, so that no single
model decides where the data do not. Nodes are flagged in order of suspicion while the expected
false discovery rate stays below `false_discovery`.

Source: empirical Bayes for Poisson counts, Robbins 1956; control of the posterior expected false
discovery rate, Newton et al., Biostatistics 5 (2004).

Shape legend: U units, G groups of units with equal counts, W their weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import gammaln
from scipy.stats import gamma as gamma_law

from perfatlas.quantities import InvalidSpecError, counted, repr_for_error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Float = NDArray[np.float64]
    Int = NDArray[np.int64]

RATIO: Final = 3.0
FALSE_DISCOVERY: Final = 0.05
_ROUNDS: Final = 500
_REL_TOL: Final = 1e-9
_MIN_RATE: Final = 1e-300


class _Counts(NamedTuple):
    """Units grouped by equal failures and observation time."""

    events_G: Int
    exposure_s_G: Float
    weight_G: Float

    @property
    def rate(self) -> float:
        return float(self.weight_G @ self.events_G / (self.weight_G @ self.exposure_s_G))


class _Mixture(NamedTuple):
    """A mixture fitted to the counts, with its AIC and posterior of each group."""

    name: str
    aic: float
    others_per_s: float
    lemon_per_s: float
    lemon_share: float
    lemon_G: Float
    mean_G: Float


@dataclass(frozen=True, kw_only=True)
class LemonNodes:
    """Lemon nodes of a fleet."""

    mixture: str  # The best mixture: one_rate, gamma_rates or two_rates
    aic: Mapping[str, float]  # AIC by mixture
    units: tuple[str, ...]  # Tested units, most suspect first
    events_U: Int  # Failures per unit (U,)
    exposure_s_U: Float  # Observation time per unit [s] (U,)
    probability_U: Float  # Probability that the rate exceeds `ratio` times the fleet's median (U,)
    rate_per_s_U: Float  # Posterior mean rate [1/s] (U,)
    flagged: int  # Number of flagged units, from the first
    others_per_s: float  # Mean rate of normal nodes under the mixture [1/s]
    lemon_per_s: float  # Mean rate of lemons under the mixture [1/s], NaN for none
    lemon_share: float  # Share of lemons in the fleet under the mixture
    ratio: float  # Rate over the median rate that defines a lemon

    @property
    def separable(self) -> bool:
        """Whether nodes are flagged and the mixture has a separate lemon rate."""
        return self.flagged > 0 and math.isfinite(self.lemon_per_s)

    @property
    def names(self) -> tuple[str, ...]:
        """The flagged units."""
        return self.units[: self.flagged]


def find_lemons(
    units: Sequence[str],
    events_U: NDArray[np.int64],
    exposure_s_U: Float,
    *,
    ratio: float = RATIO,
    false_discovery: float = FALSE_DISCOVERY,
) -> LemonNodes:
    """Return the units with a significantly higher failure rate.

    Args:
        units: Unit names, including units without failures.
        events_U: Failures per unit (U,).
        exposure_s_U: Observation time per unit [s] (U,).
        ratio: A lemon fails at more than this multiple of the fleet's median rate.
        false_discovery: Allowed false discovery rate among flagged units.

    Raises:
        InvalidSpecError: The columns differ in length, there is no failure, or a number is out of
            range.

    Limits: Failures of a unit are assumed independent: an unmerged burst of one cause makes a
        normal node look like a lemon.
    """
    _check(units, events_U, exposure_s_U, ratio, false_discovery)
    counts, group_U = _grouped(events_U, exposure_s_U)
    mixtures = [_single_rate(counts), _gamma_rates(counts, ratio), _two_rates(counts, ratio)]
    best = min(mixtures, key=lambda mixture: mixture.aic)
    weights = np.exp([0.5 * (best.aic - mixture.aic) for mixture in mixtures])
    weights /= weights.sum()
    probability_U = (weights @ np.stack([mixture.lemon_G for mixture in mixtures]))[group_U]
    rate_U = (weights @ np.stack([mixture.mean_G for mixture in mixtures]))[group_U]
    order_U = np.lexsort((-rate_U, -probability_U))
    lemon_U = probability_U[order_U]
    false_U = np.cumsum(1.0 - lemon_U) / np.arange(1, lemon_U.size + 1)
    flagged = int(np.count_nonzero(false_U <= false_discovery))
    return LemonNodes(
        mixture=best.name,
        aic={mixture.name: mixture.aic for mixture in mixtures},
        units=tuple(units[row] for row in order_U.tolist()),
        events_U=events_U[order_U],
        exposure_s_U=exposure_s_U[order_U],
        probability_U=lemon_U,
        rate_per_s_U=rate_U[order_U],
        flagged=flagged,
        others_per_s=best.others_per_s,
        lemon_per_s=best.lemon_per_s,
        lemon_share=best.lemon_share,
        ratio=ratio,
    )


def _check(
    units: Sequence[str], events_U: Int, exposure_s_U: Float, ratio: float, false_share: float
) -> None:
    if not (len(units) == events_U.size == exposure_s_U.size and len(units) > 1):
        raise InvalidSpecError(
            f"lemons: {len(units)} units, {events_U.size} counts, {exposure_s_U.size} exposures;"
            " expected equal lengths of at least 2"
        )
    if not ((exposure_s_U > 0.0) & np.isfinite(exposure_s_U) & (events_U >= 0)).all():
        row = int(np.argmin((exposure_s_U > 0.0) & np.isfinite(exposure_s_U) & (events_U >= 0)))
        raise InvalidSpecError(
            f"lemons: unit {repr_for_error(units[row])} has"
            f" {counted(int(events_U[row]), 'failure')} in"
            f" {exposure_s_U[row]:g} s; expected counts of at least 0 and exposures above 0"
        )
    if not events_U.any():
        raise InvalidSpecError("lemons: there are no failures")
    if not (ratio > 1.0 and 0.0 < false_share < 1.0):
        raise InvalidSpecError(
            f"lemons: ratio = {ratio:g}: expected above 1; false_discovery = {false_share:g}:"
            " expected 0 to 1"
        )


def _grouped(events_U: Int, exposure_s_U: Float) -> tuple[_Counts, Int]:
    """Return the groups of equal units, and the group of each unit (U,)."""
    rows_U2 = np.stack([events_U.astype(np.float64), exposure_s_U], axis=1)
    rows_G2, group_U, size_G = np.unique(rows_U2, axis=0, return_inverse=True, return_counts=True)
    events_G = rows_G2[:, 0].astype(np.int64)
    counts = _Counts(events_G, rows_G2[:, 1].copy(), size_G.astype(np.float64))
    return counts, group_U.reshape(-1)


def _poisson(events_G: Int, mean_G: Float) -> Float:
    log_G: Float = events_G * np.log(mean_G) - mean_G - gammaln(events_G + 1.0)
    return log_G


def _single_rate(counts: _Counts) -> _Mixture:
    rate = counts.rate
    likelihood = float(counts.weight_G @ _poisson(counts.events_G, rate * counts.exposure_s_G))
    return _Mixture(
        name="one_rate",
        aic=2.0 - 2.0 * likelihood,
        others_per_s=rate,
        lemon_per_s=math.nan,
        lemon_share=0.0,
        lemon_G=np.zeros(counts.events_G.size),
        mean_G=np.full(counts.events_G.size, rate),
    )


def _gamma_rates(counts: _Counts, ratio: float) -> _Mixture:
    events_G, exposure_s_G, weight_G = counts

    def loss(inside: Float) -> float:
        shape, mean = np.exp(inside)
        share_G = exposure_s_G * mean / (exposure_s_G * mean + shape)
        log_G = gammaln(events_G + shape) - gammaln(shape) - gammaln(events_G + 1.0)
        log_G += shape * np.log1p(-share_G) + events_G * np.log(share_G)
        return float(-(weight_G @ log_G))

    middle = math.log(counts.rate)
    starts = [np.array([math.log(shape), middle]) for shape in (0.1, 1.0, 10.0)]
    bounds = [(-7.0, 12.0), (middle - 3.0, middle + 3.0)]
    optimum = min(
        (minimize(loss, s, method="L-BFGS-B", bounds=bounds) for s in starts), key=lambda r: r.fun
    )
    shape, mean = np.exp(optimum.x)
    median = float(gamma_law.median(shape, scale=mean / shape))
    least = ratio * median
    posterior = {"a": events_G + shape, "scale": 1.0 / (exposure_s_G + shape / mean)}
    share = float(gamma_law.sf(least, shape, scale=mean / shape))
    above = mean * float(gamma_law.sf(least, shape + 1.0, scale=mean / shape))
    return _Mixture(
        name="gamma_rates",
        aic=4.0 + 2.0 * float(optimum.fun),
        others_per_s=(mean - above) / (1.0 - share),
        lemon_per_s=above / share if share > 0.0 else math.nan,
        lemon_share=share,
        lemon_G=gamma_law.sf(least, **posterior),
        mean_G=posterior["a"] * posterior["scale"],
    )


def _two_rates(counts: _Counts, ratio: float) -> _Mixture:
    """Return two rates by expectation maximization, from several starting points."""
    rate = counts.rate
    guesses = [(high, share) for high in (3.0, 10.0, 50.0) for share in (0.02, 0.2)]
    starts = [(0.5 * rate, high * rate, share) for high, share in guesses]
    likelihood, low, high, share = max(
        (_climb(counts, start) for start in starts), key=lambda optimum: optimum[0]
    )
    lemon_G = _responsibility(counts, (low, high, share))[0]
    separable = high > ratio * low
    return _Mixture(
        name="two_rates",
        aic=6.0 - 2.0 * likelihood,
        others_per_s=low,
        lemon_per_s=high if separable else math.nan,
        lemon_share=share if separable else 0.0,
        lemon_G=lemon_G if separable else np.zeros(lemon_G.size),
        mean_G=lemon_G * high + (1.0 - lemon_G) * low,
    )


def _climb(counts: _Counts, start: tuple[float, float, float]) -> tuple[float, float, float, float]:
    events_G, exposure_s_G, weight_G = counts
    low, high, share = start
    likelihood = before = -math.inf
    tiny = 1e-3 / float(weight_G @ exposure_s_G)
    for _ in range(_ROUNDS):
        lemon_G, likelihood = _responsibility(counts, (low, high, share))
        if likelihood - before < _REL_TOL * abs(likelihood):
            break
        before = likelihood
        lemon_W, fine_W = weight_G * lemon_G, weight_G * (1.0 - lemon_G)
        low = max(float(fine_W @ events_G / max(float(fine_W @ exposure_s_G), _MIN_RATE)), tiny)
        high = max(float(lemon_W @ events_G / max(float(lemon_W @ exposure_s_G), _MIN_RATE)), tiny)
        share = float(np.clip(lemon_W.sum() / weight_G.sum(), 1e-9, 0.5))
    return likelihood, low, high, share


def _responsibility(counts: _Counts, mixture: tuple[float, float, float]) -> tuple[Float, float]:
    """Return the probability of the high rate of each group (G,), and the log-likelihood."""
    low, high, share = mixture
    fine_G = _poisson(counts.events_G, low * counts.exposure_s_G) + math.log1p(-share)
    lemon_G = _poisson(counts.events_G, high * counts.exposure_s_G) + math.log(share)
    # a fifth of the time of scipy's logsumexp, for two terms
    both_G = np.maximum(fine_G, lemon_G) + np.log1p(np.exp(-np.abs(fine_G - lemon_G)))
    return np.exp(lemon_G - both_G), float(counts.weight_G @ both_G)
