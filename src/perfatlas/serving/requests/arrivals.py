"""Arrival processes: renewal and ramped processes as integer times, reproducible by seed.

Each purpose uses its own random stream, so that changing the rate or the number of requests does
not change their lengths (common random numbers): two results then differ only by what was changed.
Gaps are drawn at rate 1 and scaled, so that the pattern is the same for all rates. The first
request arrives at 0.

Shape legend: N requests.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from perfatlas.quantities import InvalidSpecError, repr_for_error, significant
from perfatlas.serving.requests.columns import TICKS_PER_SECOND
from perfatlas.vocabulary.fields import MAX_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.serving.requests.columns import Ticks

Purpose = Literal["arrivals", "isl", "osl", "rows", "turns", "think"]
# The key of a stream is its position here: append, never reorder.
_PURPOSES: Final[tuple[Purpose, ...]] = ("arrivals", "isl", "osl", "rows", "turns", "think")

# Below, gaps differ by less than 1e-6; above, all but one in a million are 0.
_MIN_CV: Final = 1e-6
_MAX_CV: Final = 1e3


def stream(seed: int, purpose: Purpose, *indices: int) -> np.random.Generator:
    """Return the random generator of one purpose: PCG64, independent of all other purposes.

    Args:
        seed: Seed of the run, 0 or more.
        indices: Further non-negative indices, if several streams share a purpose.

    Raises:
        InvalidSpecError: The seed is negative.

    Source: numpy SeedSequence, spawn key (purpose, *place).

    Example:
        >>> from perfatlas.serving.requests import stream
        >>> stream(7, "isl").random() == stream(7, "isl").random()
        True
    """
    if seed < 0:
        raise InvalidSpecError(
            f"seed = {repr_for_error(seed)} is negative; use an integer of at least 0"
        )
    key = (_PURPOSES.index(purpose), *indices)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))


def constant_arrivals(num_requests: int, request_rate: float) -> Ticks:
    """Return equidistant arrivals (N,) [ps].

    Args:
        request_rate: Mean rate [1/s]; inf for all at once.

    Raises:
        InvalidSpecError: A value is out of range, or the last request would arrive too late.

    Example:
        >>> from perfatlas.serving.requests import constant_arrivals
        >>> constant_arrivals(3, 4.0).tolist()
        [0, 250000000000, 500000000000]
    """
    return _times(np.ones(_count(num_requests) - 1), request_rate)


def poisson_arrivals(num_requests: int, request_rate: float, seed: int) -> Ticks:
    """Return arrivals of a Poisson process (N,) [ps]: exponential gaps, coefficient of variation 1.

    Args:
        request_rate: Mean rate [1/s]; inf for all at once.

    Raises:
        InvalidSpecError: A value is out of range, or the last request would arrive too late.

    Example:
        >>> from perfatlas.serving.requests import poisson_arrivals
        >>> poisson_arrivals(3, 4.0, seed=0)[0]
        np.int64(0)
    """
    gap_N = stream(seed, "arrivals").standard_exponential(_count(num_requests) - 1)
    return _times(gap_N, request_rate)


def gamma_arrivals(num_requests: int, request_rate: float, cv: float, seed: int) -> Ticks:
    """Return arrivals with gamma-distributed gaps (N,) [ps]; bursty if `cv` is above 1.

    Args:
        request_rate: Mean rate [1/s]; inf for all at once.
        cv: Coefficient of variation of the gaps (standard deviation / mean), 0 for equal gaps,
            at most 1000.

    Raises:
        InvalidSpecError: A value is out of range, or the last request would arrive too late.

    Source: shape k = 1 / cv^2 and mean 1 / rate. The `burstiness` of `vllm bench serve` is k:
        burstiness = 1 / cv^2, smaller is burstier.
    Limits: The mean of n gaps has a standard error of cv / sqrt(n): at cv = 13, the rate of a
        thousand requests varies by 41%. `vllm bench serve` scales its gaps to the exact rate,
        as `scale_rate` does.

    Example:
        >>> from perfatlas.serving.requests import gamma_arrivals
        >>> gamma_arrivals(3, 4.0, cv=0.0, seed=0).tolist()
        [0, 250000000000, 500000000000]
    """
    return _times(_unit_gaps(_count(num_requests) - 1, cv, seed), request_rate)


def ramp_arrivals(
    num_requests: int, rates: tuple[float, float], duration_s: float, cv: float, seed: int
) -> Ticks:
    """Return arrivals whose rate changes linearly and then stays constant (N,) [ps].

    Args:
        rates: Rate at time 0 and from `duration_s` on [1/s].
        duration_s: Length of the ramp [s].
        cv: Coefficient of variation of the gaps at a constant rate: 1 for a Poisson process, 0 for
            deterministic arrivals.

    Raises:
        InvalidSpecError: A value is out of range, or the rate reaches 0 before all have arrived.

    Source: inversion of the cumulative rate R(t) = r0 t + (r1 - r0) t^2 / (2 D), applied to a
        process of rate 1 (Cinlar, Introduction to Stochastic Processes, 1975, section 4.7).

    Example:
        >>> from perfatlas.serving.requests import ramp_arrivals
        >>> ramp_arrivals(3, (0.0, 2.0), duration_s=4.0, cv=0.0, seed=0).tolist()
        [0, 2000000000000, 2828427124746]
    """
    first, last = (_number("rate of the ramp", rate, finite=True) for rate in rates)
    length_s = _number("duration_s of the ramp", duration_s, finite=True)
    gap_N = _unit_gaps(_count(num_requests) - 1, cv, seed)
    sum_N = np.concatenate(([0.0], np.cumsum(gap_N)))
    ramped = (first + last) / 2 * length_s
    if last == 0.0 and sum_N[-1] > ramped:
        raise InvalidSpecError(
            f"the ramp from {first:g} to 0 requests/s over {length_s:g} s yields {ramped:.0f} "
            f"requests on average, fewer than num_requests = {num_requests}; reduce it, or end "
            "above 0"
        )
    slope = (last - first) / length_s if length_s else 0.0
    inside_N = np.minimum(sum_N, ramped)
    root_N = np.sqrt(np.maximum(first * first + 2 * slope * inside_N, 0.0))
    speed_N = first + root_N
    # 2 R / (r0 + sqrt(r0^2 + 2 slope R)): avoids cancellation at small slopes
    time_N = np.divide(2 * inside_N, speed_N, out=np.zeros_like(sum_N), where=speed_N > 0.0)
    if last > 0.0:
        time_N += (sum_N - inside_N) / last
    _check_span(float(time_N[-1]), num_requests)
    rising_N: NDArray[np.float64] = np.maximum.accumulate(time_N)
    return np.rint(rising_N * TICKS_PER_SECOND).astype(np.int64)


def think_times(count: int, mean_s: float, seed: int) -> Ticks:
    """Return exponentially distributed times between an answer and the next turn (N,) [ps].

    Raises:
        InvalidSpecError: The mean is out of range.

    Example:
        >>> from perfatlas.serving.requests import think_times
        >>> abs(think_times(100_000, 2.0, seed=0).mean() / 2e12 - 1.0) < 0.01
        np.True_
    """
    mean = _number("think_time_s", mean_s, finite=True)
    drawn_N = stream(seed, "think").exponential(mean, count)
    think_N: Ticks = np.rint(np.minimum(drawn_N, MAX_S) * TICKS_PER_SECOND).astype(np.int64)
    return think_N


def all_at_once(num_requests: int) -> Ticks:
    """Return arrivals at time 0 (N,) [ps], for request_rate = inf or a closed loop.

    Example:
        >>> from perfatlas.serving.requests import all_at_once
        >>> all_at_once(2).tolist()
        [0, 0]
    """
    return np.zeros(_count(num_requests), np.int64)


def _unit_gaps(count: int, cv: float, seed: int) -> NDArray[np.float64]:
    """Return gaps of mean 1 (N - 1,)."""
    spread = _number("cv", cv, finite=True)
    if spread > _MAX_CV:
        raise InvalidSpecError(f"cv = {repr_for_error(cv)}; at most {_MAX_CV:g}")
    if spread < _MIN_CV:
        return np.ones(count)
    shape = 1.0 / (spread * spread)
    return stream(seed, "arrivals").standard_gamma(shape, count) / shape


def _times(gap_N: NDArray[np.float64], request_rate: float) -> Ticks:
    """Return arrival times from gaps of mean 1 and a rate, starting at 0 (N,) [ps]."""
    rate = _number("request_rate", request_rate, finite=False)
    if rate == 0.0:
        raise InvalidSpecError("request_rate = 0; it must be positive (inf: all at once)")
    _check_span(float(gap_N.sum()) / rate, gap_N.shape[0] + 1)
    time_N = np.zeros(gap_N.shape[0] + 1, np.int64)
    # Round the gaps first: sums of integers are exact.
    np.cumsum(np.rint(gap_N * (TICKS_PER_SECOND / rate)).astype(np.int64), out=time_N[1:])
    return time_N


def _check_span(last_s: float, count: int) -> None:
    if not last_s <= MAX_S:
        raise InvalidSpecError(
            f"the last of {count} requests would arrive after {significant(last_s)} s; a simulation"
            f" is limited to {MAX_S:g} s: increase the rate or reduce the number of requests"
        )


def _count(num_requests: int) -> int:
    if num_requests < 1:
        raise InvalidSpecError(
            f"num_requests = {repr_for_error(num_requests)}; it must be at least 1"
        )
    return num_requests


def _number(name: str, value: float, *, finite: bool) -> float:
    if not value >= 0.0 or (finite and math.isinf(value)):
        kind = "a finite number" if finite else "a number"
        raise InvalidSpecError(f"{name} = {repr_for_error(value)}; it must be {kind} of at least 0")
    return float(value)
