"""Max-min fair rates of flows that share links, by progressive filling in compiled code.

Shape legend: F bundles of flows, E (bundle, link) pairs, L links.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.compiled import entry, part

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray, IntArray

SLACK: Final = 1e-12  # share of a link that counts as none


def max_min_rates(
    start_F: IntArray, link_E: IntArray, flows_E: FloatArray, bandwidth_L: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the rate of each flow of a bundle (F,) [bytes/s], and the use of links (L,) [bytes/s].

    All rates rise together; where a link is full, the bundles on it keep theirs, and the others
    rise on. Flows of a bundle have one rate: that of its slowest, such as the hops of a ring.

    Args:
        start_F: First pair of each bundle, then the number of pairs (F + 1,).
        link_E: Link of each pair (E,).
        flows_E: Flows of the bundle on it (E,).
        bandwidth_L: Bandwidth of the links (L,) [bytes/s].

    Source: Bertsekas and Gallager, Data Networks, 6.5.2.

    Limits: The plateau; DCQCN and credits of InfiniBand take a while to reach it.

    Example:
        >>> import numpy as np
        >>> from perfatlas.collectives.max_min import max_min_rates
        >>> start, link = np.array([0, 2, 3, 4]), np.array([0, 1, 0, 1])
        >>> rates, _ = max_min_rates(start, link, np.ones(4), np.array([10.0, 4.0]))
        >>> rates.tolist()  # the first and the last share the second link
        [2.0, 8.0, 2.0]
    """
    rate_F = np.where(np.diff(start_F) > 0, -1.0, np.inf)
    used_L, demand_L = np.zeros_like(bandwidth_L), np.zeros_like(bandwidth_L)
    _fill(start_F, link_E, flows_E, bandwidth_L, rate_F, used_L, demand_L)
    return rate_F, used_L


@part
def _raised(bandwidth_L: Any, used_L: Any, demand_L: Any) -> float:  # noqa: ANN401 - compiled
    """Raise all rates until the first link is full; return by how much."""
    step, tightest = np.inf, -1
    for link in range(bandwidth_L.shape[0]):
        if demand_L[link] > 0.0:
            room = max(bandwidth_L[link] - used_L[link], 0.0) / demand_L[link]
            if room < step:
                step, tightest = room, link
    for link in range(bandwidth_L.shape[0]):
        used_L[link] += demand_L[link] * step
    used_L[tightest] = bandwidth_L[tightest]
    return step


@entry
def _fill(
    start_F: IntArray,
    link_E: IntArray,
    flows_E: FloatArray,
    bandwidth_L: FloatArray,
    rate_F: FloatArray,
    used_L: FloatArray,
    demand_L: FloatArray,
) -> int:
    """Write the rates of bundles, -1 before, and the use of links; return the number of levels."""
    level, levels, rising = 0.0, 0, 0
    for f in range(rate_F.shape[0]):
        rising += rate_F[f] < 0.0
        for e in range(start_F[f], start_F[f + 1]):
            demand_L[link_E[e]] += flows_E[e]
    while rising > 0:
        level, levels = level + _raised(bandwidth_L, used_L, demand_L), levels + 1
        for f in range(rate_F.shape[0]):
            if rate_F[f] >= 0.0:
                continue
            for e in range(start_F[f], start_F[f + 1]):
                if used_L[link_E[e]] >= bandwidth_L[link_E[e]] * (1.0 - SLACK):
                    rate_F[f] = level
                    break
            if rate_F[f] >= 0.0:
                rising -= 1
                for e in range(start_F[f], start_F[f + 1]):
                    demand_L[link_E[e]] = max(demand_L[link_E[e]] - flows_E[e], 0.0)
    return levels
