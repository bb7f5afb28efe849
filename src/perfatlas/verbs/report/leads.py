"""Who leads in a metric, how certain that is, and what prices of chips leave it so."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfatlas.quantities import HOUR_S
from perfatlas.report import text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PRICED: Final = {  # cost -> the rate of a GPU that it divides
    "usd_per_million_output_tokens": "output_tokens_per_s_per_gpu",
    "usd_per_million_tokens": "tokens_per_s_per_gpu",
}
MILLION: Final = 1e6  # tokens
SAME_SHARE: Final = 0.005  # difference that is shown as 0%
SAME_PRICE: Final = 1e-6  # relative difference of one price by two costs


class Scenario(NamedTuple):
    """One of the scenarios that are compared."""

    verb: str
    fields: Mapping[str, Any]  # Resolved fields
    results: Mapping[str, Any]  # Its metrics, flat
    name: str = ""  # What tells it from the others

    @property
    def gpus(self) -> int | None:
        """GPUs of the deployment or of the job, None if they are not stated."""
        return self.results.get("gpus") or self.fields.get("gpus")

    @property
    def gpu_price_usd(self) -> float | None:
        """Price of a GPU-hour that its cost is based on [USD], None without a cost."""
        for cost, rate in PRICED.items():
            if self.results.get(cost) is not None and self.results.get(rate):
                return float(self.results[cost] * self.results[rate] * HOUR_S / MILLION)
        return None


class Lead(NamedTuple):
    """The first two scenarios in a metric."""

    metric: str
    best: Scenario
    second: Scenario
    ends: tuple[float, float] | None  # 90% interval of their ratio, None if it is not known
    is_limit: bool  # Whether one of the values is a limit

    @property
    def ratio(self) -> float:
        """Value of the best over that of the second."""
        return float(self.best.results[self.metric] / self.second.results[self.metric])

    @property
    def is_equal(self) -> bool:
        """Whether the difference is shown as 0%."""
        return abs(self.ratio - 1.0) < SAME_SHARE

    @property
    def is_certain(self) -> bool:
        """Whether the interval is known and excludes 1."""
        low, high = self.ends or (0.0, math.inf)
        return not (self.is_limit or low <= 1.0 <= high)


class Price(NamedTuple):
    """What prices of chips leave the best scenario the cheapest."""

    best: Scenario
    limit: tuple[float, float] | None  # Price of its GPU-hour up to which, and its own [USD]
    unpriced: Sequence[Scenario]  # Scenarios whose prices are not known
    ratios: Sequence[tuple[Scenario, float]]  # Then, price over that of another up to which


def lead_of(metric: str, ranked: Sequence[Scenario]) -> Lead:
    """Return who leads in a metric; the cost of one chip at one price is as certain as its rate.

    Args:
        ranked: Scenarios by the metric, the best first.
    """
    best, second = ranked[:2]
    limits = [text.limits_of(one.results, tier=str(one.results.get("tier"))) for one in ranked[:2]]
    if metric in PRICED and _is_same_chip(best, second):
        ends = text.ratio_interval(second.results, best.results, PRICED[metric])
    else:
        ends = text.ratio_interval(best.results, second.results, metric)
    return Lead(metric, best, second, ends, any(metric in one for one in limits))


def price_of(ranked: Mapping[str, Sequence[Scenario]], rate: str, cost: str) -> Price | None:
    """Return what prices leave the best the cheapest; other scenarios on its chip do not change it.

    Args:
        ranked: Scenarios by metric, the best first.
        rate: Rate and cost that all scenarios have, "" for none.
    """
    priced = next((name for name, one in PRICED.items() if one == rate), None)
    if priced is None or cost not in ("", priced):
        return None
    first = cost or rate
    best, *others = ranked[first]
    rivals = [one for one in others if not _is_same_chip(best, one)]
    rivals = [] if lead_of(first, ranked[first]).is_equal else rivals
    if not cost:
        unpriced = [one for one in ranked[rate] if one.gpu_price_usd is None]
        ratios = [(one, best.results[rate] / one.results[rate]) for one in rivals]
        return Price(best, None, unpriced, ratios) if unpriced else None
    if not rivals or best.gpu_price_usd is None:
        return None
    limit = rivals[0].results[cost] * best.results[rate] * HOUR_S / MILLION
    return Price(best, (limit, best.gpu_price_usd), (), ())


def _is_same_chip(one: Scenario, other: Scenario) -> bool:
    """Return whether two scenarios run on one system at one price, or at none."""
    prices = [each.gpu_price_usd for each in (one, other)]
    same_price = prices[0] == prices[1] or (
        None not in prices and math.isclose(*prices, rel_tol=SAME_PRICE)  # type: ignore[arg-type]
    )
    return same_price and one.fields.get("system") == other.fields.get("system")
