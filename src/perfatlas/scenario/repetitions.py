"""Results of one scenario simulated with several seeds: their mean, and how sure it is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CONFIDENCE: Final = 0.9
SUFFIX: Final = "_seed_half_width"


def averaged(repeated: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the mean of results over seeds; a flag is set where it is in any of them.

    Args:
        repeated: Results by name, one mapping per seed; names that one lacks are left out.

    Example:
        >>> from perfatlas.scenario.repetitions import averaged
        >>> averaged([{"steps": 2, "ttft_s": {"mean": 1.0}}, {"steps": 4, "ttft_s": {"mean": 2.0}}])
        {'steps': 3.0, 'ttft_s': {'mean': 1.5}}
    """
    names = [name for name in repeated[0] if all(name in one for one in repeated)]
    return {name: _mean([one[name] for one in repeated]) for name in names}


def _mean(values: Sequence[Any]) -> Any:  # noqa: ANN401 - a number, a flag or a mapping of numbers
    first = values[0]
    if isinstance(first, dict):
        return averaged(values)
    if any(value is None for value in values):
        return None
    if isinstance(first, bool):
        return any(values)
    if all(value == first for value in values):
        return first
    return math.fsum(values) / len(values)


def half_widths(
    repeated: Sequence[Mapping[str, Any]],
) -> dict[str, dict[str, float | None]]:
    """Return the half-widths of 90 % confidence intervals of distributions over seeds.

    By Student's t over the statistics of each seed, so of their mean: draws of arrivals and
    lengths, not errors of prices.

    Args:
        repeated: Results by name, one mapping per seed, at least two.

    Returns:
        Of every distribution `x`, by `x_seed_half_width`: half-width by statistic, None where a
        seed has no value.
    """
    from scipy.special import stdtrit

    degrees = len(repeated) - 1
    factor = float(stdtrit(degrees, 0.5 + CONFIDENCE / 2.0)) / math.sqrt(len(repeated))

    def half_width(values: Sequence[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            return None
        middle = math.fsum(known) / len(known)
        squares = math.fsum((value - middle) ** 2 for value in known)
        return factor * math.sqrt(squares / degrees)

    return {
        f"{name}{SUFFIX}": {key: half_width([one[name][key] for one in repeated]) for key in first}
        for name, first in repeated[0].items()
        if isinstance(first, dict) and "p99" in first
    }
