"""Interruption rate of a job, its uncertainty and the lost GPU-hours.

Specified in one of three ways: for the job, per node, or by a published rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfatlas import quantities
from perfatlas.reliability.fleet.model import NARROWER, NINETY, PublishedRate, find_rate
from perfatlas.sampling import exact_rate_interval
from perfatlas.scenario.interrupted_jobs.job_fields import SimpleGoodput
from perfatlas.vocabulary.metrics import gpu_hours

if TYPE_CHECKING:
    from perfatlas.reliability.fleet.simulator import JobOutcome


@dataclass(frozen=True, kw_only=True)
class Interruptions:
    """Interruption rate of a job and its uncertainty."""

    mtti_s: float  # Mean time between interruptions [s]
    low_s: float | None  # Lower end of its 90% interval [s]; None where unknown
    high_s: float | None  # Upper end [s]
    source: str  # Origin


def interruptions_of(inputs: SimpleGoodput) -> Interruptions:
    """Return the interruption rate of the job.

    Raises:
        InvalidSpecError: None or several of the ways are used, or gpus is missing.
    """
    ways = {name: getattr(inputs, name) for name in ("mtti_s", "node_mtbf_s", "failure_rate")}
    interruptions = [name for name, value in ways.items() if value is not None]
    if len(interruptions) != 1:
        found = " and ".join(interruptions) or "none"
        raise quantities.InvalidSpecError(
            "expected exactly one of mtti_s (of the job), node_mtbf_s (per node) or failure_rate"
            f" (a published one, such as llama3_node_unexpected); {found} set"
        )
    if inputs.mtti_s is not None:
        return _seen(inputs.mtti_s, inputs, "mtti_s as specified")
    if inputs.node_mtbf_s is not None:
        nodes = nodes_of(inputs)
        return _seen(
            inputs.node_mtbf_s / nodes,
            inputs,
            f"node_mtbf_s over {quantities.counted(nodes, 'node')}",
        )
    rate = find_rate(str(inputs.failure_rate))
    nodes_of(inputs)  # whole nodes
    return _published(rate, inputs, inputs.gpus or 0)


def nodes_of(inputs: SimpleGoodput) -> int:
    """Return the number of whole nodes of the job."""
    if inputs.gpus is None:
        raise quantities.InvalidSpecError(
            "gpus is required: it determines the number of nodes that can fail"
        )
    nodes, rest = divmod(inputs.gpus, inputs.gpus_per_node)
    if rest or not nodes:
        whole = max(nodes, 1) * inputs.gpus_per_node
        raise quantities.InvalidSpecError(
            f"gpus = {inputs.gpus} is not a multiple of {inputs.gpus_per_node} per node: use"
            f" {whole}, or set gpus_per_node"
        )
    return nodes


def _seen(mtti_s: float, inputs: SimpleGoodput, source: str) -> Interruptions:
    """Return an MTTI with its interval from the count of failures."""
    count = inputs.failures_seen
    if count is None:
        return Interruptions(mtti_s=mtti_s, low_s=None, high_s=None, source=source)
    low, high = exact_rate_interval(count, count * mtti_s, level=NINETY)
    return Interruptions(
        mtti_s=mtti_s,
        low_s=1.0 / high,
        high_s=1.0 / low,
        source=f"{source}; interval of a Poisson count of {count:,}",
    )


def _published(rate: PublishedRate, inputs: SimpleGoodput, gpus: int) -> Interruptions:
    try:
        number = rate.ones_in(gpus)
    except quantities.InvalidSpecError as problem:
        raise quantities.InvalidSpecError(
            f"failure_rate = {quantities.repr_for_error(rate.name)}: {problem}; set mtti_s, or use"
            " a fleet file with"
            " the number of parts"
        ) from problem
    mtti_s = rate.mean_s / number
    ends: list[float | None] = [None, None]
    for index, end in enumerate((rate.high_per_day, rate.low_per_day)):
        if end:
            ends[index] = mtti_s * (rate.per_day / end) ** NARROWER
    scaling = f"; {rate.scaling}" if rate.scaling else ""
    counts_nodes = rate.of == "node" and rate.gpus_per_node != inputs.gpus_per_node
    if counts_nodes or inputs.gpus_per_node != SimpleGoodput.fields()["gpus_per_node"].default:
        scaling += f"; gpus_per_node = {inputs.gpus_per_node} does not change it"
    if rate.of == "job":
        scaling += ", an assumption"
    known = "its 95% interval narrowed to 90%" if None not in ends else "not published"
    return Interruptions(
        mtti_s=mtti_s,
        low_s=ends[0],
        high_s=ends[1],
        source=f"{rate.name}, {rate.rate_kind}, {quantities.significant(rate.per_day)} per day per"
        f" {rate.of}"
        f" ({rate.source}; {rate.evidence}); interval: {known}{scaling}",
    )


def frequency(
    inputs: SimpleGoodput, cycle_s: float, interruptions: Interruptions
) -> dict[str, Any]:
    """Return the rate of failures of the job, including restarts.

    Args:
        cycle_s: Mean wall time between two of them [s].
    """
    return {
        "mtti_s": interruptions.mtti_s,
        "mtti_s_low": interruptions.low_s,
        "mtti_s_high": interruptions.high_s,
        "interruptions_per_day": quantities.DAY_S / cycle_s,
        "interruptions": inputs.duration_s / cycle_s,
        "duration_s": inputs.duration_s,
    }


def lost_hours(inputs: SimpleGoodput, share: float) -> dict[str, Any]:
    """Return the lost GPU-hours and their cost, where gpus is set."""
    if inputs.gpus is None:
        return {}
    held = gpu_hours(inputs.gpus * inputs.duration_s)
    found = {"gpu_hours": held, "lost_gpu_hours": (1.0 - share) * held}
    if inputs.usd_per_gpu_hour is not None:
        found["lost_usd"] = found["lost_gpu_hours"] * inputs.usd_per_gpu_hour
    return found


def simple_assumptions(inputs: SimpleGoodput, interruptions: Interruptions) -> list[str]:
    """Return the assumptions of every answer of the simple form."""
    notes = [f"interruptions: {interruptions.source}"]
    if interruptions.low_s is None and inputs.failure_rate is None:
        notes.append(
            "no interval: the number of failures behind the MTTI is unknown; set failures_seen to"
            " include its uncertainty"
        )
    if not inputs.detection_s:
        notes.append("failures are detected at once; set detection_s for a detection time")
    return notes


def bucket_rows(shares: dict[str, float], gpu_s: float | None) -> list[dict[str, Any]]:
    """Return categories of time as rows, the productive one first, then by size.

    Args:
        shares: Share of the time by category.
        gpu_s: GPU-seconds of the job; None where gpus is not set.
    """
    spent = [name for name, share in shares.items() if share or name == "productive"]
    ordered = sorted(spent, key=lambda name: (name != "productive", -shares[name]))
    return [
        {"name": name, "share": shares[name]}
        | ({} if gpu_s is None else {"gpu_hours": gpu_hours(shares[name] * gpu_s)})
        for name in ordered
    ]


def half_width_text(half_width: float, outcome: JobOutcome) -> str:
    """Return how narrow the interval of the mean is, and how narrow it was to be."""
    met = outcome.half_width / outcome.goodput if outcome.goodput else 0.0
    replicas = quantities.counted(outcome.ticks_RF.shape[0], "replica")
    reached = quantities.two_digits(met)
    return f"half_width = {half_width:g} was asked for, {reached} is met with {replicas}"
