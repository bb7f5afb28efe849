"""Measure designs one after the other, each chosen by what the measured ones say of the others.

Shape legend: D designs; N measured ones; S sizes of a design.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

LENGTH: Final = 1.0  # octaves of a size over which errors of predictions stay alike
NOISE: Final = 0.01  # of the logarithm of a measured time
LEAST_GAIN: Final = 0.002  # expected relative gain below which nothing more is measured


@dataclass(kw_only=True)
class MeasuredSearch:
    """Posterior times of designs: a Gaussian process of the errors of predictions.

    Source:
        Rasmussen and Williams, Gaussian Processes for Machine Learning, algorithm 2.1; expected
        improvement as in Jones et al. 1998.
    """

    log_time_D: Array  # ln of predicted times
    sizes_DS: Array  # log2 of the sizes of designs
    spread: float  # Standard deviation of ln(measured / predicted) between tiles
    places: list[int] = field(default_factory=list)
    log_measured: list[float] = field(default_factory=list)

    def add(self, place: int, time_s: float) -> None:
        """Add the measured time of a design; infinite where it failed."""
        self.places.append(place)
        self.log_measured.append(math.log(time_s) if math.isfinite(time_s) else math.inf)

    @property
    def best(self) -> int | None:
        """Place of the fastest measured design."""
        if not any(map(math.isfinite, self.log_measured)):
            return None
        return self.places[int(np.argmin(self.log_measured))]

    def posterior(self) -> tuple[Array, Array]:
        """Return mean and standard deviation of ln(time) (D)."""
        done = [i for i, value in enumerate(self.log_measured) if math.isfinite(value)]
        mean_D, sd_D = self.log_time_D, np.full(len(self.log_time_D), self.spread)
        if not done:
            return mean_D, sd_D
        at_N = np.array([self.places[i] for i in done])
        errors_N = np.array([self.log_measured[i] for i in done]) - self.log_time_D[at_N]
        shift = float(np.median(errors_N))  # an error of all designs changes no rank
        spread = max(self.spread, float(np.sqrt(np.mean((errors_N - shift) ** 2))))
        covariance_NN = spread**2 * self._likeness(at_N, at_N) + NOISE**2 * np.eye(len(at_N))
        across_DN = spread**2 * self._likeness(np.arange(len(self.log_time_D)), at_N)
        solved = np.linalg.solve(covariance_NN, np.c_[errors_N - shift, across_DN.T])
        mean_D = mean_D + shift + across_DN @ solved[:, 0]
        variance_D = spread**2 - np.einsum("dn,nd->d", across_DN, solved[:, 1:])
        return mean_D, np.sqrt(np.maximum(variance_D, 1e-12))

    def _likeness(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> Array:
        """Return the correlation of errors."""
        a, b = self.sizes_DS[rows] / LENGTH, self.sizes_DS[columns] / LENGTH
        squares = (a**2).sum(1)[:, None] + (b**2).sum(1)[None] - 2 * a @ b.T
        likeness: Array = np.exp(-np.maximum(squares, 0.0) / 2)
        return likeness

    def next(self) -> int | None:
        """Return the design with the largest expected gain; None where it is not worth a run."""
        from scipy.special import ndtr

        mean_D, sd_D = self.posterior()
        left_D = np.isfinite(mean_D)
        left_D[self.places] = False
        if not left_D.any():
            return None
        best = min(self.log_measured, default=math.inf)
        if not math.isfinite(best):
            return int(np.argmin(np.where(left_D, mean_D, math.inf)))
        with np.errstate(invalid="ignore"):
            z_D = (best - mean_D) / sd_D
            density_D = np.exp(-(z_D**2) / 2) / math.sqrt(2 * math.pi)
            gain_D = np.where(left_D, sd_D * (z_D * ndtr(z_D) + density_D), -1.0)
        place = int(np.argmax(gain_D))
        return place if gain_D[place] > LEAST_GAIN else None


def search_measured(
    search: MeasuredSearch,
    first: Sequence[int],
    time_of: Callable[[int], float],
    goes_on: Callable[[], bool],
) -> MeasuredSearch:
    """Measure designs until none is worth it, or the budget is spent.

    Args:
        search: Predicted times.
        first: Designs to begin with: the default, and the first of the ranked list.
        time_of: Measures a design [s]; infinite where it fails.
        goes_on: Whether there is time for one more.
    """
    for place in first:
        if goes_on() or not search.places:
            search.add(place, time_of(place))
    while goes_on():
        likely = search.next()
        if likely is None:
            break
        search.add(likely, time_of(likely))
    return search
