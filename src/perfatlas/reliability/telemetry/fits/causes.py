"""Ranking of failure causes: counts, shares, and confidence in the order."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from scipy.special import betainc
from scipy.stats import beta

from perfatlas.quantities import InvalidSpecError, counted
from perfatlas.reliability.telemetry.history import FAILURE
from perfatlas.sampling import JEFFREYS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.reliability.telemetry.history import History


class CauseRow(NamedTuple):
    """One cause."""

    component: str  # Failed component
    cause: str
    events: int  # Number of events
    share: float  # Share of all events
    share_low: float  # Lower end of the interval of the share
    share_high: float  # Upper end
    above_next: float  # Probability that its rate exceeds that of the next row; NaN in the last


def rank_causes(
    history: History, *, kinds: Sequence[str] = (FAILURE,), level: float = 0.95
) -> tuple[CauseRow, ...]:
    """Return the causes of failures, the most frequent first.

    Args:
        kinds: Kinds of events that count as failures. The choice changes rates severalfold: state
            it with the result.
        level: Confidence level of the intervals.

    Raises:
        InvalidSpecError: There is no event of these kinds.

    Source: shares with Jeffreys' prior, Beta(1/2 + n, 1/2 + rest); for two Gamma rates with equal
        exposure the share of the first is Beta distributed.
    """
    counted_E = history.kind.is_any(kinds).tolist()
    total = sum(counted_E)
    if not total:
        others = ", ".join(sorted(set(history.kind.text()))) or "the history is empty"
        raise InvalidSpecError(
            f"no event of kind {', '.join(kinds)} among {counted(history.size, 'event')}: {others};"
            " kinds (--kinds) selects which count as failures"
        )
    named = zip(history.component.text(), history.cause.text(), counted_E, strict=True)
    groups = Counter((component, cause) for component, cause, counts in named if counts)
    ordered = sorted(groups.items(), key=lambda item: (-item[1], item[0]))
    after = [*(count for _, count in ordered[1:]), None]
    tail = 0.5 - 0.5 * level
    rows = []
    for ((component, cause), count), following in zip(ordered, after, strict=True):
        low, high = beta.ppf([tail, 1.0 - tail], 0.5 + count, 0.5 + total - count)
        above = math.nan
        if following is not None:
            above = 1.0 - betainc(count + JEFFREYS[0], following + JEFFREYS[0], 0.5)
        ends = (float(low), float(high), float(above))
        rows.append(CauseRow(component, cause, count, count / total, *ends))
    return tuple(rows)
