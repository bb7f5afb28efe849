"""Remarks on a simulation: origin of its interval, and warnings."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.answer import interval_remark, node_notes, pool_node_notes
from perfatlas.inference import unseen_notes
from perfatlas.quantities import two_digits
from perfatlas.scenario.deployments import replica_results
from perfatlas.scenario.deployments.estimate_remarks import (
    SPLIT_ANSWER,
    losses_notes,
    network_notes,
)
from perfatlas.scenario.deployments.step_interval import price_ends
from perfatlas.serving.requests import TICKS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.scenario.deployments.arrivals import ResolvedTraffic
    from perfatlas.scenario.deployments.engine_deployment import Deployment
    from perfatlas.scenario.deployments.services import Service
    from perfatlas.scenario.fields import Traffic
    from perfatlas.serving.outcome import Outcome

DRAWN: Final = (
    "the spread of as many requests with other random arrivals and lengths is added in quadrature"
    " to throughput, makespan and, from 100 requests on, latencies"
)
BUSY: Final = 0.8  # fraction of time front ends are sending above which they delay clients


def interval_note(ready: Service, *, drawn: bool = False) -> list[str]:
    """Return the origin of the interval, one sentence per engine and kind of model.

    Args:
        drawn: Whether the interval holds other draws of arrivals and lengths.
    """
    if not price_ends(ready):
        return []
    notes = dict.fromkeys(interval_remark(pool.question, pool.table) for pool in ready.pools)
    traffic = DRAWN if drawn else "arrivals and lengths are not varied"
    return [f"{note}; {traffic}" for note in notes]


def client_note(ready: Service) -> str:
    """Return the client latency outside the engine, a sentence."""
    profile = ready.entry.question.profile
    engines = {pool.question.profile.name for pool in ready.pools}
    whose = f"; from {profile.id}, for all kinds" if len(engines) > 1 else ""
    return f"{ready.entry.front.note}{whose}"


def seeds_note(traffic: Traffic, whole: int) -> list[str]:
    """Return which results are means over seeds, at most one sentence.

    Args:
        traffic: Gives the first seed and the number of seeds.
        whole: Number of completed simulations.
    """
    if traffic.num_seeds == 1:
        return []
    if whole < 2:
        return [f"results are for seed {traffic.seed} only: no other simulation was completed"]
    last = traffic.seed + whole - 1
    notes = (
        f"results are means over {whole} runs with seeds {traffic.seed} to {last}, and the slowest"
        " 1% of each run have equal weight; half-widths (±) are 90% confidence intervals of the"
        " means; time series, charts, steps and per-request results are for"
        f" seed {traffic.seed}"
    )
    return [notes]


def traffic_warnings(
    ready: Service, resolved: ResolvedTraffic, outcome: Outcome, results: Mapping[str, Any]
) -> list[str]:
    """Return the warnings of a simulation.

    Args:
        outcome: Outcome of the first seed.
        results: Results over all seeds.
    """
    notes = _too_long(ready.decoding, resolved)
    notes += [] if ready.decoding.feed_forward is None else [SPLIT_ANSWER]
    for pool in ready.pools:
        steps = pool.table.prefills, pool.table.decodes
        notes += [text for _, text in losses_notes(pool.question, steps) if text not in notes]
    if results["saturated"] and "stability" not in results:  # otherwise reported from rates
        notes.append(replica_results.saturation_warning(results))
    if results["requests_rejected"]:
        notes += _rejected(ready, resolved, outcome, results)
    notes += _front_ends_hold_back(ready, resolved, outcome)
    notes += replica_results.operation_warnings(results)
    pools = [pool.question for pool in ready.pools]
    if ready.named:
        placed = pool_node_notes(pools, [pool.plan.dp for pool in pools])
    else:
        placed = chain.from_iterable(map(node_notes, pools))
    notes += [text for _, text in placed]
    notes += [text for _, text in network_notes(ready.entry.question)]
    notes += dict.fromkeys(text for pool in pools for _, text in unseen_notes(pool))
    if resolved.partial_N.any() and "sessions_completed" not in results:
        notes.append(
            "no session is simulated from its first to its last request, so that there is no"
            " session_time_s: set session_start = beginning, fewer sessions in flight, or a larger"
            " part of the file"
        )
    if results["interrupted"]:
        notes.append("interrupted: results cover only the part simulated so far")
    return notes


def _front_ends_hold_back(ready: Service, resolved: ResolvedTraffic, outcome: Outcome) -> list[str]:
    """Return a warning if front ends rather than engines delay clients."""
    late_N = outcome.fronted.late_last_N
    done_N = outcome.finished_N >= 0
    if not late_N.size or not done_N.any():
        return []
    ended = int((outcome.finished_N + late_N)[done_N].max())
    spent = ended - int(outcome.arrival_N[done_N].min())
    replica_N = outcome.replica_N
    busiest, first = 0.0, 0
    for pool in ready.pools:
        number = pool.replicas.number
        there_N = done_N & (replica_N >= first) & (replica_N < first + number)
        first += number
        osl_N, replicas = resolved.requests.osl_N[there_N], pool.replicas
        chunks = int((1 + (osl_N - 1) / replicas.stream_interval).sum())
        sent = chunks * replicas.stream_token if replicas.stream_backlog else 0
        busiest = max(busiest, sent / (number * max(spent, 1)))
    if busiest < BUSY:
        return []
    notes = (
        f"front ends send output tokens {100.0 * busiest:.0f}% of the time, and clients wait"
        f" {two_digits(late_N[done_N].mean() / TICKS_PER_SECOND)} s for tokens that engines have"
        " computed: to raise the rate, use a larger stream_interval or more server_processes, not"
        " faster GPUs; whether the wait falls before or after the first token depends on how"
        " requests overlap, and thus on the start of the traffic"
    )
    return [notes]


def _too_long(pool: Deployment, resolved: ResolvedTraffic) -> list[str]:
    """Return a warning if requests exceed the model's context length."""
    longest = pool.question.model.network.max_position_embeddings
    total_N = resolved.requests.isl_N + resolved.requests.osl_N
    above = int((total_N > longest).sum())
    if not longest or not above:
        return []
    one = above == 1
    notes = (
        f"{above:,} request{'' if one else 's'} of up to {total_N.max():,} tokens"
        f" exceed{'s' if one else ''} the model's context length of {longest:,}: an engine rejects"
        f" {'it' if one else 'them'} unless its limit is raised, which is assumed here"
    )
    return [notes]


