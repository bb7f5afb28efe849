"""Services that run traffic: replicas (of one or several kinds), or prefill and decode pools."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.answer import held_prompts_note
from perfatlas.inference import FIRST_TOKEN, SPLIT_RULES, cache_link_s, fabric_latency_s
from perfatlas.parallelism import cache_borders
from perfatlas.quantities import InfeasibleError, InvalidSpecError, UnsupportedError
from perfatlas.scenario.deployments.engine_deployment import (
    Deployment,
    check_count,
    deployment,
    pages_note,
)
from perfatlas.scenario.fields import Scenario, kind_scenarios
from perfatlas.scenario.resolution import split_pools
from perfatlas.serving.config import Control, EngineFleet, Link, ReplicaGroup
from perfatlas.serving.requests import TICKS_PER_SECOND
from perfatlas.serving.run import run_fleet
from perfatlas.vocabulary.fields import MAX_COUNT, KvOffloading, Pools, fields_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.scenario.deployments.arrivals import ResolvedTraffic
    from perfatlas.scenario.deployments.engine_deployment import Priced
    from perfatlas.scenario.fields import Traffic
    from perfatlas.serving.outcome import ClientDelays, Outcome
    from perfatlas.serving.requests import Requests
    from perfatlas.step import Candidates

POOLS: Final = ("prefill", "decode")
TRANSFER: Final = (
    "a decode worker allocates blocks when a prompt has ended, then fetches its KV cache: each rank"
    " its part over the NICs of its device, one request after the other; both sides hold the blocks"
    " until the transfer ends; nothing is sent during prefill"
)

SHARED_MACHINE: Final = (
    "all replicas of attention step together, as the other machine computes the tokens of all of"
    " them; steps with prompts are not divided into micro-batches"
)

OWN_ROUTER: Final = "requests are routed by a function of the caller, which no command reproduces"

DYNAMIC_BATCHING: Final = (
    "requests of one item wait in the queue of a replica, which runs all that wait, at most"
    " max_num_seqs, in one pass when the pass before has ended: dynamic batching without a delay"
    " (Triton Inference Server, docs/user_guide/batcher.md)"
)


class Handover(NamedTuple):
    """Transfer of the KV cache from prefill to decode workers."""

    links: tuple[Link, ...]  # Transfer time over the NICs of a rank, by pool
    latency: int  # Network latency [ps]
    first_from: str  # Source of the first token, as in `serving.EngineFleet`
    source: str  # Documentation reference of `first_from`


NO_WAY: Final = Handover((Link(),), 0, "prefill", "")


@dataclass(frozen=True, kw_only=True)
class Service:
    """Engines on their devices, ready to simulate requests."""

    # One pool, or those of prefill and decode workers, or the kinds of replicas
    pools: tuple[Deployment, ...]
    handover: Handover = NO_WAY  # KV cache transfer between two pools
    heterogeneous: bool = False  # Whether the pools are kinds of replicas behind one router

    @property
    def entry(self) -> Deployment:
        """The pool that runs prompts; the first of several kinds."""
        return self.pools[0]

    @property
    def decoding(self) -> Deployment:
        """The pool that decodes; the last of several kinds."""
        return self.pools[-1]

    @property
    def named(self) -> dict[str, Deployment]:
        """The two pools by role; empty for one pool or kinds."""
        two = len(self.pools) > 1 and not self.heterogeneous
        return dict(zip(POOLS, self.pools, strict=True)) if two else {}

    @property
    def item(self) -> str:
        """What a request of a graph of operators is, without its size; "" for language models."""
        return self.entry.question.model.network.item.partition(" of ")[0]

    @property
    def gpus(self) -> int:
        """GPUs of all pools."""
        return sum(pool.gpus * int(pool.question.plan.dp[0]) for pool in self.pools)

    @property
    def kv_blocks(self) -> int:
        """Cache blocks of all schedulers."""
        return sum(
            pool.limits.kv_blocks * pool.replicas.ranks * pool.replicas.number
            for pool in self.pools
        )

    @property
    def seen(self) -> ClientDelays:
        """Latency that a client sees in addition to the engine's."""
        return self.entry.seen

    def descriptions(self) -> tuple[str, ...]:
        """Return descriptions of the schedulers and the transfer between them."""
        from perfatlas.serving.policies import policies_named

        rules = policies_named(self.entry.limits.rules)[0].description
        if self.heterogeneous:
            return kinds_notes(self.pools)
        if self.item:
            return (DYNAMIC_BATCHING,)
        cache: tuple[str, ...] = (self.entry.tiers.note,) if self.entry.tiers.note else ()
        cache += pages_note(self.entry)
        split: tuple[str, ...] = (OWN_ROUTER,) if self.entry.router is not None else ()
        split += () if self.decoding.feed_forward is None else (SPLIT_RULES, SHARED_MACHINE)
        if len(self.pools) == 1:
            held = held_prompts_note(self.entry.limits.rank_balance_iters)
            return (rules, *cache, *held, *split)
        own = policies_named(self.decoding.limits.rules)[0].description
        return (
            f"prefill workers: {rules}",
            *((f"decode workers: {own}",) if own != rules else ()),
            *(f"prefill workers: {note}" for note in cache),
            TRANSFER,
            f"{FIRST_TOKEN[self.handover.first_from]} ({self.handover.source})",
            *split,
        )


