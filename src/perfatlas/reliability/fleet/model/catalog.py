"""Published failure rates and durations, with definition, interval, source and evidence."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from perfatlas.files import shipped_table
from perfatlas.quantities import DAY_S, InvalidSpecError, resolve_name
from perfatlas.reliability.fleet.laws import Exponential
from perfatlas.reliability.fleet.model.model import Cause
from perfatlas.sampling import exact_rate_interval

Evidence = Literal["read", "note", "hearsay", "derived"]


@dataclass(frozen=True, kw_only=True)
class PublishedRate:
    """A published failure rate."""

    name: str  # Name in this catalog
    component: str  # Kind of component that fails
    # Unit of the rate: node, gpu, link, switch or job; "unknown" where its source does not state
    # it, which rules out computations
    of: str
    per_day: float  # Rate [1/d]
    # Lower end of a 95% interval, or of the published range [1/d]; None if unknown
    low_per_day: float | None
    high_per_day: float | None  # Upper end [1/d]
    rate_kind: str  # Events counted as failures
    source: str  # Publication
    # "read" in the source, "note" from public notes of it, "hearsay", or "derived"
    evidence: Evidence
    note: str = ""  # Caveats
    # GPUs per node where the rate per node was measured; None where unknown
    gpus_per_node: int | None = None
    # GPUs of the job where the rate per job was measured; None where unknown
    job_gpus: int | None = None

    @property
    def mean_s(self) -> float:
        """Mean time between failures of one unit of the rate [s]."""
        return DAY_S / self.per_day

    def ones_in(self, gpus: float) -> float:
        """Return the number of units of the rate that a number of GPUs correspond to.

        Nodes are counted by GPUs: 16 GPUs count as two nodes of 8, whatever their actual nodes. A
        rate per job scales with its GPUs: a job of half the size fails half as often.

        Args:
            gpus: GPUs of a job, or of a unit of a fleet.

        Raises:
            InvalidSpecError: The rate does not scale with GPUs, or its source does not state the
                size of the node or job.

        Source: assumption for jobs. Interruptions of running jobs of RSC-1, software included,
            scale with their size: 0.021 a node-day on 8 GPUs, 0.024 on 1,024 (arXiv 2410.21680).

        Example:
            >>> from perfatlas.reliability.fleet.model import find_rate
            >>> find_rate("llama3_host").ones_in(72), find_rate("llama3_software").ones_in(8192)
            (9.0, 0.5)
        """
        size = {"gpu": 1, "node": self.gpus_per_node, "job": self.job_gpus}.get(self.of)
        if size is not None:
            return gpus / size
        if self.of == "unknown":
            why = f"per an unknown unit ({self.note})"
        elif self.of in ("node", "job"):
            why = f"per {self.of}, and its source does not state the GPUs of one"
        else:
            why = f"per {self.of}, and the number of GPUs does not determine how many there are"
        raise InvalidSpecError(f"{self.name} is a rate {why}")

    @property
    def scaling(self) -> str:
        """A note on how the rate scales with GPUs, "" where none is needed."""
        if self.of == "job" and self.job_gpus:
            return f"{self.name}, of a job of {self.job_gpus:,} GPUs, scales with the job's GPUs"
        if self.of == "node" and self.gpus_per_node:
            return f"{self.name} is per node of {self.gpus_per_node} GPUs and scales with GPUs"
        return ""


@dataclass(frozen=True, kw_only=True)
class PublishedDuration:
    """A published duration."""

    name: str  # Name in this catalog
    what: str  # What is detected, restarted or repaired
    low_s: float  # Lower end, or the only value [s]
    high_s: float  # Upper end, or the only value [s]
    source: str  # Publication
    evidence: Evidence  # As for a rate
    note: str = ""  # Caveats


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

    Example:
        >>> from perfatlas.reliability.fleet.model import find_rate
        >>> find_rate("rsc1_node").per_day
        0.0065
    """
    lists = "`perfatlas catalog rates` lists all"
    rates = published_rates()
    return rates[resolve_name(name, rates, what="failure rate", lists=lists, shorten=False)]


def find_duration(name: str) -> PublishedDuration:
    """Return a duration of the catalog."""
    lists = "`perfatlas catalog durations` lists all"
    durations = published_durations()
    return durations[resolve_name(name, durations, what="duration", lists=lists, shorten=False)]


def published_cause(name: str, *, gpus_per_unit: int = 8, **fields: Any) -> Cause:  # noqa: ANN401 - of `Cause`
    """Return a memoryless cause with a rate of the catalog.

    The rate scales with the GPUs of a unit: a rate per node of 8 counts nine times in a unit of 72.
    A rate per job removes no unit and scales with the GPUs of the job.

    Args:
        fields: Further fields of the cause; per_unit or shared override the number.

    Example:
        >>> from perfatlas.reliability.fleet.model.catalog import published_cause
        >>> cause = published_cause("llama3_gpu")
        >>> print(f"{cause.per_unit:g} x {86400 / cause.lifetime.mean_s:.3g} per day")
        8 x 0.000167 per day
    """
    rate = find_rate(name)
    defaults: dict[str, Any] = {"takes": "nothing", "loses": "process"} if rate.of == "job" else {}
    if rate.of == "unknown" or not ("per_unit" in fields or "shared" in fields):
        try:
            defaults["per_unit"] = rate.ones_in(gpus_per_unit)
        except InvalidSpecError as problem:
            if rate.of == "unknown":
                raise
            missing = (
                "shared = 1 for the whole job"
                if rate.of == "job"
                else "per_unit, the number per unit"
            )
            raise InvalidSpecError(f"{problem}: set {missing}") from problem
    return Cause(name=rate.name, lifetime=Exponential(mean_s=rate.mean_s), **(defaults | fields))


@cache
def _shipped() -> dict[str, list[dict[str, object]]]:
    tables: dict[str, list[dict[str, object]]] = shipped_table("data/fleet/rates.toml")
    return tables


def _rate(entry: dict[str, object]) -> PublishedRate:
    """Return a rate; a published count gets its exact interval."""
    fields = dict(entry)
    events, days = fields.pop("events", None), fields.pop("exposure_days", None)
    fields.setdefault("low_per_day", None)
    fields.setdefault("high_per_day", None)
    if isinstance(events, int) and isinstance(days, int | float):
        fields["per_day"] = events / days
        fields["low_per_day"], fields["high_per_day"] = exact_rate_interval(events, float(days))
    return PublishedRate(**fields)  # type: ignore[arg-type]
