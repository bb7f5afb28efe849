"""Comparison of the simulator with closed forms, point by point.

The rule was fixed before any simulation: every point has its own seed and is simulated once. A
point that deviates by more than three standard errors is simulated again with four times as many
replicas and other seeds, and fails if it deviates again; 0.27% of correct points deviate by chance,
hardly any twice. The first result stays in the table and in the sum of squares of all first
results, whose chi-square probability must be at least one in a thousand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.sampling import standard_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfatlas.reliability.fleet.simulator import JobOutcome

MAX_STANDARD_ERRORS: Final = 3.0  # standard errors
FINER: Final = 4  # factor on the replicas of a second simulation
OTHER_SEEDS: Final = 1_000_000  # seed offset of the second simulation
MIN_PROBABILITY: Final = 1e-3  # probability limit of the sum of squares of all points


class Measured(NamedTuple):
    """A simulated value."""

    value: float  # Mean
    standard_error: float  # Standard error of the mean
    half_width: float  # Half-width of the 95% interval relative to the mean
    replicas: int  # Number of replicas


@dataclass(frozen=True, kw_only=True)
class Point:
    """A value known from a closed form that the simulator can estimate."""

    group: str  # Quantity compared
    name: str
    exact: float
    # Simulates it, given a seed and a factor on the number of replicas
    measure: Callable[[int, int], Measured]


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """A value by the closed form and by the simulator."""

    group: str  # Quantity compared
    name: str  # Name of the point
    exact: float
    simulated: float
    standard_error: float  # Standard error of the simulated value
    half_width: float  # Relative half-width of its 95% interval
    replicas: int  # Number of replicas
    # Difference in standard errors of a second simulation; None where there was none
    second_z: float | None = None

    @property
    def z(self) -> float:
        """The difference in standard errors."""
        return (self.simulated - self.exact) / self.standard_error

    @property
    def agrees(self) -> bool:
        """Whether the first or second simulation is within the limit."""
        last = self.z if self.second_z is None else self.second_z
        return abs(last) <= MAX_STANDARD_ERRORS


def compare(points: Sequence[Point], *, seed: int) -> list[Agreement]:
    """Return the comparison of every point, with a second simulation of large deviations.

    Args:
        seed: Seed of the first point; each further point has the next seed.
    """
    return [_compared(point, seed + number) for number, point in enumerate(points)]


def _compared(point: Point, seed: int) -> Agreement:
    first = point.measure(seed, 1)
    second_z = None
    if abs(first.value - point.exact) > MAX_STANDARD_ERRORS * first.standard_error:
        again = point.measure(seed + OTHER_SEEDS, FINER)
        second_z = (again.value - point.exact) / again.standard_error
    return Agreement(
        group=point.group,
        name=point.name,
        exact=point.exact,
        simulated=first.value,
        standard_error=first.standard_error,
        half_width=first.half_width,
        replicas=first.replicas,
        second_z=second_z,
    )


def expected_largest(points: int) -> float:
    """Return the expected largest deviation of a number of correct points [standard errors].

    Source: mean of the largest of n absolute standard normals, the integral of 1 - (2 Phi(z) - 1)^n
        over z above zero, by the trapezoid.

    Example:
        >>> from validation.fleet.agreement import expected_largest
        >>> [f"{expected_largest(n):.2f}" for n in (1, 12, 100)]  # of one: sqrt(2 / pi)
        ['0.80', '1.96', '2.75']
    """
    from scipy.special import ndtr

    z = np.linspace(0.0, 12.0, 4001)
    return float(np.trapezoid(1.0 - (2.0 * ndtr(z) - 1.0) ** points, z))


def chance_of(rows: Sequence[Agreement]) -> tuple[float, float]:
    """Return the sum of squares of all first results and its probability by chance.

    Args:
        rows: Points.

    Source: chi-square with one degree of freedom per point; at least 64 replicas each, so that
        standard errors are known within 10%.
    """
    from scipy.special import chdtrc

    total = sum(row.z**2 for row in rows)
    return total, float(chdtrc(len(rows), total)) if rows else 1.0


def families(rows: Sequence[Agreement]) -> list[dict[str, Any]]:
    """Return the comparison, one row per group.

    Args:
        rows: Points.

    Returns:
        group, points, largest_z, expected_z (expected largest by chance), second_looks,
        sum_of_squares, chance (of a sum that large), half_width (the largest).
    """
    groups: dict[str, list[Agreement]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append(row)
    found = []
    for name, members in groups.items():
        total, chance = chance_of(members)
        found.append(
            {
                "group": name,
                "points": len(members),
                "largest_z": max(abs(row.z) for row in members),
                "expected_z": expected_largest(len(members)),
                "second_looks": sum(row.second_z is not None for row in members),
                "sum_of_squares": total,
                "chance": chance,
                "half_width": max(row.half_width for row in members),
            }
        )
    return found


def measured_goodput(outcome: JobOutcome) -> Measured:
    """Return the simulated goodput of replicas."""
    return Measured(
        outcome.goodput,
        outcome.standard_error,
        outcome.half_width / outcome.goodput,
        outcome.ticks_RF.shape[0],
    )


def measured_mean(value_R: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Measured:
    """Return the mean of a value over replicas."""
    error, mean = float(value_R.std(ddof=1) / np.sqrt(value_R.size)), float(value_R.mean())
    return Measured(mean, error, standard_errors(0.95) * error / mean, value_R.size)
