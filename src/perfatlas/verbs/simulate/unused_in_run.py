"""Remarks on options of a simulation that did not matter, as nothing happened that reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.answer import changes_without_effect, no_effect
from perfatlas.scenario.deployments import closed_form_results
from perfatlas.vocabulary.fields import value_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from perfatlas.scenario.fields import Scenario, Traffic
    from perfatlas.serving.outcome import Outcome

    Ticks = NDArray[np.int64]

_SCALING: Final = (
    *("autoscale_target", "autoscale_metric", "autoscale_period_s", "autoscale_tolerance"),
    *("autoscale_down_after_s", "start_up_s", "min_replicas", "max_replicas"),
)
_ROUTING: Final = ("routing", "cache_threshold", "balance_abs_threshold", "balance_rel_threshold")
HOST_LINK: Final = "device.host_link.bandwidth"  # used only by KV cache offloading, not by steps
_FAILING: Final = ("on_failure", "retry_after_s")
_SSD: Final = ("ssd_cache_bytes", "ssd_bandwidth")


def unused_changes(traffic: Traffic, scenario: Scenario) -> list[str]:
    """Return warnings about system changes without effect on steps or KV cache.

    Args:
        traffic: The traffic.
        scenario: What serves it.
    """
    if traffic.replica_kinds is not None:
        return []
    fields = scenario.model_dump(exclude_unset=True, exclude_none=True)
    if scenario.mode != "disaggregated":
        fields |= {"concurrency": scenario.concurrency or scenario.dp or 1}
    notes = changes_without_effect(closed_form_results, fields)
    offloads = traffic.host_cache_bytes is not None
    return [text for text in notes if not (offloads and text == no_effect(HOST_LINK))]


def unused_in_run(traffic: Traffic, scenario: Scenario, outcome: Outcome) -> list[str]:
    """Return the options that are set and did not matter in a run, as sentences.

    Args:
        traffic: The traffic.
        scenario: What serves it.
        outcome: What happened to its requests.
    """
    found = []
    set_fields = {
        name: getattr(inputs, name)
        for inputs in (traffic, scenario)
        for name in inputs.model_fields_set
    }
    reasons = {
        "without effect on this run": (
            *_idle(traffic, scenario, outcome),
            *_without_choice(set_fields, outcome),
        ),
        "not reached in this run": tuple(_below_limits(set_fields, outcome)),
    }
    for start, pairs in reasons.items():
        for why, names in pairs:
            given = [name for name in names if set_fields.get(name) is not None]
            if given:
                listed = ", ".join(f"{name} = {value_text(set_fields[name])}" for name in given)
                found.append(f"{start}: {listed}; {why}")
    return found


def _idle(
    traffic: Traffic, scenario: Scenario, outcome: Outcome
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield what did not happen, and the options that are read only then."""
    replicas = np.unique(outcome.series.replicas_W)
    held = np.count_nonzero(outcome.operated.held_F)
    same = replicas.size == 1 and held == replicas[0] == (scenario.dp or 1)
    if traffic.max_replicas is not None and same:
        yield "the number of replicas never changes", _SCALING
    if outcome.steps_F.size > 1 and same and replicas[0] == 1:
        yield "one replica serves every request", _ROUTING
    if traffic.replica_events is not None and not outcome.operated.tries_N.any():
        yield "no request is on a replica when it fails", _FAILING
    if traffic.host_cache_bytes is not None and not outcome.offloaded.came_2[0]:
        yield "the host cache never receives a block", ("host_cache_bytes", *_SSD)
    elif traffic.host_cache_bytes is not None and not outcome.offloaded.went_2[0]:
        yield "the host cache never evicts a block", _SSD


def _without_choice(
    set_fields: dict[str, Any], outcome: Outcome
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield what a trace leaves no choice for."""
    count, trace = outcome.arrival_N.size, set_fields.get("requests") is not None
    if trace and count < (set_fields.get("num_requests") or 0):
        yield f"the trace has {count:,} requests", ("num_requests",)
    spreads = trace and set_fields.get("spread_batches") is not None
    if spreads and np.unique(outcome.arrival_N).size == count:
        yield "no two requests of the trace arrive at the same time", ("spread_batches",)


def _below_limits(
    set_fields: dict[str, Any], outcome: Outcome
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the limits that were not reached; memory and capacity may follow them nevertheless."""
    offloaded = outcome.offloaded
    if offloaded.came_2.size and offloaded.came_2[0] and not offloaded.went_2[0]:
        yield "the host cache never evicts a block", ("host_cache_bytes",)
    for name, start_N, does in (
        ("concurrency", outcome.arrival_N, "are in flight"),
        ("max_num_seqs", outcome.scheduled_N, "run"),
    ):
        limit = set_fields.get(name)
        most = _most_at_once(start_N, outcome.finished_N) if limit else 0
        if limit and 0 < most < limit:
            yield f"at most {most:,} {does} at a time", (name,)


def _most_at_once(start_N: Ticks, end_N: Ticks) -> int:
    """Return the most requests between their start and end; 0 if one has no end."""
    if start_N.size == 0 or (end_N < 0).any():
        return 0
    at, change = np.concatenate((start_N, end_N)), np.repeat((1, -1), start_N.size)
    return int(np.cumsum(change[np.lexsort((-change, at))]).max())
