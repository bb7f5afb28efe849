"""State of a simulated job, as records that compiled code reads and writes.

Times are whole ticks of a microsecond, so that a replica's time adds up exactly. `PLAN` holds the
constants and `JOB` the state; a `JOB` and its heaps are the full state of a replica.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.reliability.fleet.laws.hazards import LAW

if TYPE_CHECKING:
    from numpy.typing import NDArray

TICKS_PER_SECOND: Final = 1_000_000
NEVER: Final = 2**62
MOST_CAUSES: Final = 48
MOST_LEVELS: Final = 4
MOST_RESTARTS: Final = 6
MOST_PHASES: Final = 8
MOST_REPAIRS: Final = 12
MOST_STAGES: Final = 6
MOST_LAWS: Final = 160
MOST_SLOW: Final = 64
MOST_CREWS: Final = 256
MOST_EVENTS: Final = 20_000_000  # events of a replica; some seconds

BUCKETS: Final = (
    "productive",
    "checkpoint",
    "lost_work",
    "detection",
    "restart",
    "waiting_for_spares",
    "degraded",
    "maintenance",
    "idle",
)
PRODUCTIVE: Final = 0
CHECKPOINT: Final = 1
LOST_WORK: Final = 2
DETECTION: Final = 3
RESTART: Final = 4
WAITING: Final = 5
DEGRADED: Final = 6
MAINTENANCE: Final = 7
IDLE: Final = 8

STOPS: Final = 0  # effects of a cause
SILENT: Final = 1
SLOWS: Final = 2

SPARE_ORDERS: Final = ("random", "first", "longest_idle", "last_returned")
RANDOM: Final = 0
FIRST: Final = 1
LONGEST_IDLE: Final = 2
LAST_RETURNED: Final = 3

CAUSE: Final = np.dtype(
    [
        (name, "i8")
        for name in (
            "law",  # distribution of a lifetime
            "first_law",  # distribution of the residual lifetime at the start
            "effect",
            "plain",  # every event hits the job and stops it
            "restart",  # index in the plan's restarts
            "level",  # level of the checkpoint it needs; -1 where peers still hold the state
            "hits",  # units that fail with it
            "scope",  # 0 nothing is removed, 1 a part of a unit, 2 whole units
            "shared",  # concerns the whole job: its rate does not fall when the job shrinks
            "lurks",  # index among causes with possible false fixes; -1 for none
            "repair",  # index in the plan's repairs
            "detection",  # distribution
            "as_old",  # repaired as old: the part keeps its age
            "duration",  # distribution of the duration of a slowdown
            "latency",  # distribution, from a silent error to its detection without verification
            "lemons",  # lemon parts that may be retired one by one
            "first_lemon",
            "strikes",  # failures after which a lemon is retired; 0 never
            "lemon_kind",  # index among causes whose lemons are units; -1 for none
            "member",  # index among causes whose ageing parts belong to units; -1 for none
        )
    ]
    + [
        (name, "f8")
        for name in (
            "parts",
            "per_unit",
            "counted",  # probability that an event counts, where the number of parts is fractional
            "age",
            "factor",
            "normal_share",
            "last_lemon",  # probability that the last lemon exists: their number may be fractional
        )
    ],
    align=True,
)
LEVEL: Final = np.dtype(
    [("write", "i8"), ("lag", "i8"), ("every", "i8"), ("read", "i8"), ("read_law", "i8")],
    align=True,
)
RESTART_KIND: Final = np.dtype(
    [
        ("fixed", "i8"),  # ticks of all constant phases
        ("phases", "i8"),
        ("law", "i8", (MOST_PHASES,)),
        ("success", "f8"),  # otherwise the next restart follows
    ],
    align=True,
)
STAGE: Final = np.dtype([("law", "i8"), ("fixed", "f8"), ("false_fix", "f8")], align=True)
REPAIR: Final = np.dtype(
    [("stages", "i8"), ("relapse", "i8"), ("stage", STAGE, (MOST_STAGES,))], align=True
)
PLAN: Final = np.dtype(
    [
        (name, "i8")
        for name in (
            "horizon",
            "segments",  # to finish; 0 runs until the horizon
            "last_work",  # ticks of work of the last segment
            "causes",
            "memoryless",  # number of memoryless causes, merged into one stream; they come first
            "levels",
            "restarts",
            "work",  # ticks of a segment
            "verify",
            "step",  # work lost where peers hold the state
            "retained",  # checkpoints kept against late detection
            "detection_exposed",
            "restart_exposed",
            "units",  # that the job needs
            "spares",  # number of spares; -1 unlimited
            "warm",  # spares fail too
            "spare_start",  # distribution, added to a restart that takes a spare
            "parts",  # of a unit
            "parts_needed",
            "replica_units",  # units dropped together when the job shrinks; 0 to wait
            "fewest",  # units it shrinks to
            "rejoin",  # ticks of a pause when units come back
            "regrows",  # 1 where units join a running job
            "crews",  # 0 unlimited
            "maintenance_every",
            "maintenance",
            "maintenance_restart",
            "silent_restart",
            "slow_restart",
            "slow_patience",  # lost ticks after which a slow unit is replaced; NEVER for never
            "powered",  # units that can fail
            "lurking",  # number of causes with possible false fixes
            "named",  # units have identity: which of them a failure hits matters
            "spare_order",  # index in `SPARE_ORDERS`
            "reallocates",  # a restart takes the units with the lowest numbers
            "lemon_kinds",  # number of causes whose lemons are units
            "members",  # number of causes whose ageing parts belong to units
        )
    ]
    + [(name, "f8") for name in ("mean_gap", "shrink_overhead")]
    + [
        ("chance", "f8", (MOST_CAUSES,)),  # cumulative, of the memoryless causes
        ("cause", CAUSE, (MOST_CAUSES,)),
        ("level", LEVEL, (MOST_LEVELS,)),
        ("restart", RESTART_KIND, (MOST_RESTARTS,)),
        ("repair", REPAIR, (MOST_REPAIRS,)),
        ("law", LAW, (MOST_LAWS,)),
    ],
    align=True,
)
JOB: Final = np.dtype(
    [("key", "u8")]
    + [
        (name, "i8")
        for name in (
            "now",
            "exposed",  # ticks in which failures could apply_event
            "due",  # exposed ticks at the next event of a cause
            "source",  # source of that event
            "since",  # start of the current running period
            "place",  # position in the schedule at its start, at its speed
            "index",  # segments completed
            "offset",  # ticks into the next one, at full speed
            "base",  # index at the last rollback
            "done",  # work ticks completed
            "worked",  # ticks of work up to `place`, at the current speed
            "slow_work",  # ticks of a segment's work at the current speed
            "finished",
            "other",  # the earliest of the following
            "work_end",
            "found",  # time when a silent error is detected
            "slow_end",
            "maintenance_due",  # maintenance is due, or the job has drained for it
            "planned",  # maintenance is due
            "back",  # time when a unit returns to a job that shrank
            "draining",
            "corrupt",
            "clean",  # index of the last checkpoint before the error
            "struck_at",  # index when it occurred
            "kind",  # index of the current restart
            "depth",  # level it needs
            "detect",  # ticks until it begins
            "stepped",  # the current step is already lost
            "last",  # 1 the work of the last, short segment is done; it is being verified and saved
            "took",  # a spare was taken
            "slow",  # current slowdowns
            "merged",  # events of the memoryless causes
            "interruptions",
            "restarts",
            "failures",  # events that hit the job
            "unseen",  # events that hit a spare or a failed part
            "active",
            "idle",
            "idle_bad",  # anonymous idle units with a false fix
            "repairing",
            "repairing_bad",  # named units and parts under repair that will have a false fix
            "relapses",  # relapses of named units started
            "relapsed",  # unit that fails again; -1 where units are anonymous
            "struck",  # unit of the current event; -1 where it is not known yet
            "returned",  # units that became idle, to order them
            "slots",  # slots used so far
            "free_slot",  # first of the slots used before; -1 for none
            "renewals",
            "full",  # 1 a heap is too small, 2 too many slowdowns, 3 too many events
            "events",
            "unsaved",  # work at the horizon that no durable checkpoint holds
        )
    ]
    + [("merged_time", "f8"), ("slowdown", "f8")]
    + [
        ("bucket", "i8", (len(BUCKETS),)),
        ("bank", "i8", (MOST_LEVELS,)),
        ("length", "i8", (MOST_LEVELS,)),
        ("count", "i8", (MOST_CAUSES,)),
        ("bad", "i8", (MOST_CAUSES,)),  # `idle_bad` by cause
        ("fresh_time", "f8", (MOST_CAUSES,)),
        ("fresh_hazard", "f8", (MOST_CAUSES,)),
        ("fresh_left", "f8", (MOST_CAUSES,)),
        ("spell_end", "i8", (MOST_SLOW,)),
        ("spell_replaced", "i8", (MOST_SLOW,)),
        ("spell_factor", "f8", (MOST_SLOW,)),
        ("crew_free", "f8", (MOST_CREWS,)),
    ],
    align=True,
)

UNIT: Final = np.dtype(
    [
        ("idle_since", "i8"),  # number of the return after which it is idle
        ("left", "i8"),  # exposed ticks when it was last powered; -1 before it ever was
        ("away", "i8"),  # exposed ticks in which it was not powered
        ("parked", "i8"),  # first slot that came due while it was away; -1 for none
    ],
    align=True,
)
MEMBER: Final = np.dtype(
    [
        ("left", "i8"),  # original parts that have not failed
        ("renewed", "i8"),  # parts renewed so far
        ("hazard", "f8"),  # cumulative hazard at the next failure of an original part
    ],
    align=True,
)
SLOT: Final = np.dtype(
    [
        ("due", "f8"),  # service time of the unit at the failure of a part [ticks]
        ("birth", "f8"),  # service time at which the part was new [ticks]
        ("unit", "i8"),
        ("cause", "i8"),
        ("fresh", "i8"),  # 1 the first failure of an original part
        ("link", "i8"),  # next slot of a list; -1 at its end
    ],
    align=True,
)


class Stores(NamedTuple):
    """Arrays of variable size."""

    knots_2K: NDArray[np.float64]  # Probabilities and ages of table laws (2, K)
    renewal_H: NDArray[Any]  # Next failures of replaced parts (H,)
    return_G: NDArray[Any]  # Units and parts under repair (G,)
    slot_H: NDArray[Any]  # Next failures of parts that belong to units (H,)
    lemon_Q: NDArray[np.int64]  # Failures of each lemon (Q,)
    holder_Q: NDArray[np.int64]  # Unit of each lemon, where units have identity (Q,)
    lemon_DK: NDArray[np.int64]  # Whether a unit is a lemon, by cause with lemons (D x K,)
    unit_D: NDArray[Any]  # Service of each unit, where units have identity (D,)
    member_DA: NDArray[Any]  # Parts of each unit, by ageing cause (D x A,)
    down_D: NDArray[np.int64]  # Parts down in each unit (D,)
    order_D: NDArray[np.int64]  # Units of the job, then idle units, then failed units (D,)
    spot_D: NDArray[np.int64]  # Position of each unit in `order_D` (D,)
    # Latent faults of each unit outside the job, by cause, which show when it returns (D x L,)
    bad_DL: NDArray[np.int64]
