"""Whether latencies meet the SLOs of a search: of one sample, or of a steady state."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.quantities import significant, two_digits
from perfatlas.sampling import Precision, batch_precision

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from perfatlas.scenario.fields import Traffic
    from perfatlas.serving.outcome import Latencies

REJECTED: Final = "requests that need more KV cache than available are rejected"
NORMAL: Final = 1.645  # standard deviations of the half-width of a 90% interval


class SloCheck(NamedTuple):
    """A statistic of a steady state beside its SLO.

    A percentile is within its SLO where the share of requests that meet the SLO is at least as
    large. The share is a mean and has a confidence interval from batches; percentiles of latencies
    that take few values, as steps do, have none.
    """

    name: str
    statistic: str  # "mean" or a percentile such as "p95"
    slo_s: float  # The SLO [s]
    value_s: float  # The statistic [s]
    # SLO - mean [s], or share that meets the SLO - percentile/100, with the half-width of its 90%
    # confidence interval
    reserve: Precision

    @property
    def is_met(self) -> bool:
        """Whether the statistic is within the SLO with 95% confidence."""
        return self.reserve.value - self.reserve.half_width >= 0.0

    @property
    def is_missed(self) -> bool:
        """Whether the statistic is above the SLO with 95% confidence."""
        return self.reserve.value + self.reserve.half_width < 0.0

    @property
    def excess(self) -> float:
        """Half-width over the distance from the SLO; above 1 neither is known."""
        return self.reserve.relative

    @property
    def text(self) -> str:
        """The statistic, its precision and its side of the SLO, a clause."""
        side = "within" if self.reserve.value >= 0.0 else "above"
        margin, half_width = self.reserve
        if self.statistic == "mean":
            value = f"{significant(self.value_s, 4)} ± {two_digits(half_width)}"
            return f"mean {self.name} is {value}, {side} the SLO of {self.slo_s:g}"
        share = float(self.statistic[1:]) + 100.0 * margin
        return (
            f"{self.statistic} {self.name} is {significant(self.value_s, 4)}, {side} the SLO of"
            f" {self.slo_s:g},"
            f" which {share:.4g} ± {two_digits(100.0 * half_width)}% of the requests meet"
        )


def slo_checks(latencies: Latencies, traffic: Traffic, replicas: int) -> list[SloCheck]:
    """Return the statistic of each metric that has an SLO, and that requests have."""
    statistic, percentile = _statistic_name(traffic), traffic.slo_percentile
    values = slo_statistics(latencies, traffic)
    checks = []
    for name, slo_s, values_N in _with_values(latencies, traffic):
        if percentile is None:
            reserve = batch_precision(slo_s - values_N)
        else:
            reserve = _share_reserve(values_N <= slo_s, percentile / 100.0, latencies, replicas)
        checks.append(SloCheck(name, statistic, slo_s, values[name], reserve))
    return checks


def _share_reserve(
    meets_N: NDArray[np.bool_], target_share: float, latencies: Latencies, replicas: int
) -> Precision:
    """Return by how much the share of requests that meet an SLO exceeds a share, with precision.

    Requests that miss an SLO come in clusters, when a replica is busy, and a run may have seen too
    few. The variance from batches is therefore scaled to the share that is asked for, and is no
    smaller than that of clusters of the requests in flight on a replica.
    """
    share, half_width = batch_precision(meets_N.astype(np.float64))
    expected, seen = target_share * (1.0 - target_share), share * (1.0 - share)
    if share > target_share and seen:
        half_width *= math.sqrt(max(expected / seen, 1.0))
    span_s = float(latencies.arrival_s[-1] - latencies.arrival_s[0])
    per_s = latencies.arrival_s.size / span_s if span_s else math.inf
    together = max(per_s * float(latencies.request_latency_s.mean()) / replicas, 1.0)
    least = NORMAL * math.sqrt(expected * together / meets_N.size)
    return Precision(share - target_share, max(half_width, least))


def slo_statistics(latencies: Latencies, traffic: Traffic) -> dict[str, float]:
    """Return the selected statistic of each metric that has an SLO, over all requests [s]."""
    percentile = traffic.slo_percentile
    return {
        name: float(known_N.mean() if percentile is None else np.percentile(known_N, percentile))
        for name, _, known_N in _with_values(latencies, traffic)
    }


def missed_slos(traffic: Traffic, values: Mapping[str, float]) -> str:
    """Return which statistics are above their SLO, "" if none is.

    Args:
        values: Statistics by metric [s].
    """
    statistic = _statistic_name(traffic)
    statements = [
        f"{statistic} {name} is {significant(values[name], 4)}, above the SLO of {most:g}"
        for name, most in traffic.objectives().items()
        if values.get(name, 0.0) > most
    ]
    return "; ".join(statements)


def checks_text(checks: Sequence[SloCheck]) -> str:
    """Return the checks that decide: the missed ones, else those that are not met, else all."""
    missed = [check for check in checks if check.is_missed]
    open_ = [check for check in checks if not check.is_met]
    return "; ".join(slo_check.text for slo_check in missed or open_ or checks)


def _statistic_name(traffic: Traffic) -> str:
    percentile = traffic.slo_percentile
    return "mean" if percentile is None else f"p{percentile:g}"


def _with_values(
    latencies: Latencies, traffic: Traffic
) -> Iterator[tuple[str, float, NDArray[np.float64]]]:
    """Yield metrics that have an SLO with its limit and the finite values, if there are any."""
    for name, slo_s in traffic.objectives().items():
        values_N = getattr(latencies, name)
        known_N = values_N[np.isfinite(values_N)]
        if known_N.size:
            yield name, slo_s, known_N
