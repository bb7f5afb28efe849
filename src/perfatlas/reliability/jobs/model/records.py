"""State of a schedule, as records that compiled code reads and writes.

Times are whole ticks of a millisecond, GPU-time is whole GPU-ticks, so that the buckets add up
exactly. `PLAN` is constant; `STATE` and the rest of a `ScheduleState` change.

Shape legend: J jobs, N nodes, E GPU slots on nodes, Q queue slots, H heap, F free GPUs, R running
jobs, X failures, U users, S time spans with constant free GPUs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

TICKS_PER_SECOND: Final = 1_000
NEVER: Final = 2**62
MAX_INPUT_TICKS: Final = 2**40  # ticks, limit of every input time: 34 years

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
BACKFILLS: Final = ("none", "easy", "conservative")
EASY: Final = 1
CONSERVATIVE: Final = 2
PREEMPTIONS: Final = ("none", "requeue", "cancel")
CANCEL: Final = 2
RESPONSES: Final = ("restart", "shrink", "elastic", "replace")
SHRINK: Final = 1
ELASTIC: Final = 2
REPLACE: Final = 3

PLAN: Final = np.dtype(
    [
        (name, "i8")
        for name in (
            "nodes",
            "gpus",  # GPUs per node
            "domain",  # nodes per rack or NVLink domain
            "leaf",  # nodes per leaf switch
            "order",
            "backfill",
            "depth",
            "preemption",
            "best_fit",
            "level",  # 0 anywhere, 1 within a domain, 2 within a leaf
            "required",  # otherwise preferred
            "response",
            "detection",
            "patience",
            "most_restarts",
            "backoff",
            "most_backoff",
            "keeps_place",  # a requeued job keeps its submission time
            "until",
        )
    ]
    + [("half_life", "f8")],
    align=True,
)
JOB: Final = np.dtype(
    [
        (name, "i8")
        for name in (
            "submit",
            "run",
            "limit",  # NEVER for none
            "nodes",
            "gpus",  # on each node
            "user",
            "priority",
            "requeue",
            "interval",  # checkpoint interval; 0 for none
            "overhead",  # restart time
            "fewest",  # minimum nodes
            "state",
            "key",  # time used for the queue order
            "queued_at",
            "work",  # node-ticks left
            "begun",  # start of the attempt
            "kill",  # end of the attempt by its time limit
            "mark",  # start of the current bucket
            "since",  # start of work
            "allocated",  # nodes
            "lost",  # nodes since the last restart
            "lost_node",
            "first",  # entry of its first node
            "attempts",  # starts from the queue
            "restarts",  # restarts of the work, each of which takes `overhead`
            "counted",  # failures counted against `most_restarts`
            "preempted",  # times
            "started",  # first
            "ended",
            "waited",  # ticks in the queue
            "promised",  # first reservation at the head of the queue
            "spread",  # domains of the first attempt
            "lost_work",  # GPU-ticks
            "chosen",  # as a victim
            "wait_list",  # list of jobs that wait for a node
            "victim_list",  # list of jobs to be preempted
        )
    ],
    align=True,
)
_NODE_FIELDS: Final = (
    "up",
    "free",
    "until",
    "repair",
    "chosen",  # nodes of the last placement
    "reserved",  # GPUs reserved for the head of the queue
    "group",  # scratch of placements
    "spans",  # first time span of its free GPUs from now on
)
NODE: Final = np.dtype([(name, "i8") for name in _NODE_FIELDS], align=True)
FAILURE: Final = np.dtype(
    [(name, "i8") for name in ("time", "node", "width", "repair", "drain")], align=True
)
PLACE: Final = np.dtype([("job", "i8"), ("after", "i8")], align=True)
FREE: Final = np.dtype([("count", "i8"), ("refused", "i8", (2,))], align=True)
USER: Final = np.dtype(
    [("usage", "f8"), ("share", "f8"), ("rank", "f8"), ("active", "i8")], align=True
)
STATE: Final = np.dtype(
    [
        (name, "i8")
        for name in (
            "now",
            "submitted",
            "failed",  # failures processed
            "left",  # jobs not ended
            "head",
            "tail",
            "runs",  # running jobs
            "waits",  # jobs that wait for a node
            "free",  # GPUs of nodes that are up
            "partial",  # idle GPUs on partly used nodes
            "draining",  # free GPUs of draining nodes
            "down",  # GPUs of nodes under repair
            "stale",  # whether GPUs became free since the last reservations
            "last_head",  # job with the reservation
            "due",  # time of the reservation
            "fresh",  # first queue position not yet tested since, NEVER for none
            "planned",  # queue position up to which jobs have reservations
            "viewed",  # queue position up to which jobs were tested
            "split",  # the head would fit by count but not on the nodes (fragmentation)
            "stranded_ticks",
            "split_ticks",
            "backfilled",
            "unseen",  # failures of nodes already down
            "usage_time",
            "steps",
            "done",
        )
    ]
    + [("bucket", "i8", (len(BUCKETS),))],
    align=True,
)


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
