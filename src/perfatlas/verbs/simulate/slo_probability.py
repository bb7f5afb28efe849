"""The probability that a deployment of some size meets its SLOs, by the interval of step times.

All steps are slower or faster than predicted together. The probability that a size meets the SLOs
is that of step times no longer than the longest with which it does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.scenario.deployments import prices_at
from perfatlas.verbs.simulate.judged_sizes import judge

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.scenario.deployments import StepScale
    from perfatlas.verbs.simulate.judged_sizes import Size, SizeSearch

PROBABLE: Final = 0.8  # the default of a search for deployments
HIGHEST: Final = 0.999
BISECTIONS: Final = 4


def slo_probability(
    search: SizeSearch, size: Size, ends: Mapping[str, tuple[StepScale, ...]]
) -> float:
    """Return the probability that a size meets the SLOs.

    Args:
        search: The search that found it: it meets them at the predicted step times.
        size: The size.
        ends: Scales of step times at the ends of their 90% interval, of which it has the upper one.

    Raises:
        KeyboardInterrupt: The search was stopped.

    Limits: At least 0.5 and at most `HIGHEST`; from below, to 0.02.
    """

    def meets(probability: float) -> bool:
        moved = search.at_prices(prices_at(ends, probability))
        met = judge(moved, size).verdict == "met"
        search.tried = moved.tried
        return met

    low, high = (PROBABLE, HIGHEST) if meets(PROBABLE) else (0.5, PROBABLE)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if meets(middle) else (low, middle)
    return low
