"""Uncertainty of the failure rate of a fleet, from the counts of its causes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import parse_duration, two_digits
from perfatlas.reliability.fleet.laws import mean_s
from perfatlas.reliability.fleet.model import cause_rate_per_s, published_rates, read_evidence
from perfatlas.sampling import rate_posterior

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.reliability.fleet.model import Cause, Fleet

NINETY: Final = 0.9  # confidence level of the intervals
# standard errors to either side, as from `standard_errors`, without loading scipy
NORMAL_90: Final = 1.6448536269514722
NORMAL_95: Final = 1.959963984540054
NARROWER: Final = NORMAL_90 / NORMAL_95  # from a 95% to a 90% interval of a normal distribution
WIDEST_NORMAL: Final = 0.9  # relative width above which an interval is not normal
EQUAL_RATES: Final = 1e-6


@dataclass(frozen=True, kw_only=True)
class RateInterval:
    """Uncertainty of the rate of a whole fleet."""

    share: float  # Relative half-width of the 90% interval of the rate; 0 where unknown
    unknown: tuple[str, ...]  # Causes of unknown uncertainty, treated as exact
    scaled: tuple[str, ...] = ()  # How published rates of whole jobs were scaled to this job

    def text(self) -> str:
        """Return it as text."""
        scaled = "".join(f"; {text}, an assumption" for text in self.scaled)
        if not self.share:
            unsure = (
                "the uncertainty of the fleet's failure rates is unknown and not in the interval"
            )
            return unsure + scaled
        rest = f"; treated as exact: {', '.join(self.unknown)}" if self.unknown else ""
        return (
            f"the interval includes the failure rate, ± {two_digits(100.0 * self.share)}% by its"
            f" number of failures{rest}{scaled}"
        )


def rate_interval(fleet: Fleet, units: int, name: str) -> RateInterval:
    """Return the uncertainty of the rate of a fleet.

    Args:
        name: Name or file of the fleet; the evidence of a fitted one is read.

    Raises:
        InvalidSpecError: Its evidence file cannot be read.

    Source: causes are independent, so variances add: each from a quarter of its 95% interval (a
        published rate's, that of the fit, the Gamma posterior's of a count), to a normal interval
        of the sum.

    Limits: too narrow for a sum of very few failures, whose distribution is not normal.
    """
    fitted = {row["name"]: row for row in (read_evidence(name) or {}).get("cause", [])}
    total, variance, unknown = 0.0, 0.0, []
    for cause in fleet.causes:
        per_s = cause_rate_per_s(cause, units)
        width = _relative_width(cause, fitted)
        total += per_s
        if width is None:
            unknown.append(cause.name)
        else:
            variance += (per_s * width / (2.0 * NORMAL_95)) ** 2
    share = min(NORMAL_90 * math.sqrt(variance) / total, WIDEST_NORMAL)
    return RateInterval(share=share, unknown=tuple(unknown), scaled=_scaled(fleet))


def _scaled(fleet: Fleet) -> tuple[str, ...]:
    """Return how rates of whole jobs are scaled to the job of this fleet."""
    rates = [(published_rates().get(cause.name), cause) for cause in fleet.causes]
    return tuple(
        rate.scaling for rate, cause in rates if rate and rate.of == "job" and cause.per_unit
    )


def _relative_width(cause: Cause, fitted: Mapping[str, Any]) -> float | None:
    """Return the 95% interval of a cause's rate, relative to it; None where unknown."""
    mean = mean_s(cause.lifetime)
    published = published_rates().get(cause.name)
    if published is not None and abs(published.mean_s / mean - 1.0) < EQUAL_RATES:
        low, high = published.low_per_day, published.high_per_day
        return None if low is None or high is None else (high - low) / published.per_day
    if cause.events is not None:
        posterior = rate_posterior(cause.events, 1.0)
        return (posterior.high_per_s - posterior.low_per_s) / posterior.mean_per_s
    if cause.name not in fitted:
        return None
    ends = fitted[cause.name]["mean_time_between_interval"]
    field = f"mean_time_between_interval of {cause.name}"
    long, short = (parse_duration(end, field=field) for end in (ends[1], ends[0]))
    middle = parse_duration(fitted[cause.name]["mean_time_between"], field=field)
    return middle / short - middle / long


def scaled_rates(fleet: Fleet, factor: float) -> Fleet:
    """Return a fleet with all failure rates multiplied by a factor, at every age.

    Args:
        factor: Above zero.

    Source: the number of parts is multiplied, with unchanged lifetimes. Scaling lifetimes differs
        where parts age: new parts of Weibull shape 3 with twice the lifetime fail an eighth as
        often.
    """
    causes = tuple(
        replace(cause, per_unit=cause.per_unit * factor, shared=cause.shared * factor)
        for cause in fleet.causes
    )
    return replace(fleet, causes=causes)
