"""Remarks on a simulation: origin of its interval, and warnings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.answer import interval_remark
from perfatlas.quantities import remarks, two_digits
from perfatlas.scenario.deployments import replica_results
from perfatlas.scenario.deployments.candidate_remarks import (
    NODES,
    POOLS,
    UNSEEN,
    Remarked,
    TwoPools,
    network_remarks,
)
from perfatlas.scenario.deployments.estimate_remarks import LOSSES, SPLIT_ANSWER
from perfatlas.scenario.deployments.step_interval import price_ends
from perfatlas.serving.requests import TICKS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.quantities import Remark, Remarks
    from perfatlas.scenario.deployments.arrivals import ResolvedTraffic
    from perfatlas.scenario.deployments.services import Service
    from perfatlas.scenario.fields import Traffic
    from perfatlas.serving.outcome import Outcome

DRAWN: Final = (
    "the spread of as many requests with other random arrivals and lengths is added in quadrature"
    " to throughput, makespan and, from 100 requests on, latencies"
)
INTERRUPTED: Final = "interrupted: results cover only the part simulated so far"
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


class Simulated(NamedTuple):
    """A simulation, as remarks read it: a table of one row."""

    ready: Service
    resolved: ResolvedTraffic
    outcome: Outcome  # Of the first seed
    results: Mapping[str, Any]  # Over all seeds


def _too_long(s: Simulated) -> Remarks:
    """Return whether requests exceed the model's context length."""
    longest = s.ready.decoding.question.model.network.max_position_embeddings
    total_N = s.resolved.requests.isl_N + s.resolved.requests.osl_N
    above = int((total_N > longest).sum()) if longest else 0
    one = above == 1
    return (
        above > 0,
        lambda _: (
            f"{above:,} request{'' if one else 's'} of up to {total_N.max():,} tokens"
            f" exceed{'s' if one else ''} the model's context length of {longest:,}: an engine"
            f" rejects {'it' if one else 'them'} unless its limit is raised, which is assumed here"
        ),
    )


def _saturated(s: Simulated) -> Remarks:
    saturated = s.results["saturated"] and "stability" not in s.results  # else told from rates
    return saturated, lambda _: replica_results.saturation_warning(s.results)


def _too_large(s: Simulated) -> tuple[int, int | None]:
    """Return the rejected requests whose prompt no step can hold, and the tokens of a step."""
    isl_N = s.resolved.requests.isl_N[s.outcome.rejected()]
    limits = [pool.limits for pool in s.ready.pools if not pool.limits.chunked_prefill]
    budget = min((limit.max_num_batched_tokens for limit in limits), default=None)
    return 0 if budget is None else int(np.count_nonzero(isl_N > budget)), budget


def _prompts_rejected(s: Simulated) -> Remarks:
    number, budget = _too_large(s) if s.results["requests_rejected"] else (0, None)
    return number > 0, (
        f"{replica_results.requests_were(number)} rejected: the prompt exceeds the {budget or 0:,}"
        " tokens of a step (max_num_batched_tokens) and cannot be split (chunked_prefill)"
    )


def _cache_rejected(s: Simulated) -> Remarks:
    number = s.results["requests_rejected"] and s.results["requests_rejected"] - _too_large(s)[0]
    why = ": the KV cache ({}) is too small for prompt and output{}"
    if s.ready.entry.router is not None:
        why = " by the router, or larger than the KV cache"
    were = f"{replica_results.requests_were(number)} rejected"
    return number > 0, lambda _: were + why.format(_capacities(s.results), _drafted(s.ready))


def _front_ends_hold_back(s: Simulated) -> Remarks:
    """Return whether front ends rather than engines delay clients."""
    outcome, replica_N = s.outcome, s.outcome.replica_N
    late_N, done_N = outcome.fronted.late_last_N, outcome.finished_N >= 0
    if not late_N.size or not done_N.any():
        return False, ""
    ended = int((outcome.finished_N + late_N)[done_N].max())
    spent = ended - int(outcome.arrival_N[done_N].min())
    busiest, first = 0.0, 0
    for pool in s.ready.pools:
        number, replicas = pool.replicas.number, pool.replicas
        there_N = done_N & (replica_N >= first) & (replica_N < first + number)
        first += number
        osl_N = s.resolved.requests.osl_N[there_N]
        chunks = int((1 + (osl_N - 1) / replicas.stream_interval).sum())
        sent = chunks * replicas.stream_token if replicas.stream_backlog else 0
        busiest = max(busiest, sent / (number * max(spent, 1)))
    return busiest >= BUSY, (
        f"front ends send output tokens {100.0 * busiest:.0f}% of the time, and clients wait"
        f" {two_digits(late_N[done_N].mean() / TICKS_PER_SECOND)} s for tokens that engines have"
        " computed: to raise the rate, use a larger stream_interval or more server_processes, not"
        " faster GPUs; whether the wait falls before or after the first token depends on how"
        " requests overlap, and thus on the start of the traffic"
    )


def _lost(s: Simulated) -> Remarks:
    were = replica_results.requests_were(s.results.get("requests_lost", 0))
    lost = f"{were} lost when replicas failed; they meet no SLO and have no latency"
    return bool(s.results.get("requests_lost")), lost


def _unserved(s: Simulated) -> Remarks:
    return bool(s.results.get("requests_unserved")), (
        f"{replica_results.requests_were(s.results.get('requests_unserved', 0))} never served,"
        " because no replica was in service any more; they meet no SLO and have no latency"
    )


def _partial_sessions(s: Simulated) -> Remarks:
    partial = s.resolved.partial_N.any() and "sessions_completed" not in s.results
    return bool(partial), (
        "no session is simulated from its first to its last request, so that there is no"
        " session_time_s: set session_start = beginning, fewer sessions in flight, or a larger"
        " part of the file"
    )


CONTEXT: Final[tuple[Remark, ...]] = (
    _too_long,
    lambda s: (s.ready.decoding.feed_forward is not None, SPLIT_ANSWER),
)
SERVICE: Final[tuple[Remark, ...]] = (
    *(_saturated, _prompts_rejected, _cache_rejected, _front_ends_hold_back, _lost, _unserved),
)
ENDS: Final[tuple[Remark, ...]] = (
    _partial_sessions,
    lambda s: (s.results["interrupted"], INTERRUPTED),
)


def traffic_warnings(
    ready: Service, resolved: ResolvedTraffic, outcome: Outcome, results: Mapping[str, Any]
) -> list[str]:
    """Return the warnings of a simulation.

    Args:
        outcome: Outcome of the first seed.
        results: Results over all seeds.
    """
    simulated = Simulated(ready, resolved, outcome, results)
    pools = [
        Remarked(pool.question, (pool.table.prefills, pool.table.decodes)) for pool in ready.pools
    ]
    placed: list[tuple[Any, Any]] = [(NODES, pool) for pool in pools]
    if ready.named:
        numbers = pools[0].plan.dp, pools[1].plan.dp
        placed = [(POOLS, TwoPools(pools[0], pools[1], numbers))]
    (warnings,) = remarks(
        1,
        (CONTEXT, simulated),
        *((LOSSES, pool) for pool in pools),
        (SERVICE, simulated),
        *placed,
        (network_remarks(pools[0]), pools[0]),
        *((UNSEEN, pool) for pool in pools),
        (ENDS, simulated),
    )
    return list(warnings)


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
