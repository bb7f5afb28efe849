"""Initial state of a simulation.

Shape legend: N requests, S schedulers of a type (replicas times ranks), R replicas of a type, F of
all types, B token slots of a block, H sequences of a scheduler, C scheduled arrivals, W rows of the
series, K KV blocks of a scheduler, U buckets of its hash table, L KV blocks of the longest request,
H hashes of prompts, T nodes of the router's prefix tree, F replicas of all types, E failures and
recoveries, A history of an autoscaler, V its columns.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.files import large_array, release_pages, unreserved
from perfatlas.quantities import InfeasibleError
from perfatlas.serving import config, state
from perfatlas.serving.engine import CRASH, DRAIN, RETURN
from perfatlas.serving.outcome import GAP_EDGES
from perfatlas.serving.policies import POLICIES, find_policy
from perfatlas.serving.prices import no_energy
from perfatlas.serving.requests import session_of, waiting

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.serving.requests import Requests

    Ints = NDArray[np.int64]


def availability_state(fleet: config.EngineFleet, count: int) -> dict[str, Any]:
    """Return the state of outages and autoscaling, by field of `SimulationState`."""
    availability = fleet.availability
    row_of = np.cumsum([0, *(group.number * group.batches for group in fleet.groups)])
    first_of = np.cumsum([0, *(len(groups) for groups in fleet.pools)])
    pool_P2 = np.array(
        [
            (row_of[first], row_of[first] + sum(group.number for group in groups))
            for first, groups in zip(first_of, fleet.pools, strict=False)
        ],
        np.int64,
    )
    home_F = np.concatenate(
        [
            sum(before.number for before in fleet.groups[:index])
            + np.tile(np.arange(group.number), group.batches)
            for index, group in enumerate(fleet.groups)
        ]
    )
    replica_F = np.zeros(home_F.size, state.REPLICA)
    replica_F["era"] = 1
    for group, row in zip(fleet.groups, row_of, strict=False):  # further batches are no replicas
        replica_F["status"][row + group.number : row + group.number * group.batches] = state.OFF
    for scaler, (first, end) in zip(availability.scalers, pool_P2, strict=False):
        replica_F["status"][first + scaler.initial : end] = state.OFF
    fault_N = np.zeros(count if availability.varies else 0, state.FAULT)
    fault_N["again"] = state.NO_INDEX
    rows = []  # in order of time, recoveries first at equal times
    for outage in availability.outages:
        rows.append((outage.start, DRAIN if outage.drain else CRASH, outage.replica))
        if outage.end != config.FOREVER:
            rows.append((outage.end, RETURN, outage.replica))
    failure_E = np.zeros(len(rows), state.FAILURE_EVENT)
    row_of_replica = np.unique(home_F, return_index=True)[1]
    for e, (time, what, replica) in enumerate(sorted(rows)):
        failure_E[e] = (time, row_of_replica[replica], what)
    return dict(
        replica_F=replica_F,
        pool_P2=pool_P2,
        home_F=home_F,
        door_P=np.zeros(pool_P2.shape[0], state.DOOR),
        varies=availability.varies,
        retries=availability.on_failure == "retry",
        retry_after=availability.retry_after,
        fault_N=fault_N,
        failure_E=failure_E,
        **_scalers(availability.scalers, pool_P2),
    )


def _scalers(scalers: tuple[config.Scaler, ...], pool_P2: Ints) -> dict[str, Any]:
    """Return the initial state of the autoscalers of all pools, empty if there are none."""
    scaler_P = np.zeros(len(scalers), state.SCALER)
    for name in ("low", "queue_only", "period", "stable", "start_up", "target", "tolerance"):
        scaler_P[name] = [getattr(scaler, name) for scaler in scalers]
    scaler_P["first"], scaler_P["end"] = pool_P2[: len(scalers)].T
    scaler_P["due"] = scaler_P["period"]
    syncs = max((-(-scaler.stable // scaler.period) + 1 for scaler in scalers), default=0)
    return {"scaler_P": scaler_P, "advice_PAV": np.zeros((len(scalers), syncs, 2), np.int64)}


FIRST_PAUSE: Final = 1_000_000_000  # ps between rows of a series before it is full
ROWS_AT_A_TIME: Final = 1 << 18  # requests
EDGES_AT_A_TIME: Final = 1 << 10  # whose prompts are compared


def initial_states(
    requests: Requests, fleet: config.EngineFleet, *, concurrency: int, control: config.Control
) -> tuple[state.SimulationState, ...]:
    """Return the initial state of a simulation, one `SimulationState` per engine type.

    Args:
        concurrency: Requests in flight of a closed loop, 0 for an open loop.
    """
    holds: dict[str, Any] = fleet._asdict() | {
        "requests": requests,
        "first_from": config.FIRST_FROM.index(fleet.first_from),
        "routing": config.ROUTINGS.index(fleet.routing)
        if fleet.router is None
        else config.BY_FUNCTION,
        "concurrency": concurrency,
        "coalesce": control.coalesce,
    }
    holds |= _shared_state(requests, fleet, concurrency, control.series_rows)
    sims = []
    first = 0
    for group in fleet.groups:
        sims.append(_group_state(requests, group, holds, first))
        first += group.number * group.batches
    return tuple(sims)


def _group_state(
    requests: Requests, group: config.ReplicaGroup, shared: dict[str, Any], first: int
) -> state.SimulationState:
    """Return the state of one engine type; `first` is the index of its first replica."""
    limits, rows = group.limits, group.number * group.batches
    policy = find_policy(limits.rules, group.role)
    most = limits.max_num_seqs
    if policy.divides_sequences:
        most = max(most // group.batches, 1)
    tokens = 1.0 + float(np.cumprod(limits.acceptance).sum())  # mean per sequence and decode step
    stages = len(group.stage_layers)
    holds = (
        shared
        | {
            "prices": group.prices,
            "energy": no_energy(group.prices) if group.energy is None else group.energy,
            "limits": limits._replace(max_num_seqs=most, acceptance=()),  # `accepted_D` has these
            "policy": POLICIES.index(policy),
            "reserves_blocks": policy.reserves_blocks,
            "foresees_ends": policy.foresees_ends,
            "shares_scheduled": policy.shares_scheduled,
            "reuses_unnamed": policy.reuses_unnamed,
            # transfers hold blocks: the last sequence may be preempted although others can run
            "idle_passes": max(policy.idle_passes, 1 if group.role == "both" else 2),
            "decode_slots": policy.decode_slots(limits.draft_tokens, limits.async_scheduling),
            "stages": stages,
            "chunks_overlap": policy.overlaps_chunks,
            "stage_layers_P": np.array(group.stage_layers, np.int64),
            "stage_free_RP": np.zeros((group.number, stages), np.int64),
            "accepted_D": np.array([int(p * 2**53) for p in limits.acceptance], np.int64),
            "ranks": group.ranks,
            "role": config.ROLES.index(group.role),
            "link_M3": np.array(list(zip(*group.link, strict=True)), np.int64),
            "stream_token": group.stream_token,
            "stream_step": round(group.stream_token * tokens / group.stream_interval),
            "stream_backlog": group.stream_backlog,
            "first_replica": first,
            "replica_R": shared["replica_F"][first : first + rows],
            "end_R": shared["end_F"][first : first + rows],
        }
    )
    holds |= _engine_state(requests, group)
    return state.SimulationState(**{name: holds[name] for name in state.SimulationState._fields})


def _shared_state(
    requests: Requests, fleet: config.EngineFleet, concurrency: int, series_rows: int
) -> dict[str, Any]:
    """Return the initial state shared by all engine types."""
    count = requests.isl_N.shape[0]
    request_N = _request_rows(requests)
    pools = fleet.groups[0].role != "both"
    clock_1 = np.zeros(1, state.CLOCK)
    clock_1["left"] = count
    clock_1["pause"] = FIRST_PAUSE
    rows = [group.number * group.batches for group in fleet.groups]
    group_F = np.repeat(np.arange(len(fleet.groups)), rows)
    available = availability_state(fleet, count)
    travel_N = np.zeros(count if pools else 0, state.TRAVEL)
    for name in ("handed", "arrived", "resumed", "replica"):
        travel_N[name] = state.NO_INDEX
    streams = any(group.stream_token > 0 for group in fleet.groups)
    names = ("came_N", "scheduled_N", "first_token_N", "finished_N", "replica_N")
    zeros = ("preempted_N", "cached_N", "delay_N", "lost_N")
    # untouched pages of these take no memory
    results = {name: large_array(count, np.int64, fill=state.NO_INDEX) for name in names}
    results |= {name: large_array(count, np.int64) for name in zeros}
    return dict(
        request_N=request_N,
        **results,
        loss_N=large_array(count, state.LOSS),
        read_N=large_array(count if fleet.read_token > 0 else 0, np.int64, fill=state.NO_INDEX),
        late_first_N=large_array(count if streams else 0, np.int64),
        late_last_N=large_array(count if streams else 0, np.int64),
        free_F=np.zeros(fleet.readers, np.int64),
        **available,
        end_F=np.full(group_F.shape[0], state.NEVER, np.int64),
        group_F=group_F,
        ready_F=np.zeros(group_F.shape[0], np.int64),
        travel_N=travel_N,
        **_arrivals(
            requests,
            concurrency,
            request_N,
            clock_1,
            pools or fleet.availability.varies or fleet.read_token > 0,
        ),
        clock_1=clock_1,
        **_tree(requests, fleet),
        loaded_N=np.zeros(
            count if any(group.limits.offloads for group in fleet.groups) else 0, state.LOADED
        ),
        series_WV=np.zeros((series_rows, 6), np.int64),
        edges_G=GAP_EDGES.copy(),
        gaps_G=np.zeros(GAP_EDGES.shape[0], np.int64),
    )


def _tree(requests: Requests, fleet: config.EngineFleet) -> dict[str, Any]:
    """Return the router's prefix tree, empty if it has none."""
    node_H = node_tail_N = np.zeros(0, np.int32)
    nodes = 0
    if fleet.routing == "prefix_aware":
        hash_H = np.append(requests.hash_H, requests.tail_N)
        named, place_H = np.unique(hash_H, return_inverse=True)
        node_H, nodes = place_H.astype(np.int32), named.size
        node_H, node_tail_N = np.split(node_H, [requests.hash_H.size])
    entries = sum(group.number for group in fleet.groups if group.role != "decode")
    return {
        "node_H": node_H,
        "node_tail_N": node_tail_N,
        "owner_T": np.full(nodes, state.NO_INDEX, np.int32),
        "got_TF": np.zeros((nodes, entries), np.int32),
    }