def _rejected(
    ready: Service, resolved: ResolvedTraffic, outcome: Outcome, results: Mapping[str, Any]
) -> list[str]:
    """Return why requests were rejected: prompts that no step can hold, or too little cache."""
    isl_N = resolved.requests.isl_N[outcome.rejected()]
    limits = [pool.limits for pool in ready.pools if not pool.limits.chunked_prefill]
    budget = min((limit.max_num_batched_tokens for limit in limits), default=None)
    whole = 0 if budget is None else int(np.count_nonzero(isl_N > budget))
    notes = []
    if whole:
        notes.append(
            f"{replica_results.requests_were(whole)} rejected: the prompt exceeds the {budget:,}"
            " tokens of a step (max_num_batched_tokens) and cannot be split (chunked_prefill)"
        )
    if results["requests_rejected"] > whole and ready.entry.router is not None:
        number = replica_results.requests_were(results["requests_rejected"] - whole)
        notes.append(f"{number} rejected by the router, or larger than the KV cache")
    elif results["requests_rejected"] > whole:
        notes.append(
            f"{replica_results.requests_were(results['requests_rejected'] - whole)} rejected: the"
            " KV cache"
            f" ({_capacities(results)}) is too small for prompt and output{_drafted(ready)}"
        )
    return notes


def _drafted(ready: Service) -> str:
    """Return the cache that drafts need in addition, "" without drafts."""
    drafts = ready.decoding.limits.draft_tokens
    if not drafts:
        return ""
    return (
        f" plus {2 * drafts} tokens for speculative decoding: the {drafts} drafts that a step"
        f" verifies and the {drafts} next ones"
    )


def _capacities(results: Mapping[str, Any]) -> str:
    own = f"{results['kv_capacity_tokens']:,} tokens"
    prefill = results.get("prefill_kv_capacity_tokens")
    if prefill is None:
        return own
    return f"{prefill:,} tokens on a prefill worker, {own} on a decode worker"
