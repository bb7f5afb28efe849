"""Published failure rates and durations: what was counted, interval, source and evidence."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal

from perfatlas.fleet.laws import Exponential
from perfatlas.fleet.model.model import Cause
from perfatlas.quantities import InvalidSpecError, resolve_name
from perfatlas.sampling import exact_rate_interval

Evidence = Literal["read", "note", "hearsay", "derived"]
DAY_S = 86400.0


@dataclass(frozen=True, kw_only=True)
class PublishedRate:
    """How often something fails, as somebody published it.

    Args:
        name: In this catalog.
        component: What fails, of the kinds of a fleet.
        of: One of what the rate is for: node, gpu, link, switch, job; "unknown" where its source
            does not tell, and nothing can be computed from it.
        per_day: Rate [1/d].
        low_per_day: Lower end of a 95 % interval, or of the published range [1/d]; None if unknown.
        high_per_day: Upper end [1/d].
        rate_kind: What was counted as a failure.
        source: Where it was published.
        evidence: "read" in the source, from public reading "note"s of it, "hearsay", or "derived".
        note: What to beware of.
        gpus_per_node: GPUs of the node that a rate per node was counted on; None where unknown.
        job_gpus: GPUs of the job that a rate per job was counted on; None where unknown.
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
    gpus_per_node: int | None = None
    job_gpus: int | None = None

    @property
    def mean_s(self) -> float:
        """Mean time between failures of one [s]."""
        return DAY_S / self.per_day

    def ones_in(self, gpus: float) -> float:
        """Return how many of what the rate is for so many GPUs are.

        Nodes are counted by their GPUs: 16 GPUs are two nodes of 8, in whatever nodes they sit. A
        rate per job goes with its GPUs: a job of half the size fails half as often.

        Args:
            gpus: Of a job, or of a unit of a fleet.

        Raises:
            InvalidSpecError: The rate is of something that GPUs do not tell, or of a node or job
                whose size its source does not say.

        Source: assumption for jobs. What interrupted running jobs of RSC-1, software included, goes
            with their size: 0.021 a node-day on 8 GPUs, 0.024 on 1,024 (arXiv 2410.21680).

        Example:
            >>> from perfatlas.fleet.model import find_rate
            >>> find_rate("llama3_host").ones_in(72), find_rate("llama3_software").ones_in(8192)
            (9.0, 0.5)
        """
        size = {"gpu": 1, "node": self.gpus_per_node, "job": self.job_gpus}.get(self.of)
        if size is not None:
            return gpus / size
        if self.of == "unknown":
            why = f"of what is not known ({self.note})"
        elif self.of in ("node", "job"):
            why = f"of a {self.of} whose GPUs its source does not say"
        else:
            why = f"of a {self.of}, and GPUs do not tell how many there are"
        raise InvalidSpecError(f"{self.name} is a rate {why}")

    @property
    def scaling(self) -> str:
        """How a rate goes with GPUs where that is not plain, "" otherwise."""
        if self.of == "job" and self.job_gpus:
            return f"{self.name}, of a job of {self.job_gpus:,} GPUs, goes with the job's GPUs"
        if self.of == "node" and self.gpus_per_node:
            return f"{self.name} is of nodes of {self.gpus_per_node} GPUs, counted by GPUs"
        return ""


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
        >>> from perfatlas.fleet.model import find_rate
        >>> find_rate("rsc1_node").per_day
        0.0065
    """
    lists = "`perfatlas catalog rates` lists all"
    rates = published_rates()
    return rates[resolve_name(name, rates, what="failure rate", lists=lists, shorten=False)]


def find_duration(name: str) -> PublishedDuration:
    """Return a duration of the catalog.

    Args:
        name: Its name.

    Raises:
        InvalidSpecError: There is none of that name.
    """
    lists = "`perfatlas catalog durations` lists all"
    durations = published_durations()
    return durations[resolve_name(name, durations, what="duration", lists=lists, shorten=False)]


def published_cause(name: str, *, gpus_per_unit: int = 8, **fields: Any) -> Cause:  # noqa: ANN401
    """Return a cause that fails at a rate of the catalog, without memory.

    A unit holds as many of what the rate is for as its GPUs are: a rate of nodes of 8 counts nine
    times in a unit of 72. What stops a job as a whole takes no unit out and goes with the GPUs of
    the job.

    Args:
        name: Of the rate.
        gpus_per_unit: GPUs of a unit.
        fields: Further fields of the cause; per_unit or shared say how many there are instead.

    Raises:
        InvalidSpecError: There is no such rate, nothing says what it is of, or GPUs do not tell how
            many of that a unit has: give per_unit, or shared.

    Example:
        >>> from perfatlas.fleet.model.catalog import published_cause
        >>> cause = published_cause("llama3_gpu")
        >>> print(f"{cause.per_unit:g} x {86400 / cause.lifetime.mean_s:.3g} per day")
        8 x 0.000167 per day
    """
    rate = find_rate(name)
    given: dict[str, Any] = {"takes": "nothing", "loses": "process"} if rate.of == "job" else {}
    if rate.of == "unknown" or not ("per_unit" in fields or "shared" in fields):
        try:
            given["per_unit"] = rate.ones_in(gpus_per_unit)
        except InvalidSpecError as problem:
            if rate.of == "unknown":
                raise
            asked = (
                "shared = 1 for all of the job"
                if rate.of == "job"
                else "per_unit, how many a unit has"
            )
            raise InvalidSpecError(f"{problem}: give {asked}") from problem
    return Cause(name=rate.name, lifetime=Exponential(mean_s=rate.mean_s), **(given | fields))


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