def _engine_state(requests: Requests, group: config.ReplicaGroup) -> dict[str, Any]:
    """Return the initial state of one engine type."""
    limits, schedulers = group.limits, group.number * group.batches * group.ranks
    scheduler_S = np.zeros(schedulers, state.SCHEDULER)
    owners = group.number * group.ranks  # schedulers with a cache: those of first batches
    scheduler_S["free"][:owners] = limits.kv_blocks
    scheduler_S["spare"][:owners] = limits.kv_blocks
    scheduler_S["ratio"] = limits.new_token_ratio
    for name in ("waiting_head", "waiting_tail", "running_tail", "partial", "unread_head"):
        scheduler_S[name] = state.NO_INDEX
    for name in ("unnamed_head", "free_head", "free_tail"):
        scheduler_S[name] = state.NO_INDEX
    named_size = limits.block_size if limits.prefix_caching else 0
    pipeline_limits = limits._replace(max_num_seqs=limits.max_num_seqs * group.batches)
    named = _named_blocks(requests, pipeline_limits, scheduler_S[:owners], group.role != "both")
    return dict(
        scheduler_S=scheduler_S,
        link_S=np.zeros(schedulers, np.int64),
        blank_1=scheduler_S[:1].copy(),
        growth_SB=np.zeros((schedulers, limits.block_size), np.int64),
        growers_SB=np.full((schedulers, named_size), state.NO_INDEX, "i4, i4").view(state.ENDS),
        finishing_SH=np.zeros((schedulers, limits.max_num_seqs), state.NODE),
        leaving_SH=np.zeros((schedulers, limits.max_num_seqs), np.int32),
        learning_SH=np.zeros((schedulers, limits.max_num_seqs), np.int32),
        **named,
        **_offload_state(requests, limits, owners),
    )