def service(
    scenario: Scenario, traffic: Traffic, resolved: ResolvedTraffic, known: Priced | None = None
) -> Service:
    """Return the service for the traffic of a scenario, with steps priced for its requests.

    Args:
        scenario: The scenario, in mode aggregated or disaggregated.
        known: Price tables of earlier calls, to reuse and extend.

    Raises:
        InvalidSpecError: A name, value or plan is invalid.
        InfeasibleError: The model and one request do not fit.
        UnsupportedError: No model, data or scheduler for the combination.
    """
    if traffic.replica_kinds is not None:
        return _kinds_service(scenario, traffic, resolved, {} if known is None else known)
    if scenario.mode != "disaggregated":
        return Service(pools=(deployment(scenario, traffic, resolved, known),))
    split = split_pools(scenario)
    # decode workers load nothing from tiers below their GPUs
    of_role = {"prefill": {}, "decode": dict.fromkeys(fields_of(KvOffloading))}
    pools = []
    for role, worker in ((role, getattr(split, role)) for role in POOLS):
        name = f"{role}_workers"
        check_count(name, getattr(scenario, name), worker.attention_dp)
        try:
            pools.append(
                deployment(
                    _pool(scenario, worker, role),
                    traffic.changed(**of_role[role]),
                    resolved,
                    known,
                    most_running=_most_running(scenario, worker, role),
                    pooled=True,
                )
            )
        except InfeasibleError as error:
            raise error.of(f"{role} worker") from None
    return Service(pools=tuple(pools), handover=_handover(pools))


def _kinds_service(
    scenario: Scenario, traffic: Traffic, resolved: ResolvedTraffic, known: Priced
) -> Service:
    """Return replicas of several kinds; the errors of one name it."""
    traffic.availability(None)  # report problems that apply to all kinds first
    for name, given in (
        ("feed_forward_system", scenario.feed_forward_system),
        ("remote_cache_bytes", traffic.remote_cache_bytes),
    ):
        if given is not None:
            raise UnsupportedError(
                f"{name} = {given} with replica_kinds: several kinds of replicas that share another"
                " machine are not simulated; remove one of the two"
            )
    pools = []
    for number, kind_scenario in enumerate(
        kind_scenarios(scenario, traffic.replica_kinds), start=1
    ):
        try:
            pools.append(deployment(kind_scenario, traffic, resolved, known))
        except (InfeasibleError, InvalidSpecError, UnsupportedError) as error:
            raise error.of(f"kind {number} ({kind_scenario.system})") from None
    fronts = {(pool.front.seen, pool.front.read_token) for pool in pools}
    if len(fronts) > 1:
        names = ", ".join(dict.fromkeys(pool.question.profile.id for pool in pools))
        raise UnsupportedError(
            f"replica_kinds: the front ends of {names} have different latencies, but kinds share"
            " one router; set measured_at = engine, or use engines with equal front ends"
        )
    return Service(pools=tuple(pools), heterogeneous=True)


def _pool(scenario: Scenario, worker: Scenario, role: str) -> Scenario:
    """Return the workers of a pool as queueing replicas."""
    changes: dict[str, Any] = {name: Scenario.fields()[name].default for name in fields_of(Pools)}
    if role == "prefill":
        changes["feed_forward_system"] = None
    changes |= {"mode": "aggregated", "batch": None, "dp": getattr(scenario, f"{role}_workers")}
    return worker.changed(**changes)


