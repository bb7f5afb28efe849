"""State of a schedule, as records that compiled code reads and writes.

Times are whole ticks of a millisecond, GPU-time is whole GPU-ticks, so that the buckets add up
exactly. `PLAN` is constant; `STATE` and the rest of a `ScheduleState` change. A packed field holds
the attribute of a cluster, a policy, jobs or failures (`model`), whose bounds it declares.

Shape legend: J jobs, N nodes, E GPU slots on nodes, Q queue slots, H heap, F free GPUs, R running
jobs, X failures, U users, S time spans with constant free GPUs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.compiled import packed, record_type, repeated

if TYPE_CHECKING:
    from numpy.typing import NDArray

TICKS_PER_SECOND: Final = 1_000
NEVER: Final = 2**62
MAX_INPUT_TICKS: Final = 2**40  # ticks, limit of every input time: 34 years
MAX_GPUS: Final = 1_024  # GPUs of a node
MAX_NODES: Final = 1_000_000
TIME: Final = {
    "per_second": TICKS_PER_SECOND,
    "least": 0.0,
    "most": MAX_INPUT_TICKS / TICKS_PER_SECOND,
}

STATES: Final = (
    "pending",
    "queued",
    "running",
    "stalled",
    "waiting",
    "held",
    "completed",
    "timeout",
    "node_fail",
    "preempted",
)
PENDING: Final = 0  # not yet submitted
QUEUED: Final = 1
RUNNING: Final = 2
STALLED: Final = 3  # lost a node, not yet detected
WAITING: Final = 4  # keeps its other nodes while waiting for a replacement
HELD: Final = 5  # backs off before it is queued again
COMPLETED: Final = 6
TIMEOUT: Final = 7
NODE_FAIL: Final = 8
PREEMPTED: Final = 9

BUCKETS: Final = (
    "productive",  # work kept; `outcome` splits it by the final state of the job
    "lost_work",
    "restart",
    "detection",
    "waiting",
    "draining",  # free GPUs of draining nodes
    "down",
    "idle_jobs_queued",
    "idle_no_jobs",
)
PRODUCTIVE: Final = 0
LOST_WORK: Final = 1
RESTART: Final = 2
DETECTION: Final = 3
REPLACING: Final = 4
DRAINING_GPUS: Final = 5
DOWN_GPUS: Final = 6
IDLE_QUEUED: Final = 7
IDLE_EMPTY: Final = 8

UP: Final = 0  # nodes
DRAINING: Final = 1
DOWN: Final = 2

ORDERS: Final = ("fifo", "priority", "fair_share")
FIFO: Final = 0
PRIORITY: Final = 1
FAIR_SHARE: Final = 2
LEVELS: Final = ("anywhere", "domain", "leaf")
BACKFILLS: Final = ("none", "easy", "conservative")
EASY: Final = 1
CONSERVATIVE: Final = 2
PREEMPTIONS: Final = ("none", "requeue", "cancel")
CANCEL: Final = 2
RESPONSES: Final = ("restart", "shrink", "elastic", "replace")
SHRINK: Final = 1
ELASTIC: Final = 2
REPLACE: Final = 3


class PlanRecord:
    """The cluster and its policy."""

    nodes: int = packed("cluster.nodes", least=1, most=MAX_NODES)
    gpus: int = packed("cluster.gpus_per_node", least=1, most=MAX_GPUS)  # GPUs per node
    domain: int  # nodes per rack or NVLink domain
    leaf: int  # nodes per leaf switch
    order: int = packed("policy.order", names=ORDERS)
    backfill: int = packed("policy.backfill", names=BACKFILLS)
    depth: int = packed("policy.depth", least=1, most=2**31)
    preemption: int = packed("policy.preemption", names=PREEMPTIONS)
    best_fit: int = packed("policy.placement", names=("pack", "best_fit"))
    # 0 anywhere, 1 within a domain, 2 within a leaf
    level: int = packed("policy.together", names=LEVELS)
    required: int = packed("policy.required")  # otherwise preferred
    response: int = packed("response.kind", names=RESPONSES)
    detection: int = packed("response.detection_s", **TIME)
    patience: int = packed("response.patience_s", NEVER, **TIME)
    most_restarts: int = packed("response.most_restarts", NEVER, least=0, most=2**31)
    backoff: int = packed("response.backoff_s", **TIME)
    most_backoff: int = packed("response.most_backoff_s", **TIME)
    keeps_place: int = packed("policy.keeps_place")  # a requeued job keeps its submission time
    until: int
    half_life: int = packed("policy.half_life_s", **TIME | {"least": 1.0 / TICKS_PER_SECOND})


PLAN: Final = record_type(PlanRecord)


class JobRecord:
    """A job."""

    submit: int = packed("jobs.submit_J", least=0, most=MAX_INPUT_TICKS)
    run: int = packed("jobs.run_J", least=0, most=MAX_INPUT_TICKS)
    limit: int = packed("jobs.limit_J", NEVER, least=1, most=NEVER)  # NEVER for none
    nodes: int
    gpus: int  # on each node
    user: int = packed("jobs.user_J", 0)
    priority: int = packed("jobs.priority_J", 0, least=-MAX_INPUT_TICKS, most=MAX_INPUT_TICKS)
    requeue: int = packed("jobs.requeue_J", 1, least=0, most=1)
    # checkpoint interval; 0 for none
    interval: int = packed("jobs.checkpoint_J", 0, least=0, most=MAX_INPUT_TICKS)
    overhead: int = packed("jobs.restart_J", 0, least=0, most=MAX_INPUT_TICKS)  # restart time
    fewest: int = packed("jobs.fewest_J", 1, least=1, most=MAX_INPUT_TICKS)  # minimum nodes
    state: int
    key: int  # time used for the queue order
    queued_at: int
    work: int  # node-ticks left
    begun: int  # start of the attempt
    kill: int  # end of the attempt by its time limit
    mark: int  # start of the current bucket
    since: int  # start of work
    allocated: int  # nodes
    lost: int  # nodes since the last restart
    lost_node: int
    first: int  # entry of its first node
    attempts: int  # starts from the queue
    restarts: int  # restarts of the work, each of which takes `overhead`
    counted: int  # failures counted against `most_restarts`
    preempted: int  # times
    started: int  # first
    ended: int
    waited: int  # ticks in the queue
    promised: int  # first reservation at the head of the queue
    spread: int  # domains of the first attempt
    lost_work: int  # GPU-ticks
    chosen: int  # as a victim
    wait_list: int  # list of jobs that wait for a node
    victim_list: int  # list of jobs to be preempted


JOB: Final = record_type(JobRecord)


class NodeRecord:
    """A node."""

    up: int
    free: int
    until: int
    repair: int
    chosen: int  # nodes of the last placement
    reserved: int  # GPUs reserved for the head of the queue
    group: int  # scratch of placements
    spans: int  # first time span of its free GPUs from now on


NODE: Final = record_type(NodeRecord)


class FailureRecord:
    """The failure or drain of nodes."""

    time: int = packed("failures.time_X", least=0, most=MAX_INPUT_TICKS)
    node: int = packed("failures.node_X", least=0, most=MAX_INPUT_TICKS)
    width: int = packed("failures.width_X", 1, least=1, most=MAX_NODES)
    repair: int = packed("failures.repair_X", least=-1, most=MAX_INPUT_TICKS)
    drain: int = packed("failures.drain_X", 0, least=0, most=1)


FAILURE: Final = record_type(FailureRecord)
PLACE: Final = np.dtype([("job", "i8"), ("after", "i8")], align=True)
FREE: Final = np.dtype([("count", "i8"), ("refused", "i8", (2,))], align=True)
USER: Final = np.dtype(
    [("usage", "f8"), ("share", "f8"), ("rank", "f8"), ("active", "i8")], align=True
)


class StateRecord:
    """Clock, counters and GPU-time of a schedule."""

    now: int
    submitted: int
    failed: int  # failures processed
    left: int  # jobs not ended
    head: int
    tail: int
    runs: int  # running jobs
    waits: int  # jobs that wait for a node
    free: int  # GPUs of nodes that are up
    partial: int  # idle GPUs on partly used nodes
    draining: int  # free GPUs of draining nodes
    down: int  # GPUs of nodes under repair
    stale: int  # whether GPUs became free since the last reservations
    last_head: int  # job with the reservation
    due: int  # time of the reservation
    fresh: int  # first queue position not yet tested since, NEVER for none
    planned: int  # queue position up to which jobs have reservations
    viewed: int  # queue position up to which jobs were tested
    split: int  # the head would fit by count but not on the nodes (fragmentation)
    stranded_ticks: int
    split_ticks: int
    backfilled: int
    unseen: int  # failures of nodes already down
    usage_time: int
    steps: int
    done: int
    bucket: list[int] = repeated(int, len(BUCKETS))


STATE: Final = record_type(StateRecord)


class ScheduleState(NamedTuple):
    """The full state of a schedule."""

    plan_1: NDArray[Any]  # Constants
    state_1: NDArray[Any]  # Clock, counters, buckets
    job_J: NDArray[Any]  # Jobs in the order of submission (J,)
    # Nodes, GPUs per node and limit, repeated contiguously for speed (J, 3)
    ask_J3: NDArray[np.int64]
    node_N: NDArray[Any]  # Nodes (N,)
    failure_X: NDArray[Any]  # Node failures, in time order (X,)
    user_U: NDArray[Any]  # Decayed GPU-ticks, share, usage over share, and GPUs held (U,)
    # Job of each GPU slot of a node, -1 free, and the next slot of that job (E,)
    place_E: NDArray[Any]
    # Elastic job that lost a slot with its node, -1 none, and its attempt (E, 2)
    lost_E2: NDArray[np.int64]
    # Number of nodes that are up by free GPUs, and the fewest nodes that did not fit in a pass by
    # GPUs per node, without and with a reservation (F,)
    free_F: NDArray[Any]
    open_N: NDArray[np.int64]  # Free GPUs of nodes that are up, -1 for others (N,)
    queue_Q: NDArray[np.int64]  # Waiting jobs from `head` to `tail` (Q,)
    run_R: NDArray[np.int64]  # Jobs that hold nodes, by the end of their time limit (R,)
    heap_H: NDArray[np.int64]  # Jobs by their next event; the first entry is their number (H,)
    spot_J: NDArray[np.int64]  # Position in the heap, 0 absent (J,)
    event_J: NDArray[np.int64]  # Time of the next event (J,)
    back_H: NDArray[np.int64]  # Nodes by return time; the first entry is their number (H,)
    back_N: NDArray[np.int64]  # Position in that heap (N,)
    until_N: NDArray[np.int64]  # Return time (N,)
    trial_N: NDArray[np.int64]  # Scratch (N,)
    future_N: NDArray[np.int64]  # Free GPUs at the reservation of the head (N,)
    soonest_N: NDArray[np.int64]  # Time from which a node can run a job (N,)
    least_N: NDArray[np.int64]  # Fewest free GPUs during that time (N,)
    begins_SN: NDArray[np.int64]  # Start of each time span of a node (S, N)
    free_SN: NDArray[np.int16]  # Free GPUs in it, less reservations (S, N)
