"""What a schedule is made of, as records that compiled code reads and writes.

Times are whole ticks of a millisecond, GPU-time is whole GPU-ticks: every bucket adds up exactly.
`PLAN` never changes, `STATE` and the rest of a `World` do.

Shape legend: J jobs, N nodes, E places of GPUs on nodes, Q places of the queue, H heap, F free
GPUs, R running jobs, X failures, U users, S spans of time with as much free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

TICKS_PER_SECOND: Final = 1_000
NEVER: Final = 2**62
LONGEST: Final = 2**40  # ticks of any time that is given: 34 years

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
STALLED: Final = 3  # a node died and nobody noticed yet
WAITING: Final = 4  # keeps its other nodes until one replaces the dead one
HELD: Final = 5  # backs off before it is queued again
COMPLETED: Final = 6
TIMEOUT: Final = 7
NODE_FAIL: Final = 8
PREEMPTED: Final = 9

BUCKETS: Final = (
    "productive",  # work kept; `outcome` splits it by what became of the job
    "lost_work",
    "restart",
    "detection",
    "waiting",
    "draining",  # free GPUs of nodes that take no new job
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
            "gpus",  # of a node
            "domain",  # nodes of a rack or NVLink domain
            "leaf",  # nodes below a leaf switch
            "order",
            "backfill",
            "depth",
            "preemption",
            "best_fit",
            "level",  # 0 anywhere, 1 within a domain, 2 within a leaf
            "required",  # else preferred
            "response",
            "detection",
            "patience",
            "most_restarts",
            "backoff",
            "most_backoff",
            "keeps_place",  # a requeued job queues by its submission
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
            "limit",  # NEVER without one
            "nodes",
            "gpus",  # on each node
            "user",
            "priority",
            "requeue",
            "interval",  # of checkpoints; 0 without any
            "overhead",  # of a restart
            "fewest",  # nodes it goes on with
            "state",
            "key",  # time it queues by
            "queued_at",
            "work",  # node-ticks left
            "begun",  # of the attempt
            "kill",  # end of the attempt by its limit
            "mark",  # since when the present bucket runs
            "since",  # work begins
            "held",  # nodes
            "lost",  # nodes since the last restart
            "lost_node",
            "first",  # entry of its first node
            "attempts",  # times it got its nodes out of the queue
            "restarts",  # times its work began anew: each takes `overhead`
            "counted",  # failures the launcher holds against `most_restarts`
            "preempted",  # times
            "started",  # first
            "ended",
            "waited",  # ticks in the queue
            "promised",  # first reservation at the head of the queue
            "spread",  # domains of the first attempt
            "lost_work",  # GPU-ticks
            "chosen",  # as a victim
            "wait_list",  # job at this place of those that wait for a node
            "victim_list",  # job at this place of those to be preempted
        )
    ],
    align=True,
)
_NODE_FIELDS: Final = (
    "up",
    "free",
    "until",
    "repair",
    "chosen",  # node at this place of the last placement
    "kept",  # GPUs the head of the queue is promised
    "group",  # scratch of placements
    "spans",  # of what it has free from now on
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
            "failed",  # rows of failures behind
            "left",  # jobs not ended
            "head",
            "tail",
            "runs",  # running jobs
            "waits",  # jobs that wait for a node
            "free",  # GPUs of nodes that are up
            "partial",  # of them, on nodes partly used
            "draining",  # free GPUs of nodes that drain
            "down",  # of nodes under repair
            "stale",  # GPUs became free since the last promise or reservations
            "last_head",  # job it was made to
            "due",  # when
            "fresh",  # first place of the queue not looked at since, NEVER for none
            "planned",  # place of the queue up to which jobs have reservations
            "viewed",  # place up to which jobs were asked whether they can start
            "split",  # the head would fit by count but not on the nodes
            "stranded_ticks",
            "split_ticks",
            "backfilled",
            "unseen",  # failures of nodes that were down
            "usage_time",
            "steps",
            "done",
        )
    ]
    + [("bucket", "i8", (len(BUCKETS),))],
    align=True,
)


class World(NamedTuple):
    """All there is to a schedule.

    Args:
        plan_1: What never changes.
        state_1: Clock, counters, buckets.
        job_J: Jobs in the order of submission (J,).
        ask_J3: Nodes, GPUs on each and limit once more, close together (J, 3).
        node_N: Nodes (N,).
        failure_X: What befalls nodes, in the order of time (X,).
        user_U: Decayed GPU-ticks, share, usage over share, and GPUs held (U,).
        place_E: Job of each place of a node, -1 free, and the next place of that job (E,).
        lost_E2: Elastic job that lost a place with its node, -1 none, and its attempt (E, 2).
        free_F: Nodes that are up by free GPUs, and the fewest nodes refused in a pass by GPUs on
            each, anywhere and beside a promise (F,).
        open_N: Free GPUs of nodes that are up, -1 of others (N,).
        queue_Q: Waiting jobs from `head` to `tail` (Q,).
        run_R: Jobs that hold nodes, by the end of their limit (R,).
        heap_H: Jobs by their next event; the first place counts them (H,).
        spot_J: Place in the heap, 0 absent (J,).
        event_J: Time of the next event (J,).
        back_H: Nodes by their return; the first place counts them (H,).
        back_N: Place in that heap (N,).
        until_N: Time of the return (N,).
        trial_N: Scratch (N,).
        future_N: Free GPUs when the head is due (N,).
        soonest_N: Time from which a node can serve a job (N,).
        least_N: Free GPUs it has while it does (N,).
        begins_SN: Time a span of a node begins, the next one ends it (S, N).
        free_SN: Free GPUs during it, jobs with reservations taken off (S, N).
    """

    plan_1: NDArray[Any]
    state_1: NDArray[Any]
    job_J: NDArray[Any]
    ask_J3: NDArray[np.int64]
    node_N: NDArray[Any]
    failure_X: NDArray[Any]
    user_U: NDArray[Any]
    place_E: NDArray[Any]
    lost_E2: NDArray[np.int64]
    free_F: NDArray[Any]
    open_N: NDArray[np.int64]
    queue_Q: NDArray[np.int64]
    run_R: NDArray[np.int64]
    heap_H: NDArray[np.int64]
    spot_J: NDArray[np.int64]
    event_J: NDArray[np.int64]
    back_H: NDArray[np.int64]
    back_N: NDArray[np.int64]
    until_N: NDArray[np.int64]
    trial_N: NDArray[np.int64]
    future_N: NDArray[np.int64]
    soonest_N: NDArray[np.int64]
    least_N: NDArray[np.int64]
    begins_SN: NDArray[np.int64]
    free_SN: NDArray[np.int16]