def _offload_state(
    requests: Requests, limits: config.SchedulerLimits, schedulers: int
) -> dict[str, Any]:
    """Return the tiers of all schedulers, by field of `SimulationState`; empty if there are none.

    A tier is limited to the number of blocks of all requests.
    """
    every = int(((requests.isl_N + requests.osl_N) // limits.block_size).sum())
    capacities = [
        min(blocks, every)
        for blocks in (limits.host_blocks, limits.ssd_blocks, limits.remote_blocks)
    ]
    capacity_W = np.array([*capacities[:2] * schedulers, capacities[2]])
    buckets_W = np.array([1 << blocks.bit_length() for blocks in capacity_W.tolist()])
    tier_W = np.zeros(capacity_W.size, state.TIER)
    tier_W["newest"] = tier_W["oldest"] = state.NO_INDEX
    tier_W["capacity"], tier_W["mask"] = capacity_W, buckets_W - 1
    tier_W["first"], tier_W["bucket"] = (
        np.cumsum(sizes_W) - sizes_W for sizes_W in (capacity_W, buckets_W)
    )
    try:  # untouched pages take no memory
        tier_block_K = np.zeros(int(capacity_W.sum()), state.TIER_BLOCK)
        tier_bucket_U = np.zeros(int(buckets_W.sum()), np.int32)
    except MemoryError as error:
        need = int(capacity_W.sum()) * (state.TIER_BLOCK.itemsize + 4)
        raise InfeasibleError(
            f"the tables of {schedulers} schedulers with up to {max(capacities):,} offloaded KV"
            f" blocks need {need / 2**30:.0f} GiB",
            advice=("simulate fewer replicas, fewer requests or larger blocks",),
        ) from error
    return {
        "offloads": limits.offloads,
        "tier_W": tier_W,
        "tier_block_K": tier_block_K,
        "tier_bucket_U": tier_bucket_U,
    }


def _named_blocks(
    requests: Requests,
    limits: config.SchedulerLimits,
    scheduler_S: state.Rows,
    travels: bool,  # noqa: FBT001
) -> dict[str, state.Rows]:
    """Return the tables of the prefix cache, empty without prefix caching."""
    schedulers = scheduler_S.shape[0]
    blocks, rows, longest = 0, 0, 0
    if limits.prefix_caching:
        blocks, rows, size = limits.kv_blocks, 2 * limits.max_num_seqs, limits.block_size
        drafts = 2 * (1 + limits.draft_tokens) if limits.draft_tokens else 0  # slots of two steps
        tokens = int((requests.isl_N + requests.osl_N).max(initial=0)) + drafts
        longest = min(-(-tokens // size), blocks)
    if not limits.async_scheduling:  # sequences leave before others start
        rows //= 2
    if travels and rows:  # requests in transfer hold blocks too
        rows += min(blocks, requests.isl_N.shape[0])
    try:  # only pages touched by the longest request of a row take memory
        table_SHL = unreserved((schedulers, rows, longest), np.int32)
    except MemoryError as error:
        raise InfeasibleError(
            f"prefix caching for {schedulers} schedulers of {rows} sequences with up to {longest} "
            f"KV blocks each needs a table of {4 * schedulers * rows * longest / 2**30:.0f} GiB",
            advice=("simulate fewer replicas or a lower max_num_seqs",),
        ) from error
    # untouched pages take no memory
    each = -(-(requests.isl_N + requests.osl_N) // limits.block_size)
    buckets = 1 << max(blocks, 1).bit_length()
    needed = schedulers * min(blocks, int(each.sum())) * (state.BLOCK.itemsize + 4096)
    needed = min(
        needed, schedulers * (blocks * state.BLOCK.itemsize + buckets * state.ENDS.itemsize)
    )
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > there:
        raise InfeasibleError(
            f"the prefix caches of {schedulers:,} schedulers of {blocks:,} blocks each need tables"
            f" of {needed / 2**30:,.0f} GiB; this machine has {there / 2**30:,.0f} GiB:",
            advice=("simulate fewer replicas, fewer kv_blocks, or disable prefix caching",),
        )
    scheduler_S["spare_rows"] = rows
    return {
        "block_SK": np.zeros((schedulers, blocks), state.BLOCK),
        "bucket_SU": np.zeros((schedulers, buckets), "i4, i4").view(state.ENDS),
        "table_SHL": table_SHL,
        "spare_SH": np.tile(np.arange(rows, dtype=np.int32)[::-1], (schedulers, 1)),
        "cached_L": np.zeros(longest, np.int32),
    }


def _arrivals(
    requests: Requests,
    concurrency: int,
    request_N: state.Rows,
    clock_1: state.Rows,
    again: bool,  # noqa: FBT001 - whether requests may be retried
) -> dict[str, Any]:
    """Return dependencies of requests, and the heap of arrivals with those of a closed loop."""
    count = requests.isl_N.shape[0]
    held = _links(requests, concurrency)
    session_S = held["session_S"]
    roots = np.arange(min(concurrency, count))
    clock_1["next"] = roots.size
    if session_S.shape[0]:
        sessions = min(concurrency, session_S.shape[0] - 1)
        roots = held["root_E"][: session_S["root"][sessions]]
        roots = roots[np.lexsort((roots, requests.arrival_N[roots]))]
        clock_1["next"] = sessions
    coming_C = np.zeros(max(count if again or held["linked"] else roots.size, 1), state.NODE)
    coming_C["key"][: roots.size] = requests.arrival_N[roots]
    coming_C["tie"][: roots.size] = roots
    coming_C["item"][: roots.size] = roots
    request_N["heap_slot"][roots] = np.arange(roots.size)
    clock_1["coming"] = roots.size
    return held | {"coming_C": coming_C}


def _links(requests: Requests, concurrency: int) -> dict[str, Any]:
    """Return which requests wait for which and, in a closed loop, the sessions."""
    count, after_E = requests.isl_N.shape[0], requests.after_E
    none = np.zeros(0, np.int64)
    held: dict[str, Any] = {"successor_E": none, "root_E": none, "linked": after_E.size > 0}
    session_N = np.zeros(0, np.int64)
    if concurrency and (requests.session_N >= 0).any():
        session_N = session_of(requests)
        held["linked"] = True
    turn_N = np.zeros(count if held["linked"] else 0, state.TURN)
    held["successor_first_N"] = np.zeros(turn_N.size + 1, np.int64)
    session_S = np.zeros(0, state.SESSION)
    if held["linked"]:
        turn_N["open"] = np.diff(requests.after_first_N)
        held["successor_first_N"][1:] = np.cumsum(np.bincount(after_E, minlength=count))
        held["successor_E"] = waiting(requests)[np.argsort(after_E, kind="stable")]
    if session_N.size:
        turn_N["session"] = session_N
        session_S = np.zeros(int(session_N.max()) + 2, state.SESSION)
        session_S["left"][:-1] = np.bincount(session_N)
        roots = np.flatnonzero(requests.pause_N < 0)
        held["root_E"] = roots[np.argsort(session_N[roots], kind="stable")]
        session_S["root"] = np.searchsorted(
            session_N[held["root_E"]], np.arange(session_S.shape[0])
        )
    return held | {"turn_N": turn_N, "session_S": session_S}


def _request_rows(requests: Requests) -> state.Rows:
    """Return the initial rows of all requests (N,)."""
    request_N = large_array(requests.isl_N.shape[0], state.REQUEST)
    for first in range(0, request_N.shape[0], ROWS_AT_A_TIME):
        some = slice(first, first + ROWS_AT_A_TIME)
        request_N["next_turn_prefix_owner"][some] = state.NO_INDEX
        request_N["isl"][some] = requests.isl_N[some]
        request_N["osl"][some] = requests.osl_N[some]
        release_pages(request_N)
    if requests.after_E.size:
        before_E, turn_E = requests.after_E, waiting(requests)
        holds = _begins_with_answer(requests, before_E, turn_E)
        # the first of several: assigned last
        request_N["next_turn_prefix_owner"][before_E[holds][::-1]] = turn_E[holds][::-1]
    return request_N


def _begins_with_answer(requests: Requests, before_E: Ints, turn_E: Ints) -> NDArray[np.bool_]:
    """Return which prompts start with prompt and output of a request they wait for (E,).

    This holds if they are long enough and all full blocks of the earlier prompt have the same
    hashes, as a hash identifies all tokens up to its block.
    """
    size, isl_N, first_N = requests.hash_block, requests.isl_N, requests.hash_first_N
    holds_E = isl_N[turn_E] >= isl_N[before_E] + requests.osl_N[before_E]
    if size < 1:
        return np.zeros_like(holds_E)
    holds_E &= (first_N[turn_E] >= 0) & (first_N[before_E] >= 0)
    compared = np.flatnonzero(holds_E & (first_N[turn_E] != first_N[before_E]))
    full_N = isl_N // size
    for start in range(0, compared.size, EDGES_AT_A_TIME):
        some = compared[start : start + EDGES_AT_A_TIME]
        full = full_N[before_E[some]]
        within_H = np.arange(full.sum()) - np.repeat(np.cumsum(full) - full, full)
        old_H = requests.hash_H[np.repeat(first_N[before_E[some]], full) + within_H]
        new_H = requests.hash_H[np.repeat(first_N[turn_E[some]], full) + within_H]
        edge_H = np.repeat(np.arange(full.size), full)
        holds_E[some] = np.bincount(edge_H, old_H != new_H, minlength=full.size) == 0
    return holds_E
