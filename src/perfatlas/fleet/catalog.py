"""Published failure rates and durations: what was counted, interval, source and evidence."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal

from perfatlas.fleet.laws import Exponential
from perfatlas.fleet.model import Cause
from perfatlas.quantities import InvalidSpecError, did_you_mean
from perfatlas.telemetry.rates import exact_rate_interval

Evidence = Literal["read", "note", "hearsay", "derived"]
DAY_S = 86400.0


@dataclass(frozen=True, kw_only=True)
class PublishedRate:
    """How often something fails, as somebody published it.

    Args:
        name: In this catalog.
        component: What fails, of the kinds of a fleet.
        of: One of what the rate is for: node, gpu, link, switch, job.
        per_day: Rate [1/d].
        low_per_day: Lower end of a 95 % interval, or of the published range [1/d]; None if unknown.
        high_per_day: Upper end [1/d].
        rate_kind: What was counted as a failure.
        source: Where it was published.
        evidence: "read" in the source, from public reading "note"s of it, "hearsay", or "derived".
        note: What to beware of.
    """

    name: str
    component: str
    of: str
    per_day: float
    low_per_day: float | None
    high_per_day: float | None
    rate_kind: str
    source: str
    evidence: Evidence
    note: str = ""

    @property
    def mean_s(self) -> float:
        """Mean time between failures of one [s]."""
        return DAY_S / self.per_day


@dataclass(frozen=True, kw_only=True)
class PublishedDuration:
    """How long something takes, as somebody published it.

    Args:
        name: In this catalog.
        what: Detection, restart or repair of what.
        low_s: Lower end, or the only value [s].
        high_s: Upper end, or the only value [s].
        source: Where it was published.
        evidence: As of a rate.
        note: What to beware of.
    """

    name: str
    what: str
    low_s: float
    high_s: float
    source: str
    evidence: Evidence
    note: str = ""


@cache
def published_rates() -> dict[str, PublishedRate]:
    """Return all rates of the catalog by name."""
    return {str(entry["name"]): _rate(entry) for entry in _shipped()["rate"]}


@cache
def published_durations() -> dict[str, PublishedDuration]:
    """Return all durations of the catalog by name."""
    entries = [PublishedDuration(**entry) for entry in _shipped()["duration"]]  # type: ignore[arg-type]
    return {entry.name: entry for entry in entries}


def find_rate(name: str) -> PublishedRate:
    """Return a rate of the catalog.

    Args:
        name: Its name.

    Raises:
        InvalidSpecError: There is none of that name.

    Example:
        >>> from perfatlas.fleet.catalog import find_rate
        >>> find_rate("rsc1_node").per_day
        0.0065
    """
    rates = published_rates()
    if name not in rates:
        raise InvalidSpecError(
            f"unknown failure rate {name[:80]!r}{did_you_mean(name[:80], rates)} Known: "
            f"{', '.join(rates)}"
        )
    return rates[name]


def find_duration(name: str) -> PublishedDuration:
    """Return a duration of the catalog.

    Args:
        name: Its name.

    Raises:
        InvalidSpecError: There is none of that name.
    """
    durations = published_durations()
    if name not in durations:
        raise InvalidSpecError(
            f"unknown duration {name[:80]!r}{did_you_mean(name[:80], durations)} Known: "
            f"{', '.join(durations)}"
        )
    return durations[name]


def published_cause(name: str, *, gpus_per_unit: int = 8, **fields: Any) -> Cause:  # noqa: ANN401
    """Return a cause that fails at a rate of the catalog, without memory.

    A rate of a node counts once per unit, one of a GPU as often as a unit has GPUs, one of a job
    once for all of it; what stops a job as a whole takes no unit out.

    Args:
        name: Of the rate.
        gpus_per_unit: GPUs of a unit.
        fields: Further fields of the cause.

    Raises:
        InvalidSpecError: There is no such rate, or it is of a link or switch, of which a unit has
            no known number: give per_unit.

    Example:
        >>> from perfatlas.fleet.catalog import published_cause
        >>> cause = published_cause("llama3_gpu")
        >>> print(f"{cause.per_unit:g} x {86400 / cause.lifetime.mean_s:.3g} per day")
        8 x 0.000167 per day
    """
    rate = find_rate(name)
    parts: dict[str, dict[str, Any]] = {
        "node": {"per_unit": 1.0},
        "gpu": {"per_unit": float(gpus_per_unit)},
        "job": {"shared": 1.0, "takes": "nothing", "loses": "process"},
    }
    if rate.of not in parts and "per_unit" not in fields:
        raise InvalidSpecError(
            f"{name} is a rate per {rate.of}: give per_unit, how many a unit has"
        )
    given = parts.get(rate.of, {}) | fields
    return Cause(name=name, lifetime=Exponential(mean_s=rate.mean_s), **given)


@cache
def _shipped() -> dict[str, list[dict[str, object]]]:
    text = resources.files("perfatlas").joinpath("data/fleet/rates.toml").read_text("utf-8")
    found: dict[str, list[dict[str, object]]] = tomllib.loads(text)
    return found


def _rate(entry: dict[str, object]) -> PublishedRate:
    """Return a rate; one that was published as a count gets its exact interval."""
    fields = dict(entry)
    events, days = fields.pop("events", None), fields.pop("exposure_days", None)
    fields.setdefault("low_per_day", None)
    fields.setdefault("high_per_day", None)
    if isinstance(events, int) and isinstance(days, int | float):
        fields["per_day"] = events / days
        fields["low_per_day"], fields["high_per_day"] = exact_rate_interval(events, float(days))
    return PublishedRate(**fields)  # type: ignore[arg-type]
