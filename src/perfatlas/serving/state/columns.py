"""The state of a simulation, in arrays that persist between calls of the compiled loop.

Engines of one type form one `SimulationState`. They share requests, clock and counters.

Shape legend: N requests, R replicas of a type, F replicas of all types, S schedulers of a type
(replicas times ranks), B token slots of a block, H sequences of a scheduler, C scheduled arrivals,
W rows of the series and V its columns, K KV blocks of a scheduler, U buckets of its hash table
(both also of the tiers below the GPU), L KV blocks of the longest request, T nodes of the router's
prefix tree, M pieces of a link, P pipeline stages, or pools, E failures and recoveries of replicas
and pairs of requests that wait, A history of an autoscaler. With pipeline stages, R and F have a
row for each batch in flight.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from numpy.typing import NDArray

if TYPE_CHECKING:
    import numpy as np

    from perfatlas.serving.config import Affinity, SchedulerLimits
    from perfatlas.serving.prices import EnergyPrices, StepPrices
    from perfatlas.serving.requests import Requests

Rows = NDArray[Any]

_SCHEDULER: Final = (
    *("policy", "reserves_blocks", "foresees_ends"),
    *("shares_scheduled", "reuses_unnamed"),
)
# Features that a simulation does not use are not compiled: speculative decoding; pipeline stages;
# and, as one group, pools, routers, tiers below the GPU, prefix caching, outages, autoscaling and
# sessions.
# 0 means unused.
_FEATURES: Final = (
    ("limits.draft_tokens",),
    ("stages",),
    ("role", "routing", "offloads", "limits.prefix_caching", "varies", "linked"),
)


class SimulationState(NamedTuple):
    """Engines of one type in a simulation: first constants, then variable state.

    The row types are in `rows`. Arrays with shape F are shared by all types; those with R are
    slices.
    """

    requests: Requests
    prices: StepPrices
    energy: EnergyPrices  # zero without energies
    limits: SchedulerLimits  # for each batch in flight with pipeline stages
    affinity: Affinity
    policy: int  # index in POLICIES
    reserves_blocks: bool  # its properties
    foresees_ends: bool
    shares_scheduled: bool
    reuses_unnamed: bool
    idle_passes: int
    decode_slots: int  # of a decoding sequence, from its last computed token on
    accepted_D: NDArray[np.int64]  # draws below this accept a draft
    offloads: bool  # whether there are tiers below the GPU
    ranks: int
    stages: int  # of the pipeline, 0 for one: rows of replicas, then those of further batches
    chunks_overlap: bool  # whether a batch starts a chunk while the one before it is in flight
    stage_layers_P: NDArray[np.int64]
    first_replica: int  # index among all
    pool_P2: NDArray[np.int64]  # first replica of a pool among all, and the end
    home_F: NDArray[np.int64]  # replica of a batch in flight, as results number it
    role: int  # index in ROLES
    link_M3: NDArray[np.int64]  # pieces of a link: first token, its time, time per further token
    stream_token: int
    stream_step: int  # per decoding sequence
    stream_backlog: bool  # whether tokens wait for those of earlier steps
    read_token: int
    latency: int
    first_from: int  # index in FIRST_FROM
    routing: int  # index in ROUTINGS
    seed: int
    turnaround: int
    varies: bool  # with outages or autoscaling
    retries: bool
    retry_after: int
    concurrency: int  # sessions, or requests without one, in flight in a closed loop
    linked: bool  # whether requests belong to sessions that matter for their arrival
    coalesce: bool
    request_N: Rows
    came_N: NDArray[np.int64]  # results
    scheduled_N: NDArray[np.int64]
    first_token_N: NDArray[np.int64]
    finished_N: NDArray[np.int64]
    replica_N: NDArray[np.int64]
    preempted_N: NDArray[np.int64]
    cached_N: NDArray[np.int64]
    delay_N: NDArray[np.int64]  # while decoding, relative to its scheduler's
    lost_N: NDArray[np.int64]
    read_N: NDArray[np.int64]  # empty without tokenization time
    late_first_N: NDArray[np.int64]  # empty without streaming time
    late_last_N: NDArray[np.int64]
    free_F: NDArray[np.int64]  # when a front end has tokenized all its prompts
    loss_N: Rows
    travel_N: Rows  # empty without pools
    fault_N: Rows  # empty unless `varies`, like the next three
    failure_E: Rows
    scaler_P: Rows  # of each pool, empty without autoscaling
    advice_PAV: NDArray[np.int64]  # time and desired replicas
    door_P: Rows
    blank_1: Rows  # initial state of a scheduler
    scheduler_S: Rows
    growth_SB: NDArray[np.int64]  # sequences that need a block, by residue of the step
    finishing_SH: Rows
    leaving_SH: NDArray[np.int32]
    learning_SH: NDArray[np.int32]
    replica_R: Rows
    replica_F: Rows
    end_R: NDArray[np.int64]
    end_F: NDArray[np.int64]
    group_F: NDArray[np.int64]
    ready_F: NDArray[np.int64]
    stage_free_RP: NDArray[np.int64]  # when a stage of a replica can take another batch
    link_S: NDArray[np.int64]  # when the link of a scheduler becomes free
    node_H: NDArray[np.int32]  # nodes of the router's prefix tree, empty without one
    owner_T: NDArray[np.int32]  # replica of the node
    got_TF: NDArray[np.int32]  # era in which each replica received it
    node_tail_N: NDArray[np.int32]
    turn_N: Rows  # empty unless `linked`, like the next four
    successor_first_N: NDArray[np.int64]  # position of the first request that waits for it
    successor_E: NDArray[np.int64]
    session_S: Rows
    root_E: NDArray[np.int64]  # requests that wait for none, by session
    coming_C: Rows
    clock_1: Rows
    series_WV: NDArray[np.int64]
    edges_G: NDArray[np.int64]
    gaps_G: NDArray[np.int64]
    block_SK: Rows
    bucket_SU: Rows
    growers_SB: Rows  # the same sequences, linked
    table_SHL: NDArray[np.int32]
    spare_SH: NDArray[np.int32]
    cached_L: NDArray[np.int32]
    loaded_N: Rows  # empty without tiers below the GPU
    tier_W: Rows  # host memory and SSD of each scheduler, then the remote pool
    tier_block_K: Rows
    tier_bucket_U: NDArray[np.int32]  # first block of a bucket plus one; 0 for none

    def settled(self) -> dict[str, int]:
        """Return the fields whose values are compiled in: its scheduler and unused features."""
        values = {name: int(getattr(self, name)) for name in _SCHEDULER}
        for group in _FEATURES:
            if not any(attrgetter(name)(self) for name in group):
                values |= dict.fromkeys(group, 0)
        return values
