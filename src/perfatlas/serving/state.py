"""All that changes while traffic runs, in arrays that outlive a call of the compiled loop.

Shape legend: N requests, S schedulers (replicas times ranks), R replicas, B places in a cache
block, H sequences of a scheduler, C requests yet to come, W rows of the series and V its columns, K
cache blocks of a scheduler, U buckets of its hash table, L cache blocks of the longest request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfatlas.quantities import InfeasibleError
from perfatlas.serving.heap import NODE
from perfatlas.serving.limits import ROUTINGS, RULES
from perfatlas.serving.outcome import GAP_EDGES

if TYPE_CHECKING:
    from perfatlas.serving.limits import Control, Limits, Replicas
    from perfatlas.serving.prices import StepPrices
    from perfatlas.serving.requests import Requests

NEVER: Final = 2**63 - 1
NOBODY: Final = -1
FIRST_PAUSE: Final = 1_000_000_000  # ps between rows of a series that is not yet full

REQUEST: Final = np.dtype(
    [
        ("finish", "i8"),  # step of its scheduler at whose end it finishes, while it decodes
        ("order", "i4"),  # of admission at its scheduler
        ("joined", "i4"),  # beat of its scheduler in which it began to decode
        ("isl", "i4"),
        ("osl", "i4"),
        ("computed", "i4"),  # tokens in the cache, while its prompt runs
        ("placed", "i4"),  # tokens that have a place there
        ("generated", "i4"),  # output tokens so far, while it does not decode
        ("after", "i4"),  # neighbours in the queue or among the running
        ("before", "i4"),
        ("place", "i4"),  # in its heap
        ("lane", "i4"),  # its scheduler
        ("next_turn", "i4"),  # request that follows its last token
        ("growth_after", "i4"),  # neighbours that need blocks in the same steps
        ("growth_before", "i4"),
        ("row", "i4"),  # of the table of blocks
        ("registered", "i4"),  # leading blocks whose hash is known
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
            "start",  # of the step being scheduled
            "delay",  # sum over steps of what they took beyond decoding alone
            "last_end",  # of the last step in which sequences decoded,
            "paused",  # after which prompts ran without them
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
            "turn",  # of round robin
            "ready",  # replicas that may begin a step
            "rows",  # of the series
            "pause",  # between two of them [ps]
            "due",  # time of the next
            "gap",  # place of the last gap between tokens among the borders
            "late",  # the simulation outran its clock
        )
    ],
    align=True,
)
Rows = NDArray[Any]


class World(NamedTuple):
    """A simulation: what holds throughout, then what changes.

    The first fields are those of `Requests`, `StepPrices`, `Limits` and `Replicas`; rows of the
    others are of the types above.
    """

    arrival_N: NDArray[np.int64]
    think_N: NDArray[np.int64]
    hash_first_N: NDArray[np.int64]
    hash_H: NDArray[np.int64]
    hash_block: int
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
    max_num_seqs: int
    max_num_batched_tokens: int
    block_size: int
    kv_blocks: int
    reserve_full_isl: bool
    prefix_caching: bool
    async_scheduling: bool
    rules: int  # place in RULES
    chunked_prefill: bool
    mixed_chunk: bool
    new_token_ratio: float
    ranks: int
    routing: int  # place in ROUTINGS
    seed: int
    turnaround: int
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
    loss_N: Rows
    lane_S: Rows
    growth_SB: NDArray[np.int64]  # sequences that need a block in a step of the residue
    finishing_SH: Rows
    leaving_SH: NDArray[np.int32]
    learning_SH: NDArray[np.int32]
    replica_R: Rows
    end_R: NDArray[np.int64]
    ready_R: NDArray[np.int64]
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


def build_world(
    requests: Requests,
    prices: StepPrices,
    limits: Limits,
    replicas: Replicas,
    *,
    concurrency: int,
    control: Control,
) -> World:
    """Return a simulation before its first event.

    Args:
        requests: What arrives.
        prices: What a step costs.
        limits: Limits of a scheduler.
        replicas: Engines and their ranks.
        concurrency: Requests in flight of a closed loop, 0 for an open one.
        control: Coalescing and rows of the series.
    """
    holds: dict[str, Any] = requests._asdict() | prices._asdict() | limits._asdict()
    holds |= replicas._asdict()
    holds |= {
        "rules": RULES.index(limits.rules),
        "routing": ROUTINGS.index(replicas.routing),
        "concurrency": concurrency,
        "coalesce": control.coalesce,
    }
    changes = _fresh_state(requests, limits, replicas, concurrency, control.series_rows)
    return World(**{name: holds[name] for name in World._fields if name in holds}, **changes)


def _fresh_state(
    requests: Requests, limits: Limits, replicas: Replicas, concurrency: int, series_rows: int
) -> dict[str, Any]:
    """Return what changes, before the first event."""
    lanes = replicas.number * replicas.ranks
    lane_S = np.zeros(lanes, LANE)
    lane_S["free"] = limits.kv_blocks
    lane_S["spare"] = limits.kv_blocks
    lane_S["ratio"] = limits.new_token_ratio
    for name in ("waiting_head", "waiting_tail", "running_tail", "partial"):
        lane_S[name] = NOBODY
    request_N = _request_rows(requests)
    clock_1 = np.zeros(1, CLOCK)
    clock_1["left"] = requests.isl_N.shape[0]
    clock_1["pause"] = FIRST_PAUSE
    return dict(
        request_N=request_N,
        **_columns(requests.isl_N.shape[0]),
        lane_S=lane_S,
        growth_SB=np.zeros((lanes, limits.block_size), np.int64),
        finishing_SH=np.zeros((lanes, limits.max_num_seqs), NODE),
        leaving_SH=np.zeros((lanes, limits.max_num_seqs), np.int32),
        learning_SH=np.zeros((lanes, limits.max_num_seqs), np.int32),
        replica_R=np.zeros(replicas.number, REPLICA),
        end_R=np.full(replicas.number, NEVER, np.int64),
        ready_R=np.zeros(replicas.number, np.int64),
        coming_C=_first_issued(requests, concurrency, request_N, clock_1),
        clock_1=clock_1,
        series_WV=np.zeros((series_rows, 4), np.int64),
        edges_G=GAP_EDGES.copy(),
        gaps_G=np.zeros(GAP_EDGES.shape[0], np.int64),
        **_named_blocks(requests, limits, lane_S),
    )


def _columns(count: int) -> dict[str, Any]:
    """Return what is kept of every request to its end; a page nobody writes takes no memory."""
    names = ("came_N", "scheduled_N", "first_token_N", "finished_N", "replica_N")
    zeros = ("preempted_N", "cached_N", "delay_N", "lost_N")
    times = {name: np.full(count, NOBODY, np.int64) for name in names}
    sums = {name: np.zeros(count, np.int64) for name in zeros}
    return times | sums | {"loss_N": np.zeros(count, LOSS)}


def _named_blocks(requests: Requests, limits: Limits, lane_S: Rows) -> dict[str, Rows]:
    """Return the tables of named blocks, empty where prefixes are not shared."""
    lanes = lane_S.shape[0]
    blocks, rows, size, longest = 0, 0, 0, 0
    if limits.prefix_caching:
        blocks, rows, size = limits.kv_blocks, 2 * limits.max_num_seqs, limits.block_size
        tokens = int((requests.isl_N + requests.osl_N).max(initial=0))
        longest = min(-(-tokens // size), blocks)
    if not limits.async_scheduling:  # nobody starts before another has left
        rows //= 2
    try:  # only what the longest request of a row has held is ever touched and takes memory
        table_SHL = np.empty((lanes, rows, longest), np.int32)
    except MemoryError as error:
        raise InfeasibleError(
            f"{lanes} schedulers of {rows} sequences with up to {longest} cache blocks each need a "
            f"table of {4 * lanes * rows * longest / 2**30:.0f} GiB to tell shared blocks apart",
            advice=("simulate fewer replicas or a lower max_num_seqs",),
        ) from error
    block_SK = np.zeros((lanes, blocks), BLOCK)
    block_SK["after"] = np.append(np.arange(1, blocks), NOBODY)[:blocks]
    block_SK["before"] = np.arange(-1, blocks - 1)
    lane_S["free_tail"] = blocks - 1
    lane_S["spare_rows"] = rows
    return {
        "block_SK": block_SK,
        "bucket_SU": np.full((lanes, 1 << max(blocks, 1).bit_length()), NOBODY, "i4, i4").view(
            ENDS
        ),
        "growers_SB": np.full((lanes, size), NOBODY, "i4, i4").view(ENDS),
        "table_SHL": table_SHL,
        "spare_SH": np.tile(np.arange(rows, dtype=np.int32)[::-1], (lanes, 1)),
        "found_L": np.zeros(longest, np.int32),
    }


def _first_issued(requests: Requests, concurrency: int, request_N: Rows, clock_1: Rows) -> Rows:
    """Return the heap of arrivals with those a closed loop starts with: sorted, it is a heap."""
    free = np.flatnonzero(requests.think_N < 0)[:concurrency]
    turns = int((requests.think_N >= 0).sum())
    coming_C = np.zeros(max(turns + concurrency, 1), NODE)
    coming_C["key"][: free.size] = requests.arrival_N[free]
    coming_C["tie"][: free.size] = free
    coming_C["item"][: free.size] = free
    request_N["place"][free] = np.arange(free.size)
    clock_1["coming"] = free.size
    clock_1["next"] = free[-1] + 1 if free.size else 0
    return coming_C


def _request_rows(requests: Requests) -> Rows:
    """Return a row for every request, before it arrived (N,)."""
    request_N = np.zeros(requests.isl_N.shape[0], REQUEST)
    request_N["next_turn"] = NOBODY
    request_N["isl"] = requests.isl_N
    request_N["osl"] = requests.osl_N
    turns = np.flatnonzero(requests.think_N >= 0)
    if turns.size:
        order = np.argsort(requests.session_N, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(order.shape[0])
        request_N["next_turn"][order[place[turns] - 1]] = turns
    return request_N
