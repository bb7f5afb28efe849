"""The simulator beside the closed forms it has to agree with: one value twice, and the verdict.

The rule, set before anything was drawn: every point has a seed of its own and is looked at once.
One that is more than three standard errors off is drawn once more, with four times as many replicas
of other seeds, and disagrees if it is off again; of points that are right 0.27 % come so far by
chance, and hardly any twice. The first look stays in the table and in the sum of squares of all
first looks, which must not be larger than chance makes it once in a thousand times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.sampling import standard_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfatlas.fleet.simulator import Outcome

MOST_ERRORS: Final = 3.0  # standard errors
FINER: Final = 4  # times as many replicas where a point is drawn once more
OTHER_SEEDS: Final = 1_000_000  # from the first look to the second
UNLIKELY: Final = 1e-3  # of the sum of squares of all points


class Measured(NamedTuple):
    """What the simulator says.

    Args:
        value: Its mean.
        standard_error: Of the mean.
        half_width: Of the 95 % interval, relative to the mean.
        replicas: Behind it.
    """

    value: float
    standard_error: float
    half_width: float
    replicas: int


@dataclass(frozen=True, kw_only=True)
class Point:
    """A value that a closed form knows and the simulator can be asked.

    Args:
        group: What is compared.
        name: At which point.
        exact: By the closed form.
        measure: Simulates it, given a seed and how many times as many replicas as usual.
    """

    group: str
    name: str
    exact: float
    measure: Callable[[int, int], Measured]


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """One value twice.

    Args:
        group: What is compared.
        name: At which point.
        exact: By the closed form.
        simulated: By the simulator.
        standard_error: Of the latter.
        half_width: Of its 95 % interval, relative to it.
        replicas: Behind it.
        second_z: Difference in standard errors of a second look; None where there was none.
    """

    group: str
    name: str
    exact: float
    simulated: float
    standard_error: float
    half_width: float
    replicas: int
    second_z: float | None = None

    @property
    def z(self) -> float:
        """The difference in standard errors."""
        return (self.simulated - self.exact) / self.standard_error

    @property
    def agrees(self) -> bool:
        """Whether the first look, or else the second, is near enough."""
        last = self.z if self.second_z is None else self.second_z
        return abs(last) <= MOST_ERRORS


def compare(points: Sequence[Point], *, seed: int) -> list[Agreement]:
    """Return every point exact and simulated, those far off with a second look.

    Args:
        points: The points.
        seed: Of the first; every further one has the next.
    """
    return [_compared(point, seed + number) for number, point in enumerate(points)]


def _compared(point: Point, seed: int) -> Agreement:
    first = point.measure(seed, 1)
    second_z = None
    if abs(first.value - point.exact) > MOST_ERRORS * first.standard_error:
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
    """Return how far the furthest of so many right points is off on average [standard errors].

    Args:
        points: How many.

    Source: mean of the largest of n absolute standard normals, the integral of 1 - (2 Phi(z) - 1)^n
        over z above zero, by the trapezoid.

    Example:
        >>> from perfatlas.fleet.validation.agreement import expected_largest
        >>> [f"{expected_largest(n):.2f}" for n in (1, 12, 100)]  # of one: sqrt(2 / pi)
        ['0.80', '1.96', '2.75']
    """
    from scipy.special import ndtr

    z = np.linspace(0.0, 12.0, 4001)
    return float(np.trapezoid(1.0 - (2.0 * ndtr(z) - 1.0) ** points, z))


def chance_of(rows: Sequence[Agreement]) -> tuple[float, float]:
    """Return the sum of squares of all first looks, and how likely one so large is by chance.

    Args:
        rows: Points.

    Source: chi-square with as many degrees of freedom as there are points; 64 replicas or more
        behind each, so that their own spread is known to a tenth.
    """
    from scipy.special import chdtrc

    total = sum(row.z**2 for row in rows)
    return total, float(chdtrc(len(rows), total)) if rows else 1.0


def families(rows: Sequence[Agreement]) -> list[dict[str, Any]]:
    """Return what is compared, one row a group.

    Args:
        rows: Points.

    Returns:
        group, points, largest_z, expected_z (the largest by chance), second_looks, sum_of_squares,
        chance (of a sum so large), half_width (the widest).
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


def measured_goodput(outcome: Outcome) -> Measured:
    """Return the goodput of replicas.

    Args:
        outcome: The replicas.
    """
    return Measured(
        outcome.goodput,
        outcome.standard_error,
        outcome.half_width / outcome.goodput,
        outcome.ticks_RF.shape[0],
    )


def measured_mean(value_R: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Measured:
    """Return the mean of a value of every replica.

    Args:
        value_R: The values.
    """
    error, mean = float(value_R.std(ddof=1) / np.sqrt(value_R.size)), float(value_R.mean())
    return Measured(mean, error, standard_errors(0.95) * error / mean, value_R.size)
