"""Lifetimes in compiled code: age from cumulative hazard, and the inverse.

A lifetime is the age at which the cumulative hazard H(t) reaches an Exp(1) draw. The residual
lifetime at age a ends at H(a) plus such a draw, so ageing needs no other state.

Shape legend: K knots of tables.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from perfatlas.compiled import part, record_type

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CONSTANT: Final = 0
EXPONENTIAL: Final = 1
WEIBULL: Final = 2
LOGNORMAL: Final = 3
BATHTUB: Final = 4
TABLE: Final = 5


ENDLESS: Final = 1e300
MAX_TICKS: Final = 5e17  # ticks; sums of several fit into 64 bits
_ROOT2: Final = math.sqrt(2.0)


class LawRecord:
    """The distribution of a lifetime or duration."""

    kind: int
    a: float  # value, mean, scale or median [ticks]
    b: float  # shape or sigma
    c: float  # bathtub: mean of the constant hazard [ticks],
    d: float  # scale of wear-out [ticks]
    e: float  # shape of wear-out
    first: int  # table: index of the first knot
    count: int  # number of knots


LAW: Final = record_type(LawRecord)


@part
def age_at(law: LawRecord, knots_2K: NDArray[np.float64], hazard: float) -> float:
    """Return the age at which a cumulative hazard is reached [ticks].

    Args:
        knots_2K: Probabilities and ages of table laws (2, K).
    """
    if law.kind == EXPONENTIAL:
        return float(law.a * hazard)
    if law.kind == CONSTANT:
        return float(law.a)
    if law.kind == WEIBULL:
        return float(law.a * hazard ** (1.0 / law.b))
    if law.kind == LOGNORMAL:
        return float(law.a * math.exp(law.b * upper_normal(math.exp(-hazard))))
    if law.kind == BATHTUB:
        return float(_bathtub_age(law, hazard))
    probability = -math.expm1(-hazard)
    return float(between(knots_2K[0], knots_2K[1], law.first, law.count, probability))


@part
def ticks_at(law: LawRecord, knots_2K: NDArray[np.float64], hazard: float) -> int:
    """Return `age_at` in whole ticks, at most 15,800 years.

    Args:
        knots_2K: Probabilities and ages of table laws (2, K).
    """
    return int(min(age_at(law, knots_2K, hazard), MAX_TICKS))


@part
def hazard_at(law: LawRecord, knots_2K: NDArray[np.float64], age: float) -> float:
    """Return the cumulative hazard at an age.

    Args:
        knots_2K: Probabilities and ages of table laws (2, K).
        age: Age [ticks].
    """
    if age <= 0.0:
        return 0.0
    if law.kind == EXPONENTIAL:
        return float(age / law.a)
    if law.kind == CONSTANT:
        return 0.0
    if law.kind == WEIBULL:
        return float((age / law.a) ** law.b)
    if law.kind == LOGNORMAL:
        return -math.log(max(0.5 * math.erfc(math.log(age / law.a) / law.b / _ROOT2), 1e-300))
    if law.kind == BATHTUB:
        return float(_bathtub_hazard(law, age))
    below = between(knots_2K[1], knots_2K[0], law.first, law.count, age)
    return -math.log(max(1.0 - below, 1e-300))


@part
def between(
    from_K: NDArray[np.float64], to_K: NDArray[np.float64], first: int, count: int, value: float
) -> float:
    """Return the linear interpolation of a table, held at its ends."""
    low, high = first, first + count - 1
    if value <= from_K[low]:
        return float(to_K[low])
    if value >= from_K[high]:
        return float(to_K[high])
    while high - low > 1:
        middle = (low + high) >> 1
        if from_K[middle] <= value:
            low = middle
        else:
            high = middle
    part_of_cell = (value - from_K[low]) / (from_K[high] - from_K[low])
    return float(to_K[low] + part_of_cell * (to_K[high] - to_K[low]))


@part
def _bathtub_hazard(law: LawRecord, age: float) -> float:
    return float((age / law.a) ** law.b + age / law.c + (age / law.d) ** law.e)


@part
def _bathtub_age(law: LawRecord, hazard: float) -> float:
    """Return the root of H(t) = hazard: it lies below the root of each term alone."""
    high = min(law.a * hazard ** (1.0 / law.b), law.c * hazard, law.d * hazard ** (1.0 / law.e))
    low = min(
        law.a * (hazard / 3.0) ** (1.0 / law.b),
        law.c * hazard / 3.0,
        law.d * (hazard / 3.0) ** (1.0 / law.e),
    )
    for _ in range(200):
        middle = math.sqrt(low * high)
        if high - low <= 1e-13 * high or middle <= low or middle >= high:
            break
        if _bathtub_hazard(law, middle) < hazard:
            low = middle
        else:
            high = middle
    return float(high)


@part
def upper_normal(tail: float) -> float:
    """Return z with P(Z > z) = tail for a standard normal Z.

    Args:
        tail: Probability above 0 and below 1.

    Source: rational start of Abramowitz and Stegun 26.2.23 (error 4.5e-4), then three Halley steps
        on the complementary error function.
    """
    small = min(tail, 1.0 - tail)
    if small <= 0.0:
        return 38.0 if tail < 0.5 else -8.3
    t = math.sqrt(-2.0 * math.log(small))
    z = t - (2.515517 + t * (0.802853 + t * 0.010328)) / (
        1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308))
    )
    for _ in range(3):
        density = math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
        miss = (0.5 * math.erfc(z / _ROOT2) - small) / density
        z += miss / (1.0 - 0.5 * z * miss)
    return float(z if tail < 0.5 else -z)
