"""Lengths of prompts and outputs: integers of at least 1 token, reproducible by seed.

Shape legend: N requests, E rows of an empirical sample.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np

from perfatlas.quantities import InvalidSpecError, repr_for_error
from perfatlas.serving.requests.arrivals import stream

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Lengths = NDArray[np.int64]

Column = Literal["isl", "osl"]
MAX_TOKENS: Final = 10**9  # of one prompt or output; larger values are unit errors
_Z99: Final = 2.3263478740408408  # 99% quantile of the standard normal distribution


class LogNormalLengths(NamedTuple):
    """A lognormal length: exp(mu + sigma z) with z standard normal; the median is exp(mu)."""

    mu: float
    sigma: float


def fixed_lengths(num_requests: int, tokens: int) -> Lengths:
    """Return the same length for all (N,).

    Raises:
        InvalidSpecError: The length is not in 1 .. MAX_TOKENS.

    Example:
        >>> from perfatlas.serving.requests import fixed_lengths
        >>> fixed_lengths(2, 128).tolist()
        [128, 128]
    """
    return np.full(num_requests, _tokens("length", tokens), np.int64)


def range_around(tokens: int, ratio: float) -> tuple[int, int]:
    """Return the minimum and maximum length within a ratio of a length.

    Args:
        ratio: 0 (no spread) to below 1: the `--random-range-ratio` of `vllm bench serve`.

    Source: vLLM's random dataset: floor(n (1 - r)) to ceil(n (1 + r)), the lower one at least 1.

    Example:
        >>> from perfatlas.serving.requests import range_around
        >>> range_around(1000, 0.25)
        (750, 1250)
    """
    if not 0.0 <= ratio < 1.0:
        raise InvalidSpecError(f"range ratio = {repr_for_error(ratio)}; it must be in [0, 1)")
    middle = _tokens("length", tokens)
    return max(math.floor(middle * (1.0 - ratio)), 1), math.ceil(middle * (1.0 + ratio))


def uniform_lengths(
    num_requests: int, bounds: tuple[int, int], column: Column, seed: int
) -> Lengths:
    """Return uniformly distributed lengths of an inclusive range (N,).

    Args:
        bounds: Minimum and maximum length.
        column: Column of the lengths: prompts and outputs are drawn independently.

    Raises:
        InvalidSpecError: The bounds are out of range or crossed.

    Example:
        >>> from perfatlas.serving.requests import uniform_lengths
        >>> set(uniform_lengths(100, (5, 7), "isl", seed=0).tolist()) == {5, 6, 7}
        True
    """
    low, high = (_tokens("bound", bound) for bound in bounds)
    if low > high:
        raise InvalidSpecError(f"lengths from {low} to {high}: the lower bound must come first")
    # One uniform number per request for any bounds, so that other ranges keep the pattern.
    share_N = stream(seed, column).random(num_requests)
    return low + np.floor(share_N * (high - low + 1)).astype(np.int64)


def lognormal(
    *,
    median: float | None = None,
    mean: float | None = None,
    p99: float | None = None,
    sigma: float | None = None,
) -> LogNormalLengths:
    """Return the lognormal distribution with a median or mean, and a 99th percentile or sigma.

    Args:
        median: Median [tokens].
        mean: Mean [tokens], instead of the median.
        p99: 99th percentile [tokens].
        sigma: Standard deviation of the logarithm, instead of `p99`.

    Raises:
        InvalidSpecError: Not exactly one of each pair is given, or no lognormal has both values.

    Source: median = exp(mu), mean = exp(mu + sigma^2 / 2), p99 = exp(mu + 2.326 sigma). Of the two
        sigmas with the same mean and p99, the smaller one is used, whose mode is nearer the
        median.
    Limits: p99 / mean is at most exp(2.326^2 / 2) = 14.97.

    Example:
        >>> from perfatlas.serving.requests import lognormal
        >>> round(lognormal(median=1000, p99=8000).sigma, 3)
        0.894
    """
    if (median is None) == (mean is None) or (p99 is None) == (sigma is None):
        raise InvalidSpecError("a lognormal length needs one of median, mean and one of p99, sigma")
    named = {"median": median, "mean": mean, "p99": p99}
    for name, value in named.items():
        if value is not None and not 1.0 <= value <= MAX_TOKENS:
            raise InvalidSpecError(f"{name} = {repr_for_error(value)}; 1 to {MAX_TOKENS} tokens")
    if sigma is not None and not 0.0 <= sigma <= 10.0:
        raise InvalidSpecError(f"sigma = {repr_for_error(sigma)}; it must be 0 to 10")
    if median is not None:
        return LogNormalLengths(math.log(median), _sigma_of_median(median, p99, sigma))
    spread = _sigma_of_mean(mean or 1.0, p99, sigma)
    return LogNormalLengths(math.log(mean or 1.0) - spread**2 / 2.0, spread)


def lognormal_lengths(
    num_requests: int, shape: LogNormalLengths, column: Column, seed: int
) -> Lengths:
    """Return lognormal lengths, rounded to integers of at least 1 (N,).

    Args:
        shape: The distribution, from `lognormal`.
        column: Column of the lengths: prompts and outputs are drawn independently.

    Limits: Lengths are limited to MAX_TOKENS.

    Example:
        >>> from perfatlas.serving.requests import lognormal, lognormal_lengths
        >>> shape = lognormal(median=500, sigma=0)
        >>> lognormal_lengths(2, shape, "osl", seed=3).tolist()
        [500, 500]
    """
    z_N = stream(seed, column).standard_normal(num_requests)
    length_N = np.exp(np.minimum(shape.mu + shape.sigma * z_N, math.log(MAX_TOKENS)))
    return np.clip(np.rint(length_N), 1, MAX_TOKENS).astype(np.int64)


def empirical_lengths(
    num_requests: int, isl_E: Lengths, osl_E: Lengths, seed: int
) -> tuple[Lengths, Lengths]:
    """Return prompt and output lengths drawn with replacement from a sample ((N,), (N,)).

    Whole rows are drawn, which preserves the correlation of prompts and outputs.

    Args:
        isl_E: Prompt tokens of the sample (E,).
        osl_E: Output tokens of the sample (E,).

    Raises:
        InvalidSpecError: The sample is empty, its columns differ in length, or a length is not in
            1 .. MAX_TOKENS.

    Example:
        >>> import numpy as np
        >>> from perfatlas.serving.requests import empirical_lengths
        >>> isl, osl = empirical_lengths(3, np.array([10, 20]), np.array([1, 2]), seed=0)
        >>> (isl == 10 * osl).all()
        np.True_
    """
    if isl_E.shape != osl_E.shape or isl_E.shape[0] == 0:
        raise InvalidSpecError(
            f"a sample of {isl_E.shape[0]} prompts and {osl_E.shape[0]} outputs; one of each per "
            "row is required, for at least one row"
        )
    for name, length_E in (("isl", isl_E), ("osl", osl_E)):
        _tokens(f"minimum {name} of the sample", int(length_E.min()))
        _tokens(f"maximum {name} of the sample", int(length_E.max()))
    row_N = drawn_rows(num_requests, isl_E.shape[0], seed)
    return isl_E[row_N].astype(np.int64), osl_E[row_N].astype(np.int64)


def drawn_rows(num_requests: int, size: int, seed: int) -> Lengths:
    """Return the rows of a sample that `empirical_lengths` draws (N,)."""
    drawn_N = np.floor(stream(seed, "rows").random(num_requests) * size)
    return drawn_N.astype(np.int64)


def _sigma_of_median(median: float, p99: float | None, sigma: float | None) -> float:
    if p99 is None:
        return sigma or 0.0
    if p99 < median:
        raise InvalidSpecError(f"p99 = {p99:g} is below the median {median:g}")
    return math.log(p99 / median) / _Z99


def _sigma_of_mean(mean: float, p99: float | None, sigma: float | None) -> float:
    if p99 is None:
        return sigma or 0.0
    reach = _Z99 * _Z99 - 2.0 * math.log(p99 / mean)
    if p99 < mean or reach < 0.0:
        raise InvalidSpecError(
            f"no lognormal has mean {mean:g} and p99 {p99:g}: p99 lies between the mean and "
            f"{math.exp(_Z99 * _Z99 / 2):.2f} times it; specify median and sigma instead"
        )
    return _Z99 - math.sqrt(reach)


def _tokens(name: str, tokens: int) -> int:
    if not 1 <= tokens <= MAX_TOKENS:
        raise InvalidSpecError(
            f"{name} = {repr_for_error(tokens)} tokens; it must be 1 to {MAX_TOKENS}"
        )
    return tokens
