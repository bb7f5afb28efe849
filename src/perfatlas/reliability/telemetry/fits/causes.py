"""Ranking of failure causes: counts, shares, downtime, and confidence in the order."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import betainc
from scipy.stats import beta

from perfatlas.quantities import InvalidSpecError, counted
from perfatlas.reliability.telemetry.history import FAILURE
from perfatlas.sampling import JEFFREYS, RatePosterior, rate_posterior

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.reliability.telemetry.history import History


class CauseRow(NamedTuple):
    """One cause.

    Args:
        component: Failed component.
        events: Number of events.
        units: Number of distinct units.
        share: Share of all events.
        share_low: Lower end of the interval of the share.
        share_high: Upper end.
        rate: Events per unit of exposure.
        down_s: Total time from events to recovery [s], over events with a recorded recovery.
        recoveries: Events with a recorded recovery.
        above_next: Probability that its rate exceeds that of the next row; NaN in the last.
    """

    component: str
    cause: str
    events: int
    units: int
    share: float
    share_low: float
    share_high: float
    rate: RatePosterior
    down_s: float
    recoveries: int
    above_next: float


def rank_causes(
    history: History,
    exposure_s: float,
    *,
    kinds: Sequence[str] = (FAILURE,),
    level: float = 0.95,
) -> tuple[CauseRow, ...]:
    """Return the causes of failures, the most frequent first.

    Args:
        exposure_s: Unit-time of observation [s], the same for all causes.
        kinds: Kinds of events that count as failures. The choice changes rates severalfold: state
            it with the result.
        level: Confidence level of the intervals.

    Raises:
        InvalidSpecError: There is no event of these kinds.

    Source: shares and rates with Jeffreys' priors, Beta(1/2 + n, 1/2 + rest), Gamma(1/2 + n, T);
        for two Gamma rates with equal exposure the share of the first is Beta distributed.
    """
    counted_E = history.kind.is_any(kinds)
    total = int(np.count_nonzero(counted_E))
    if not total:
        found = ", ".join(sorted(set(history.kind.text()))) or "the history is empty"
        raise InvalidSpecError(
            f"no event of kind {', '.join(kinds)} among {counted(history.size, 'event')}: {found};"
            " kinds (--kinds) selects which count as failures"
        )
    groups: dict[tuple[str, str], list[int]] = {}
    component, cause, units = history.component.text(), history.cause.text(), history.units()
    for event in np.flatnonzero(counted_E).tolist():
        groups.setdefault((component[event], cause[event]), []).append(event)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    length_E = history.recovered_s_E - history.start_s_E
    rows = []
    for place, ((what, why), events) in enumerate(ordered):
        count = len(events)
        after = len(ordered[place + 1][1]) if place + 1 < len(ordered) else None
        tail = 0.5 - 0.5 * level
        share_low, share_high = beta.ppf([tail, 1.0 - tail], 0.5 + count, 0.5 + total - count)
        told_s = length_E[events][np.isfinite(length_E[events])]
        rows.append(
            CauseRow(
                component=what,
                cause=why,
                events=count,
                units=len({units[event] for event in events}),
                share=count / total,
                share_low=float(share_low),
                share_high=float(share_high),
                rate=rate_posterior(count, exposure_s, level=level),
                down_s=float(told_s.sum()),
                recoveries=int(told_s.size),
                above_next=_above(count, after),
            )
        )
    return tuple(rows)


def _above(events: int, others: int | None) -> float:
    """Return the probability that one rate exceeds another with the same exposure."""
    if others is None:
        return float("nan")
    prior = JEFFREYS[0]
    return float(1.0 - betainc(events + prior, others + prior, 0.5))
