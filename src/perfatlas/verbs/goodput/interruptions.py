"""How often a job is interrupted, how sure that is, and what follows for its hours.

Said in one of three ways: for the job, for one of its nodes, or by a published rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfatlas.fleet.model import PublishedRate, find_rate
from perfatlas.quantities import InvalidSpecError, counted, shown
from perfatlas.sampling import exact_rate_interval
from perfatlas.verbs.goodput.question import DAY_S
from perfatlas.verbs.goodput.rate_interval import NARROWER, NINETY
from perfatlas.vocabulary.metrics import gpu_hours

if TYPE_CHECKING:
    from perfatlas.verbs.goodput.question import SimpleGoodput


@dataclass(frozen=True, kw_only=True)
class Interruptions:
    """How often a job is interrupted, and how sure that is.

    Args:
        mtti_s: Mean time between interruptions [s].
        low_s: Lower end of its 90 % interval [s]; None where nothing tells.
        high_s: Upper end [s].
        source: Where it comes from.
    """

    mtti_s: float
    low_s: float | None
    high_s: float | None
    source: str


def interruptions_of(asked: SimpleGoodput) -> Interruptions:
    """Return how often the job is interrupted.

    Args:
        asked: The fields.

    Raises:
        InvalidSpecError: None or several of the ways to say it are given, or gpus is missing.
    """
    ways = {name: getattr(asked, name) for name in ("mtti_s", "node_mtbf_s", "failure_rate")}
    told = [name for name, value in ways.items() if value is not None]
    if len(told) != 1:
        found = " and ".join(told) or "none"
        raise InvalidSpecError(
            f"how often is the job interrupted? {found} given: give one of mtti_s (of the job),"
            " node_mtbf_s (of one node) or failure_rate (a published one, such as"
            " llama3_node_unexpected)"
        )
    if asked.mtti_s is not None:
        return _seen(asked.mtti_s, asked, "mtti_s as given")
    if asked.node_mtbf_s is not None:
        nodes = nodes_of(asked)
        return _seen(asked.node_mtbf_s / nodes, asked, f"node_mtbf_s over {counted(nodes, 'node')}")
    rate = find_rate(str(asked.failure_rate))
    nodes_of(asked)  # whole ones
    return _published(rate, asked, asked.gpus or 0)


def nodes_of(asked: SimpleGoodput) -> int:
    """Return the nodes of the job, whole ones.

    Args:
        asked: The fields.

    Raises:
        InvalidSpecError: gpus is missing or does not fill nodes.
    """
    if asked.gpus is None:
        raise InvalidSpecError("gpus is required: how many nodes can fail follows from it")
    nodes, rest = divmod(asked.gpus, asked.gpus_per_node)
    if rest or not nodes:
        whole = max(nodes, 1) * asked.gpus_per_node
        raise InvalidSpecError(
            f"gpus = {asked.gpus} do not fill nodes of {asked.gpus_per_node}: use {whole}, or say"
            " gpus_per_node"
        )
    return nodes


def _seen(mtti_s: float, asked: SimpleGoodput, source: str) -> Interruptions:
    """Return an MTTI with the interval that a count of failures behind it tells."""
    count = asked.failures_seen
    if count is None:
        return Interruptions(mtti_s=mtti_s, low_s=None, high_s=None, source=source)
    low, high = exact_rate_interval(count, count * mtti_s, level=NINETY)
    return Interruptions(
        mtti_s=mtti_s,
        low_s=1.0 / high,
        high_s=1.0 / low,
        source=f"{source}; its interval is that of a Poisson count of {count:,}",
    )


def _published(rate: PublishedRate, asked: SimpleGoodput, gpus: int) -> Interruptions:
    try:
        number = rate.ones_in(gpus)
    except InvalidSpecError as problem:
        raise InvalidSpecError(
            f"failure_rate = {shown(rate.name)}: {problem}; give mtti_s, or a fleet file that says"
            " how many there are"
        ) from problem
    mtti_s = rate.mean_s / number
    ends: list[float | None] = [None, None]
    for place, end in enumerate((rate.high_per_day, rate.low_per_day)):
        if end:
            ends[place] = mtti_s * (rate.per_day / end) ** NARROWER
    scaling = f"; {rate.scaling}" if rate.scaling else ""
    if rate.of == "node" and rate.gpus_per_node != asked.gpus_per_node:
        scaling += f", not by the nodes of {asked.gpus_per_node} here"
    if rate.of == "job":
        scaling += ", an assumption"
    known = "its 95 % interval narrowed to 90 %" if None not in ends else "published without one"
    return Interruptions(
        mtti_s=mtti_s,
        low_s=ends[0],
        high_s=ends[1],
        source=f"{rate.name}, {rate.rate_kind}, {rate.per_day:.3g} a day per {rate.of}"
        f" ({rate.source}; {rate.evidence}); interval: {known}{scaling}",
    )


def frequency(asked: SimpleGoodput, cycle_s: float, told: Interruptions) -> dict[str, Any]:
    """Return how often failures hit the job, in a restart too.

    Args:
        asked: The fields.
        cycle_s: Mean wall time between two of them [s].
        told: The interruptions.
    """
    return {
        "mtti_s": told.mtti_s,
        "mtti_s_low": told.low_s,
        "mtti_s_high": told.high_s,
        "interruptions_per_day": DAY_S / cycle_s,
        "interruptions": asked.duration_s / cycle_s,
        "duration_s": asked.duration_s,
    }


def lost_hours(asked: SimpleGoodput, share: float) -> dict[str, Any]:
    """Return the GPU-hours that were not productive, and what they cost, where gpus is given.

    Args:
        asked: The fields.
        share: Goodput.
    """
    if asked.gpus is None:
        return {}
    held = gpu_hours(asked.gpus * asked.duration_s)
    found = {"gpu_hours": held, "lost_gpu_hours": (1.0 - share) * held}
    if asked.usd_per_gpu_hour is not None:
        found["lost_usd"] = found["lost_gpu_hours"] * asked.usd_per_gpu_hour
    return found


def standing(asked: SimpleGoodput, told: Interruptions) -> list[str]:
    """Return what every answer of the simple form assumes.

    Args:
        asked: The fields.
        told: The interruptions.
    """
    said = [f"interruptions: {told.source}"]
    if told.low_s is None and asked.failure_rate is None:
        said.append(
            "no interval of the MTTI is known; failures_seen, the count it was read from, gives one"
        )
    if not asked.detection_s:
        said.append("a failure is noticed at once; detection_s says how long it takes")
    return said


def bucket_rows(shares: dict[str, float], gpu_s: float | None) -> list[dict[str, Any]]:
    """Return buckets in which time was spent as rows, the productive one first, then the largest.

    Args:
        shares: Share of the time by bucket.
        gpu_s: GPU-seconds of the job; None where gpus is not given.
    """
    spent = [name for name, share in shares.items() if share or name == "productive"]
    ordered = sorted(spent, key=lambda name: (name != "productive", -shares[name]))
    return [
        {"name": name, "share": shares[name]}
        | ({} if gpu_s is None else {"gpu_hours": gpu_hours(shares[name] * gpu_s)})
        for name in ordered
    ]
