"""Published pairs predicted from the pairs of other families, or of other models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.quantization import EXTRAPOLATED, PERPLEXITY, evaluations_of, support
from validation.accuracy.fit import fitted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.operators import FloatArray
    from perfatlas.quantization import Pair

NORMAL_95: Final = 1.6449
RESAMPLES: Final = 2000
MIN_PER_FOLD: Final = 2  # families, models or pairs that a split or a spread needs


class Scored(NamedTuple):
    """A pair predicted from others."""

    pair: Pair  # The pair
    left_out: str  # Family or model that the fit did not see
    # Ends and median of the 90% interval, in the unit of the change
    ends: tuple[float, float, float]
    # Ends of the interval of mean and spread, None without pairs of the format
    simple: tuple[float, float] | None
    extrapolated: bool  # Whether no pair of the fit has this format and method
    declined: bool  # Whether the model declines it
    noise: float  # Standard deviation between repeated evaluations

    @property
    def covers(self) -> bool:
        """Whether the published change is in the interval."""
        return self.ends[0] <= self.pair.change <= self.ends[2]


def folds(pairs: Sequence[Pair]) -> dict[str, list[Pair]]:
    """Return the pairs to predict by what is left out.

    A family where another one has a pair of that format and method, else a model.
    """
    families: dict[object, set[str]] = {}
    for pair in pairs:
        families.setdefault(pair.cell, set()).add(pair.family)
    found: dict[str, list[Pair]] = {}
    for one in pairs:
        by_family = len(families[one.cell]) >= MIN_PER_FOLD
        found.setdefault(one.family if by_family else f"model {one.model}", []).append(one)
    return found


def score_fold(name: str, held_out: Sequence[Pair], pairs: Sequence[Pair]) -> list[Scored]:
    """Return the pairs of a fold predicted from all pairs without its family or model."""
    model_name = name.removeprefix("model ")
    by_model = name.startswith("model ")
    seen = [p for p in pairs if (p.model if by_model else p.family) != model_name]
    model, cases = fitted(seen), evaluations_of(list(held_out))
    supported = support(cases, seen, model)
    ends = model.quantiles(cases, np.where(supported.extrapolated, EXTRAPOLATED, 1.0))
    noise = model.repeated_spread(cases)
    return [
        Scored(
            pair,
            name,
            (float(row[0]), float(row[1]), float(row[2])),
            simple_interval(pair, seen),
            bool(supported.extrapolated[at]),
            bool(supported.declined[at]),
            float(noise[at]),
        )
        for at, (pair, row) in enumerate(zip(held_out, ends, strict=True))
    ]


def simple_interval(pair: Pair, seen: Sequence[Pair]) -> tuple[float, float] | None:
    """Return mean and spread of the pairs of a format and method, else of the format."""
    alike = [p for p in seen if (p.benchmark == PERPLEXITY) == (pair.benchmark == PERPLEXITY)]
    for some in (
        [p.change for p in alike if p.cell == pair.cell],
        [p.change for p in alike if p.roundings == pair.roundings],
    ):
        if len(some) >= MIN_PER_FOLD:
            half = NORMAL_95 * float(np.std(some, ddof=1))
            return float(np.mean(some)) - half, float(np.mean(some)) + half
    return None


def covered_by_family(rows: Sequence[Scored]) -> tuple[float, float, float]:
    """Return the covered share, and its 90% interval of families drawn again."""
    families = sorted({row.pair.family for row in rows})
    inside = np.array([sum(r.covers for r in rows if r.pair.family == f) for f in families])
    sizes = np.array([sum(r.pair.family == f for r in rows) for f in families])
    draws = np.random.default_rng(0).integers(0, len(families), (RESAMPLES, len(families)))
    shares: FloatArray = inside[draws].sum(axis=1) / sizes[draws].sum(axis=1)
    low, high = np.quantile(shares, (0.05, 0.95))
    return float(inside.sum() / sizes.sum()), float(low), float(high)