def _most_running(scenario: Scenario, worker: Scenario, role: str) -> int:
    """Return the maximum sequences per scheduler, from the worker's batch if set."""
    name = f"{role}_batch"
    given = getattr(scenario, name) if name in scenario.fields_set else None
    return MAX_COUNT if given is None else -(-given // worker.attention_dp)


def _handover(pools: list[Deployment]) -> Handover:
    """Return the KV cache transfer between the pools."""
    profile = pools[0].question.profile.disaggregation
    return Handover(
        links=tuple(_link(pool.question) for pool in pools),
        latency=round(float(fabric_latency_s(pools[0].question)[0]) * TICKS_PER_SECOND),
        first_from=profile.first_from,
        source=profile.source,
    )


def _link(question: Candidates) -> Link:
    """Return the transfer time over the NICs of a rank, rounded to whole picoseconds."""
    borders = cache_borders(question.model.network)
    at_s, next_s = (
        cache_link_s(question, np.array(borders, np.float64) + more) for more in (0.0, 1.0)
    )
    times, per_token = (
        tuple(round(each_s * TICKS_PER_SECOND) for each_s in part_s.tolist())
        for part_s in (at_s, next_s - at_s)
    )
    return Link(borders, times, per_token)


def fleet_of(ready: Service) -> EngineFleet:
    """Return the engines of a service and their router."""
    roles = tuple(ready.named) or ("both",) * len(ready.pools)
    links = ready.handover.links if ready.named else (Link(),) * len(ready.pools)
    groups = tuple(
        ReplicaGroup(
            pool.table.prices,
            pool.limits,
            pool.replicas.number,
            pool.replicas.ranks,
            role,
            link,
            pool.replicas.stream_token,
            pool.replicas.stream_interval,
            pool.table.energy,
            pool.replicas.stream_backlog,
            pool.replicas.stage_layers,
        )
        for pool, role, link in zip(ready.pools, roles, links, strict=True)
    )
    replicas = ready.entry.replicas
    entries = ready.pools if ready.heterogeneous else ready.pools[:1]
    scalers = [scaler for pool in ready.pools for scaler in pool.replicas.availability.scalers]
    return EngineFleet(
        groups,
        replicas.routing,
        replicas.seed,
        replicas.turnaround,
        ready.handover.latency,
        ready.handover.first_from,
        replicas.affinity,
        replicas.availability._replace(scalers=tuple(scalers)),
        sum(pool.replicas.number * pool.replicas.readers for pool in entries),
        replicas.read_token,
        ready.entry.router,
    )


def run_traffic(ready: Service, resolved: ResolvedTraffic, control: Control) -> Outcome:
    """Return the outcome of simulated traffic.

    Args:
        control: Interruption and series.
    """
    fleet = fleet_of(ready)
    return run_fleet(resolved.requests, fleet, concurrency=resolved.concurrency, control=control)


def reseeded(ready: Service, seed: int) -> Service:
    """Return a service with another seed for routing and draft acceptance."""
    return replace(
        ready,
        pools=tuple(
            replace(
                pool,
                replicas=pool.replicas._replace(seed=seed),
                limits=pool.limits._replace(draft_seed=seed),
            )
            for pool in ready.pools
        ),
    )


def kinds_notes(pools: Sequence[Deployment]) -> tuple[str, ...]:
    """Return descriptions of the schedulers of all kinds and of their router."""
    from perfatlas.serving.policies import policies_named

    notes = by_holders(
        [
            [policies_named(pool.limits.rules)[0].description, *filter(None, (pool.tiers.note,))]
            for pool in pools
        ]
    )
    count = f"{len(pools)} kinds" if len(pools) > 1 else "1 kind"
    total = sum(pool.replicas.number for pool in pools)
    router = (
        f"{count} of replicas, {total} in all, numbered from 0 kind by kind, behind one router"
        f" ({pools[0].replicas.routing}) that does not consider their speed; a request too large"
        " for one of the kinds is rejected"
    )
    return (*notes, router)


def by_holders(notes: Sequence[Sequence[str]]) -> list[str]:
    """Return the distinct sentences of all kinds; those not common to all name their kinds."""
    holders: dict[str, list[int]] = {}
    for number, sentences in enumerate(notes, start=1):
        for sentence in dict.fromkeys(sentences):
            holders.setdefault(sentence, []).append(number)
    return [
        sentence if len(numbers) == len(notes) else f"{_kind_numbers(numbers)}: {sentence}"
        for sentence, numbers in holders.items()
    ]


def _kind_numbers(numbers: Sequence[int]) -> str:
    *first, last = map(str, numbers)
    return f"kinds {', '.join(first)} and {last}" if first else f"kind {last}"


def holds_all(ready: Service, requests: Requests) -> bool:
    """Return whether every request fits in the caches and in the context of the model."""
    context = ready.entry.question.model.network.max_position_embeddings or np.inf
    try:
        check_room(int(requests.isl_N.max()), int(requests.osl_N.max()), ready)
    except InfeasibleError:
        return False
    return bool((requests.isl_N + requests.osl_N).max() <= context)


def check_room(isl: int, most_osl: int, ready: Service) -> None:
    """Refuse requests that do not fit in the cache, including draft tokens of two steps."""
    for role, pool in (ready.named or {"": ready.entry}).items():
        limits = pool.limits
        osl = 1 if role == "prefill" else most_osl
        tokens = isl + osl - 1 + 2 * limits.draft_tokens
        room = limits.kv_blocks * limits.block_size
        if tokens <= room:
            continue
        drafts = f" and {limits.draft_tokens} draft tokens" if limits.draft_tokens else ""
        where = f"{role} worker: " if role else ""
        raise InfeasibleError(
            f"{where}a request of {isl:,} + {osl:,} tokens{drafts} needs a KV cache of"
            f" {tokens:,} tokens, but it holds {room:,}",
            advice=("use more GPUs, a smaller cache format or shorter requests",),
        )
