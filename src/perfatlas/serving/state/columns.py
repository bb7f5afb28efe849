"""All that changes while traffic runs, in arrays that outlive a call of the compiled loop.

Engines of one kind are one world. Worlds share their requests, the clock and what is counted.

Shape legend: N requests, R replicas of a kind, F replicas of all kinds, S schedulers of a kind
(replicas times ranks), B places in a cache block, H sequences of a scheduler, C requests yet to
come, W rows of the series and V its columns, K cache blocks of a scheduler, U buckets of its hash
table (both also of the tiers below the GPU), L cache blocks of the longest request, T nodes of the
router's tree of prompts, M pieces of the line of a link, E failures and returns of replicas, A
looks at the load that are remembered.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

NEVER: Final = 2**63 - 1
NOBODY: Final = -1
LOCAL, HANDED, FETCHED, TRAVELLING = range(4)  # stages of a request between two pools
UP, OUT, DRAINING, OFF, STARTING = range(5)  # states of a replica; in UP alone it takes requests
REJECTED, LOST = 1, 2  # fates of a request that does not end

REQUEST: Final = np.dtype(
    [
        ("finish", "i8"),  # step of its scheduler at whose end it finishes, while it decodes
        ("order", "i4"),  # of admission at its scheduler
        ("joined", "i4"),  # beat of its scheduler in which it began to decode
        ("isl", "i4"),
        ("osl", "i4"),
        ("computed", "i4"),  # tokens in the cache, while its prompt runs
        ("gave", "i4"),  # tokens its last decode step gave
        ("placed", "i4"),  # tokens that have a place there
        ("generated", "i4"),  # output tokens so far, while it does not decode
        ("after", "i4"),  # neighbours in the queue or among the running
        ("before", "i4"),
        ("place", "i4"),  # in its heap
        ("lane", "i4"),  # its scheduler
        ("next_turn", "i4"),  # request that follows its last token
        ("heir", "i4"),  # that, where its prompt begins with prompt and output of this
        ("growth_after", "i4"),  # neighbours that need blocks in the same steps
        ("growth_before", "i4"),
        ("row", "i4"),  # of the table of blocks
        ("registered", "i4"),  # leading blocks whose hash is known
        ("kept", "i4"),  # leading blocks found in the tiers below or written to them
    ],
    align=True,
)
LOSS: Final = np.dtype(
    [
        (name, "i8")
        for name in (
            "gone",  # since when a request is thrown out, and one more; 0 where it is not
            "since",  # its last token before that, or when it last began to decode
            "mark",  # its tokens in the cache then
        )
    ],
    align=True,
)
TRAVEL: Final = np.dtype(
    [
        (name, "i8")
        for name in (
            "handed",  # when its prompt had ended,
            "arrived",  # its cache was at the decode engine,
            "resumed",  # and it decoded; -1 before
            "stage",
            "tokens",  # to be fetched
            "home",  # its prefill replica, among all,
            "lane",  # its scheduler there,
            "row",  # and what it holds there
            "placed",
            "registered",
            "replica",  # its decode replica, among all
        )
    ],
    align=True,
)
FAULT: Final = np.dtype(
    [
        (name, "i8")
        for name in (
            "again",  # when it arrived again, its replica having failed; -1 before
            "tries",  # how often that failed
            "fate",  # REJECTED or LOST, or 0
        )
    ],
    align=True,
)
STRIKE: Final = np.dtype([("time", "i8"), ("replica", "i8"), ("what", "i8")], align=True)
SCALER: Final = np.dtype(
    [
        (name, "i8")
        for name in (
            "low",  # replicas
            "queue_only",  # those that run do not count
            "period",  # between two looks [ps]
            "stable",  # how long the most of what was wanted holds [ps]
            "start_up",  # of a replica [ps]
            "due",  # the next look
            "heard",  # looks so far, and one before them
        )
    ]
    + [("target", "f8"), ("tolerance", "f8")],  # requests of a replica, and share of them
    align=True,
)
LANE: Final = np.dtype(
    [
        (name, "i8")
        for name in (
            "step",  # steps since the start
            "free",  # blocks
            "waiting",
            "waiting_head",
            "waiting_tail",
            "running",
            "running_tail",
            "admitted",  # since the start
            "partial",  # request with part of its prompt computed
            "decoding",  # sequences past their prompts
            "context",  # their tokens in the cache
            "heap",  # members of the finish heap
            "fresh",  # of this step: prompts that end in it,
            "chunks",  # pieces of prompts,
            "tokens",  # tokens of those,
            "attention",  # what they add to each other [ps],
            "last",  # what the one to end last takes beyond that [ps],
            "preempted",  # and sequences thrown out
            "free_head",  # blocks in order of their reuse
            "free_tail",
            "spare_rows",  # of the table of blocks
            "spare",  # blocks not promised either, where they are
            "decodes",  # of this step: sequences that decode,
            "keyed",  # their attention [ps]
            "learning",  # sequences whose prompt it computes
            "leaving",  # sequences whose last token the step now running gives
            "beat",  # stretches since the start
            "ran",  # of the last one: sequences that decoded
            "prefilled",  # and pieces of prompts, as decided
            "full",  # nobody is admitted before a sequence has left the batch
            "ended",  # sequences that have ended and not left it
            "decays",  # steps since the ratio was set
            "unread",  # requests that have arrived and are not yet read,
            "unread_head",
            "unread_tail",
            "read",  # step after which requests were read last
            "held",  # steps that prompts have waited for more of them
            "start",  # of the step being scheduled
            "delay",  # sum over steps of what they took beyond decoding alone
            "last_end",  # of the last step in which sequences decoded,
            "paused",  # after which prompts ran without them
            "arrived",  # requests whose caches are there, and who comes first and last of them
            "arrived_head",
            "arrived_tail",
            "away",  # requests that hold blocks for caches, these included
            "joiners",  # of this step: sequences from them
            "ready",  # of those that hold blocks: they wait for a slot alone
            "ready_head",
            "ready_tail",
            "retracted",  # requests whose caches are kept elsewhere until they fit again
            "retracted_head",
            "retracted_tail",
            "moving",  # of this step: what it waits for tiers below the GPU [ps]
        )
    ]
    + [("ratio", "f8")],  # of outputs that are expected
    align=True,
)
REPLICA: Final = np.dtype(
    [
        (name, "i8")
        for name in (
            "start",  # of the steps that run,
            "steps",
            "base",
            "rise",
            "load",
            "ready",
            "next_steps",  # those scheduled to follow them,
            "next_base",
            "next_rise",
            "decided",  # once the last of those that run has begun,
            "stale",  # and whether the queue has changed since
            "extra",  # of a step with prompts: what it takes beyond decoding alone
            "next_extra",
            "busy",  # time that steps have taken [ps],
            "done",  # and how many
            "status",  # UP and so on
            "era",  # how often the router has forgotten what it got
            "doomed",  # it loses what it has when the steps that run end,
            "back",  # and serves again from then on
            "up_at",  # while it starts: when it serves
            "held",  # time in which it served, started or drained [ps]
            "unsent",  # what its front end has to send when a step ends [ps],
            "sent",  # when that was,
            "late",  # and how late a client gets a token of that step [ps]
        )
    ],
    align=True,
)
BLOCK: Final = np.dtype(
    [
        ("key", "i8"),  # its hash, where known
        ("known", "i4"),
        ("references", "i4"),  # requests that hold it
        ("after", "i4"),  # neighbours among the free
        ("before", "i4"),
        ("chain_after", "i4"),  # neighbours in its bucket of the hash table
        ("chain_before", "i4"),
    ],
    align=True,
)
SHELF: Final = np.dtype(  # a block in a tier below the GPU
    [
        ("key", "i8"),
        ("after", "i4"),  # neighbours in order of use, the oldest one first
        ("before", "i4"),
        ("chain_after", "i4"),  # neighbours in its bucket of the hash table
        ("chain_before", "i4"),
    ],
    align=True,
)
STOCK: Final = np.dtype(  # of a tier
    [(name, "i8") for name in ("held", "oldest", "newest", "came", "went", "loaded", "stored")],
    align=True,
)
LOADED: Final = np.dtype(  # of a request: tokens by tier, and the time of its copies [ps]
    [(name, "i8") for name in ("host", "ssd", "moved")], align=True
)
ENDS: Final = np.dtype([("head", "i4"), ("tail", "i4")], align=True)
CLOCK: Final = np.dtype(
    [
        (name, "i8")
        for name in (
            "now",
            "next",  # request not yet issued
            "coming",  # members of the heap of arrivals that others caused
            "left",  # requests neither finished nor rejected
            "steps",
            "preemptions",
            "turn",  # of round robin and of equal loads,
            "decode_turn",  # and among decode engines,
            "reader",  # and among front ends that tokenize
            "ready",  # replicas that may begin a step
            "rows",  # of the series
            "pause",  # between two of them [ps]
            "due",  # time of the next
            "gap",  # place of the last gap between tokens among the borders
            "late",  # the simulation outran its clock
            "strike",  # next failure or return of a replica
            "counted",  # up to when replicas' times are
            "wasted",  # tokens that failing replicas had given
            "door",  # requests that wait for a replica to serve, first and last of them
            "door_head",
            "door_tail",
        )
    ],
    align=True,
)
Rows = NDArray[Any]


# pools, routers, tiers below the GPU, shared prefixes, drafts, failures and scaling: 0 without them
_SCHEDULER: Final = (
    *("policy", "reserves_blocks", "foresees_ends"),
    *("shares_scheduled", "reuses_unnamed", "idle_passes"),
)
_FEATURES: Final = (*("role", "routing", "offloads", "prefix_caching", "draft_tokens", "varies"),)


class World(NamedTuple):
    """Engines of one kind in a simulation: what holds throughout, then what changes.

    The first fields are those of `Requests`, `StepPrices`, `Limits`, `Kind` and `Fleet`; rows of
    the others are of the types above. What names F belongs to all kinds, and R to a part of it.
    """

    arrival_N: NDArray[np.int64]
    think_N: NDArray[np.int64]
    hash_first_N: NDArray[np.int64]
    hash_H: NDArray[np.int64]
    hash_block: int
    osl_N: NDArray[np.int64]
    decode_linear_B: NDArray[np.int64]
    mixed_linear_T: NDArray[np.int64]
    head_B: NDArray[np.int64]
    context_K: NDArray[np.int64]
    decode_base_BK: NDArray[np.int64]
    decode_slope_BK: NDArray[np.int64]
    queries_Q: NDArray[np.int64]
    before_P: NDArray[np.int64]
    prefill_added_QP: NDArray[np.int64]
    prefill_last_QP: NDArray[np.int64]
    host_step: int
    host_sequence: int
    host_prefill: int
    host_overlapped: bool
    tokens_per_decode: int
    max_num_seqs: int
    max_num_batched_tokens: int
    block_size: int
    kv_blocks: int
    reserve_full_isl: bool
    prefix_caching: bool
    async_scheduling: bool
    policy: int  # place in POLICIES
    reserves_blocks: bool  # and facts about it
    foresees_ends: bool
    shares_scheduled: bool
    reuses_unnamed: bool
    idle_passes: int
    chunked_prefill: bool
    mixed_chunk: bool
    new_token_ratio: float
    scheduler_recv_interval: int
    reserved_decode_tokens: int
    batch_wait_timeout_iters: int
    batch_wait_max_tokens: int
    draft_tokens: int
    draft_seed: int
    accepted_D: NDArray[np.int64]  # draws below it accept a draft
    host_blocks: int
    ssd_blocks: int
    host_move: int
    ssd_move: int
    offloads: bool  # there are tiers below the GPU
    ranks: int
    first_replica: int  # its place among all
    entries: int  # replicas of all kinds that requests are sent to
    role: int  # place in ROLES
    link_M3: NDArray[np.int64]  # of a link: from how many tokens on, their time, and each further
    stream_token: int
    stream_step: int  # of a sequence that decodes
    read_token: int
    latency: int
    first_from: int  # place in FIRST_FROM
    routing: int  # place in ROUTINGS
    seed: int
    turnaround: int
    match_share: float
    balance_apart: int
    balance_ratio: float
    varies: bool  # replicas fail, start or stop
    retries: bool
    retry_after: int
    concurrency: int
    coalesce: bool
    request_N: Rows
    came_N: NDArray[np.int64]  # of the outcome
    scheduled_N: NDArray[np.int64]
    first_token_N: NDArray[np.int64]
    finished_N: NDArray[np.int64]
    replica_N: NDArray[np.int64]
    preempted_N: NDArray[np.int64]
    cached_N: NDArray[np.int64]
    delay_N: NDArray[np.int64]  # while a request decodes, less its scheduler's
    lost_N: NDArray[np.int64]
    read_N: NDArray[np.int64]  # empty where front ends take no time to read,
    late_first_N: NDArray[np.int64]  # and these where they take none to send
    late_last_N: NDArray[np.int64]
    free_F: NDArray[np.int64]  # when a front end has read what has come
    loss_N: Rows
    travel_N: Rows  # empty without pools
    fault_N: Rows  # empty where nothing varies, as are the next three
    strike_E: Rows
    scaler_1: Rows
    advice_AV: NDArray[np.int64]  # time and replicas wanted
    blank_1: Rows  # a scheduler at its start
    lane_S: Rows
    growth_SB: NDArray[np.int64]  # sequences that need a block in a step of the residue
    finishing_SH: Rows
    leaving_SH: NDArray[np.int32]
    learning_SH: NDArray[np.int32]
    replica_R: Rows
    replica_F: Rows
    end_R: NDArray[np.int64]
    end_F: NDArray[np.int64]
    kind_F: NDArray[np.int64]
    ready_F: NDArray[np.int64]
    link_S: NDArray[np.int64]  # when the link of a scheduler is free
    node_H: NDArray[np.int32]  # of the router's tree, empty without one,
    owner_T: NDArray[np.int32]  # the replica that stands for it
    got_TF: NDArray[np.int32]  # and the era of each that got it
    coming_C: Rows
    clock_1: Rows
    series_WV: NDArray[np.int64]
    edges_G: NDArray[np.int64]
    gaps_G: NDArray[np.int64]
    block_SK: Rows
    bucket_SU: Rows
    growers_SB: Rows  # the same sequences by name
    table_SHL: NDArray[np.int32]
    spare_SH: NDArray[np.int32]
    found_L: NDArray[np.int32]
    loaded_N: Rows  # empty without tiers below the GPU
    stock_S2: Rows
    shelf_S2K: Rows
    slot_S2U: NDArray[np.int32]  # first block of a bucket, and one more; 0 for none

    def settled(self) -> dict[str, int]:
        """Return the fields for whose values compiled code stands: its scheduler, what it lacks."""
        told = {name: int(getattr(self, name)) for name in _FEATURES}
        own = {name: int(getattr(self, name)) for name in _SCHEDULER}
        return own | ({} if any(told.values()) else told)
