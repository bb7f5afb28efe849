"""Check values of the closed forms, and their rounding errors."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from math import comb
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.reliability.fleet.closed_form import (
    VerifiedPattern,
    asynchronous_efficiency,
    blocked_probability,
    daly_higher_order_s,
    meta_ettr,
    multilevel_efficiency,
    optimal_interval_s,
    renewal_efficiency,
    replicas_up,
    saxena_interval_s,
    spares_for,
    verified_time_s,
    young_interval_s,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfatlas.reliability.fleet.laws import FloatArray

HOUR_S: Final = 3600.0
DAY_S: Final = 86400.0
NODE_PER_S: Final = 6.5e-3 / DAY_S
# three worked examples: MTTI, blocking write, restart
MTTI_S: Final = np.array([7.9, 1.8, 0.23]) * HOUR_S
WRITE_S: Final = np.array([60.0, 300.0, 300.0])
RESTART_S: Final = np.array([5.0, 15.0, 5.0]) * 60.0
CASES: Final[dict[str, tuple[str, str, str]]] = {
    "exact optimum [min]": ("30.127", "29.618", "8.678"),
    "Young [min]": ("30.790", "32.863", "11.747"),
    "Daly, higher order [min]": ("30.127", "29.615", "8.650"),
    "Saxena [min]": ("30.968", "35.426", "14.595"),
    "exact efficiency at the optimum": ("0.92662", "0.63165", "0.25833"),
    "exact efficiency at Young's": ("0.92660", "0.63070", "0.25049"),
    "exact efficiency at Saxena's": ("0.92659", "0.62882", "0.23469"),
    "Meta's estimate at Young's": ("0.92687", "0.61534", "0.14874"),
    "linear estimate at Young's": ("0.92449", "0.55682", "-0.21358"),
    "the same without rework": ("0.95697", "0.70897", "0.21205"),
}
RATIOS: Final = np.geomspace(1e-11, 10.0, 61)  # write over MTTI
UNAVAILABLE: Final = (1e-6, 1e-3, 0.01, 0.1, 0.5)
PARTS: Final = ((5, 3), (18, 16), (72, 72), (72, 70), (72, 64), (256, 250))
DIGITS: Final = 50


@dataclass(frozen=True, kw_only=True)
class CheckValue:
    """A value from another implementation or a paper."""

    name: str  # Quantity
    known: str  # Value as printed there
    ours: float  # Value of perfatlas

    @property
    def agrees(self) -> bool:
        """Whether ours equals the known value to its last digit."""
        decimals = len(self.known.partition(".")[2])
        return abs(self.ours - float(self.known)) <= 0.5000001 * 10.0**-decimals


@dataclass(frozen=True, kw_only=True)
class Exactness:
    """The error of a closed form relative to 50-digit or rational arithmetic."""

    name: str  # Quantity
    cells: int  # Number of points
    largest_error: float
    limit: float  # Allowed error

    @property
    def agrees(self) -> bool:
        """Whether the error is below the limit."""
        return self.largest_error <= self.limit


def check_values() -> list[CheckValue]:
    """Return values of other implementations or papers and ours."""
    return [CheckValue(name=name, known=known, ours=float(ours)) for name, known, ours in _known()]


def _known() -> Iterator[tuple[str, str, float | FloatArray]]:
    h = HOUR_S
    yield "exact efficiency of case C", "0.258335", _columns()["exact efficiency at the optimum"][2]
    lagging = asynchronous_efficiency(0.5 * h, 10.0, 0.1 * h, 0.2 * h, 1.8 * h)
    yield "asynchronous, lag 6 min", "0.729704", lagging.value_C
    levels = multilevel_efficiency(0.2, (1, 6), [0.005, 0.05], [0.02, 0.2], [0.5, 0.1])
    yield "two levels, every 6", "0.80754", levels[0]
    pattern = VerifiedPattern(0.02, 0.03, 0.2, 0.05, 1 / 1.8, 1 / 24)
    yield "verified pattern [h]", "0.758325", verified_time_s(0.5, pattern)
    for spares, known in ((24, "0.00136"), (25, "0.00070")):
        blocked = blocked_probability(2048, spares, NODE_PER_S, DAY_S)
        yield f"2,048 nodes wait, {spares} spares", known, blocked
    fewest = spares_for(2048, NODE_PER_S, DAY_S, blocked=1e-3)
    yield "spares to wait below 0.001", "25", float(fewest)
    fleet = renewal_efficiency(1800.0, 60.0, 720.0, 1 / (2048 * NODE_PER_S))
    yield "2,048 nodes, 30 min, 60 s, 12 min", "0.74794", fleet.value_C
    for needed, known in ((72, "0.9305"), (71, "0.99756"), (70, "0.999943")):
        yield f"{needed} of 72 up, 0.1% down", known, _enough(needed, 72, 1e-3)
    columns = _columns()
    for name, knowns in CASES.items():
        for case, known, ours in zip("ABC", knowns, columns[name], strict=True):
            yield f"case {case}: {name}", known, ours


def _columns() -> dict[str, FloatArray]:
    """Return the table of worked examples, a column of three cases by name."""
    best = optimal_interval_s(WRITE_S, MTTI_S)
    young = young_interval_s(WRITE_S, MTTI_S).value_C
    saxena = saxena_interval_s(WRITE_S, MTTI_S, RESTART_S).value_C
    # cost calculators print it unclipped, even below zero
    without = 1.0 - (WRITE_S / young + RESTART_S / MTTI_S)
    values = (
        best / 60,
        young / 60,
        daly_higher_order_s(WRITE_S, MTTI_S).value_C / 60,
        saxena / 60,
        *(renewal_efficiency(t, WRITE_S, RESTART_S, MTTI_S).value_C for t in (best, young, saxena)),
        meta_ettr(young, WRITE_S, RESTART_S, MTTI_S).value_C,
        without - young / 2 / MTTI_S,
        without,
    )
    return dict(zip(CASES, values, strict=True))


def exactness() -> list[Exactness]:
    """Return the largest errors of the optimum interval and of k of n.

    Source: the optimum as the root of x + d + ln(1 - x) = 0, with x = tau / M and d = delta / M, by
        bisection with 50 digits; the others as sums of fractions.
    """
    best = optimal_interval_s(RATIOS, 1.0)
    optimum = [_off(float(x), _root(float(d))) for x, d in zip(best, RATIOS, strict=True)]
    parts = [_off(_enough(k, n, u), _up(k, n, u)) for n, k in PARTS for u in UNAVAILABLE]
    found = (
        ("optimum interval, write of 1e-11 to 10 MTTI", optimum, 1e-6),
        ("k of n up", parts, 1e-12),
    )
    return [
        Exactness(name=name, cells=len(errors), largest_error=max(errors), limit=limit)
        for name, errors, limit in found
    ]


def _enough(needed: int, parts: int, unavailability: float) -> float:
    """Return the probability that enough replicas of a node each work."""
    ones = np.ones(1)
    return float(replicas_up(needed * ones, parts * ones, ones, unavailability)[0])


def _root(ratio: float) -> Fraction:
    with localcontext() as context:
        context.prec = DIGITS
        low, high, d = Decimal(0), Decimal(1), Decimal(ratio)
        for _ in range(120):
            middle = (low + high) / 2
            below = middle + d + (1 - middle).ln() > 0
            low, high = (middle, high) if below else (low, middle)
        return Fraction(low)


def _up(needed: int, parts: int, unavailability: float) -> Fraction:
    down = Fraction(unavailability)
    terms = (
        comb(parts, up) * (1 - down) ** up * down ** (parts - up) for up in range(needed, parts + 1)
    )
    return sum(terms, Fraction(0))


def _off(ours: float, exact: Fraction) -> float:
    return float(abs(Fraction(ours) - exact) / exact) if exact else abs(ours)
