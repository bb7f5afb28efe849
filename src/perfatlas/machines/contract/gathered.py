"""Operators whose shapes are gathered once, to be priced at several clocks.

Shape legend: C candidates, O operators, F kernel families, X some candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from perfatlas.operators import with_fields
from perfatlas.pricing import choose

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.pricing import PricedOperators


class KernelFamily(Protocol):
    """Operators with the kernels of one family."""

    @property
    def full(self) -> PricedOperators:
        """Prices at the clock of each candidate."""

    def take(self, some_X: IntArray) -> KernelFamily:
        """Return the operators of some candidates.

        Args:
            some_X: Positions of the candidates (X,).
        """

    def at(
        self, ratio_CO: FloatArray, last_CO: FloatArray, last: PricedOperators
    ) -> PricedOperators:
        """Return the prices at clocks, from those at the last ones.

        Args:
            ratio_CO: Clock of each operator relative to the clock of its candidate (C, O).
            last: Prices at those; columns that do not follow the clock stay the same.
        """


@dataclass(frozen=True, kw_only=True)
class GatheredOperators:
    """Operators whose shapes are gathered, for each kernel family that may run them."""

    families: tuple[KernelFamily, ...]  # The operators with the kernels of each family (F)

    def full(self) -> PricedOperators:
        """Return the prices at the clock of each candidate."""
        return _fastest([family.full for family in self.families])

    def take(self, some_X: IntArray) -> GatheredOperators:
        """Return the operators of some candidates.

        Args:
            some_X: Positions of the candidates (X,).
        """
        return GatheredOperators(families=tuple(family.take(some_X) for family in self.families))

    def at(self, ratio_CO: FloatArray, last: ClockPrices | None = None) -> ClockPrices:
        """Return the prices at other clocks; entries with the clock of the last ones keep theirs.

        Args:
            ratio_CO: Clock of each operator relative to the clock of its candidate (C, O).
            last: Prices at other clocks, None for those at the clock of each candidate.

        Limits: As for `price_operators`; kernels were measured only at the sustained clock.
        """
        if last is None:
            last = ClockPrices(
                np.ones_like(ratio_CO), tuple(family.full for family in self.families)
            )
        pairs = zip(self.families, last.families, strict=True)
        found = tuple(family.at(ratio_CO, last.ratio_CO, prices) for family, prices in pairs)
        return ClockPrices(ratio_CO, found)


class ClockPrices(NamedTuple):
    """Prices of operators at clocks."""

    ratio_CO: FloatArray  # Clock of each operator relative to the clock of its candidate (C, O)
    families: tuple[PricedOperators, ...]  # Prices with the kernels of each family (F)

    def fastest(self) -> PricedOperators:
        """Return the prices of the fastest family of each entry."""
        return _fastest(self.families)


def _fastest(priced: Sequence[PricedOperators]) -> PricedOperators:
    """Return the prices of the fastest kernel of each operator and candidate.

    Among equally fast kernels, one measured on the device itself is preferred, then the first. The
    fastest is no slower than any other, so its upper end is the minimum of theirs.
    """
    if len(priced) == 1:
        return priced[0]
    time_FCO = np.stack([p.time_s_CO for p in priced])
    own_FCO = np.stack([np.array([*(m.own for m in p.matches), False])[p.match_CO] for p in priced])
    fastest_FCO = time_FCO == time_FCO.min(axis=0)
    chosen = choose(priced, np.argmax(fastest_FCO * (1 + own_FCO), axis=0))
    return with_fields(chosen, high_s_CO=np.min([p.high_s_CO for p in priced], axis=0))
