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

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from numpy.typing import NDArray

if TYPE_CHECKING:
    import numpy as np

Rows = NDArray[Any]

_SCHEDULER: Final = (
    *("policy", "reserves_blocks", "foresees_ends"),
    *("shares_scheduled", "reuses_unnamed"),
)
# What a simulation has nothing of, its unit does not compile: drafts; and pools, routers, tiers
# below the GPU, shared prefixes, failures and scaling, which come together. 0 stands for nothing.
_FEATURES: Final = (
    ("draft_tokens",),
    ("role", "routing", "offloads", "prefix_caching", "varies"),
)


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
        told = {name: int(getattr(self, name)) for name in _SCHEDULER}
        for group in _FEATURES:
            if not any(getattr(self, name) for name in group):
                told |= dict.fromkeys(group, 0)
        return told
