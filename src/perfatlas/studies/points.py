"""Points of a study: values crossed, varied together or sampled, in blocks of a fixed order.

A point is a number; its values follow from it, so that no list of points is held in memory.

Shape legend: N points of a block, A values of an axis, S samples, D sampled names.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    IntArray = NDArray[np.int64]

MAX_SOBOL_POINTS: Final = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Axis:
    """Names that vary together, crossed with other axes."""

    names: tuple[str, ...]
    values: tuple[tuple[Any, ...], ...]  # For each name its values (A,)

    @property
    def size(self) -> int:
        """Number of values A."""
        return len(self.values[0])


@dataclass(frozen=True, kw_only=True)
class SampledName:
    """A name whose values are sampled."""

    name: str
    choices: tuple[Any, ...] = ()  # Its values, each with the same share; empty for a range
    low: float = 0.0
    high: float = 0.0
    log: bool = False  # Whether the logarithm is uniform
    whole: bool = False  # Whether values are rounded to integers; each then has the same share

    def values(self, shares_N: NDArray[np.float64]) -> list[Any]:
        """Return the values at quantiles of the distribution (N,).

        Args:
            shares_N: Quantiles from 0 to 1, 1 excluded (N,).
        """
        if self.choices:
            indices = np.minimum(shares_N * len(self.choices), len(self.choices) - 1).astype(int)
            return [self.choices[index] for index in indices.tolist()]
        low, high = (self.low - 0.5, self.high + 0.5) if self.whole else (self.low, self.high)
        if self.log:
            low = max(low, 0.5) if self.whole else low
            values_N = np.exp(math.log(low) + shares_N * (math.log(high) - math.log(low)))
        else:
            values_N = low + shares_N * (high - low)
        if self.whole:
            rounded: list[Any] = (
                np.clip(np.round(values_N), self.low, self.high).astype(int).tolist()
            )
            return rounded
        exact: list[Any] = np.clip(values_N, self.low, self.high).tolist()
        return exact


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Names that are sampled together, by a scrambled Sobol sequence.

    Source: Owen 1998, Scrambling Sobol' and Niederreiter-Xing points, as scipy.stats.qmc
        implements them.
    """

    points: int  # Number of samples S
    seed: int  # Seed of the scrambling
    names: tuple[SampledName, ...]  # What is sampled (D)

    def shares(self, first: int, last: int) -> NDArray[np.float64]:
        """Return the samples of a range, each between 0 and 1 (N, D).

        Args:
            last: The sample behind the last one.
        """
        from scipy.stats import qmc

        # blocks of a power of two, as the sequence is drawn without a remark on its balance
        count = 1 << max(last - first - 1, 0).bit_length()
        engine = qmc.Sobol(len(self.names), scramble=True, seed=self.seed)
        if first:
            engine.fast_forward(first)
        drawn: NDArray[np.float64] = engine.random(count)[: last - first]
        return drawn


@dataclass(frozen=True, kw_only=True)
class Points:
    """All points of a study, in order: the last axis varies fastest, samples slowest.

    Example:
        >>> from perfatlas.studies import Axis, Points
        >>> tp = Axis(names=("tp",), values=((1, 2),))
        >>> batch = Axis(names=("batch",), values=((8, 16, 32),))
        >>> points = Points(axes=(tp, batch))
        >>> points.size, points.columns(2, 5)
        (6, {'tp': [1, 2, 2], 'batch': [32, 8, 16]})
    """

    axes: tuple[Axis, ...]
    sample: Sample | None = None  # Names that are sampled, crossed with the axes; None for none

    def __post_init__(self) -> None:
        """Refuse samples that cannot be drawn."""
        if self.sample is not None and self.sample.points > MAX_SOBOL_POINTS:
            raise InvalidSpecError(
                f"sample.points = {self.sample.points:,}: at most {MAX_SOBOL_POINTS:,}"
            )

    @property
    def size(self) -> int:
        """Number of points."""
        return math.prod(axis.size for axis in self.axes) * (
            1 if self.sample is None else self.sample.points
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names that vary, samples first."""
        sampled = () if self.sample is None else self.sample.names
        crossed = (name for axis in self.axes for name in axis.names)
        return (*(sampled_name.name for sampled_name in sampled), *crossed)

    def columns(self, first: int, last: int) -> dict[str, list[Any]]:
        """Return the values of a range of points, by name (N,)."""
        rest_N = np.arange(first, last, dtype=np.int64)
        crossed: dict[str, list[Any]] = {}
        for axis in reversed(self.axes):
            rest_N, place_N = np.divmod(rest_N, axis.size)
            indices = place_N.tolist()
            for name, values in zip(axis.names, axis.values, strict=True):
                crossed[name] = [values[index] for index in indices]
        sampled = self._sampled(rest_N)
        return {name: sampled.get(name) or crossed[name] for name in self.names}

    def _sampled(self, sample_N: IntArray) -> dict[str, list[Any]]:
        if self.sample is None or not sample_N.size:
            return {}
        start = int(sample_N[0])
        shares = self.sample.shares(start, int(sample_N[-1]) + 1)
        place_N = sample_N - start
        return {
            name.name: name.values(shares[place_N, d]) for d, name in enumerate(self.sample.names)
        }


def spread(low: float, high: float, steps: int, *, log: bool = False) -> list[float]:
    """Return numbers from low to high, both included, evenly spaced or in equal ratios.

    Args:
        steps: How many.

    Example:
        >>> from perfatlas.studies import spread
        >>> spread(1.0, 8.0, 4, log=True)
        [1.0, 2.0, 4.0, 8.0]
    """
    values = np.geomspace(low, high, steps) if log else np.linspace(low, high, steps)
    exact: Sequence[float] = values.tolist()
    return [float(f"{value:.15g}") for value in exact]
