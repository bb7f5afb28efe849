"""State of a simulated job, as records that compiled code reads and writes.

Times are whole ticks of a microsecond, so that a replica's time adds up exactly. A `JobPlan` holds
the constants; a `JobState` and its heaps are the full state of a replica. A packed field holds the
attribute of a fleet, a cause or a strategy (`reliability.fleet.model`), whose bounds it declares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfatlas.compiled import packed, record_type, repeated
from perfatlas.reliability.fleet.laws.hazards import LAW

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from perfatlas.reliability.fleet.laws.hazards import LawRecord

TICKS_PER_SECOND: Final = 1_000_000
NEVER: Final = 2**62
MAX_CAUSES: Final = 48
MAX_LEVELS: Final = 4
MAX_RESTARTS: Final = 6
MAX_PHASES: Final = 8
MAX_REPAIRS: Final = 12
MAX_STAGES: Final = 6
MAX_LAWS: Final = 160
MAX_SLOW: Final = 64
MAX_CREWS: Final = 256
MAX_EVENTS: Final = 20_000_000  # events of a replica; some seconds
MAX_S: Final = 1e12  # range of 64-bit microseconds
MAX_RETAINED: Final = 1_000_000_000
MAX_UNITS: Final = 100_000_000  # units of a fleet, GPUs of a unit, parts of one

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

EFFECTS: Final = ("stops", "corrupts", "slows")  # of a cause
STOPS: Final = 0
SILENT: Final = 1
SLOWS: Final = 2

SPARE_ORDERS: Final = ("random", "first", "longest_idle", "last_returned")
RANDOM: Final = 0
FIRST: Final = 1
MAX_IDLE: Final = 2
LAST_RETURNED: Final = 3


TIME: Final = {"per_second": TICKS_PER_SECOND, "least": 0.0, "most": MAX_S}


class CauseRecord:
    """A cause of failures, or the lemons of one."""

    law: int  # distribution of a lifetime
    first_law: int  # distribution of the residual lifetime at the start
    effect: int = packed("cause.effect", names=EFFECTS)
    plain: int  # every event hits the job and stops it
    restart: int  # index in the plan's restarts
    level: int  # level of the checkpoint it needs; -1 where peers still hold the state
    hits: int = packed("cause.units")  # units that fail with it
    scope: int  # 0 nothing is removed, 1 a part of a unit, 2 whole units
    shared: int  # concerns the whole job: its rate does not fall when the job shrinks
    lurks: int  # index among causes with possible false fixes; -1 for none
    repair: int  # index in the plan's repairs
    detection: int  # distribution
    as_old: int = packed("cause.as_old")  # repaired as old: the part keeps its age
    duration: int  # distribution of the duration of a slowdown
    latency: int  # distribution, from a silent error to its detection without verification
    lemons: int  # lemon parts that may be retired one by one
    first_lemon: int
    strikes: int  # failures after which a lemon is retired; 0 never
    lemon_kind: int  # index among causes whose lemons are units; -1 for none
    member: int  # index among causes whose ageing parts belong to units; -1 for none
    parts: float
    per_unit: float = packed("cause.per_unit", least=0.0, most=MAX_S)
    counted: float  # probability that an event counts, where the number of parts is fractional
    age: float = packed("cause.age_s", **TIME)
    factor: float = packed("cause.slowdown")
    normal_share: float
    last_lemon: float  # probability that the last lemon exists: their number may be fractional


CAUSE: Final = record_type(CauseRecord)


class LevelRecord:
    """A level of checkpoints [ticks]."""

    write: int = packed("level.write_s", **TIME)
    lag: int = packed("level.lag_s", **TIME)
    every: int = packed("level.every")
    read: int
    read_law: int


LEVEL: Final = record_type(LevelRecord)


class RestartRecord:
    """A kind of restart."""

    fixed: int  # ticks of all constant phases
    phases: int
    law: list[int] = repeated(int, MAX_PHASES)
    success: float = packed("restart.success")  # otherwise the next restart follows


RESTART_KIND: Final = record_type(RestartRecord)


class StageRecord:
    """A stage of a repair."""

    law: int
    fixed: float = packed("stage.fixes")
    false_fix: float = packed("stage.false_fix")


STAGE: Final = record_type(StageRecord)


class RepairRecord:
    """A repair."""

    stages: int
    relapse: int
    stage: list[StageRecord] = repeated(STAGE, MAX_STAGES)


REPAIR: Final = record_type(RepairRecord)


class JobPlan:
    """The constants of a job."""

    horizon: int
    segments: int  # to finish; 0 runs until the horizon
    last_work: int  # ticks of work of the last segment
    causes: int
    memoryless: int  # number of memoryless causes, merged into one stream; they come first
    levels: int
    restarts: int
    work: int = packed("strategy.interval_s", **TIME | {"least": 1e-3})  # ticks of a segment
    verify: int = packed("strategy.verify_s", **TIME)
    step: int = packed("strategy.step_s", 0, **TIME)  # work lost where peers hold the state
    # checkpoints kept against late detection
    retained: int = packed("strategy.retained", least=1, most=MAX_RETAINED)
    detection_exposed: int = packed("strategy.detection_exposed")
    restart_exposed: int = packed("strategy.restart_exposed")
    units: int  # that the job needs
    spares: int = packed("spares.count", -1)  # number of spares; -1 unlimited
    warm: int  # spares fail too
    spare_start: int  # distribution, added to a restart that takes a spare
    parts: int = packed("fleet.parts_per_unit", least=1, most=MAX_UNITS)  # of a unit
    parts_needed: int = packed("fleet.parts_needed")
    # units dropped together when the job shrinks; 0 to wait
    replica_units: int = packed("shrink.replica_units", 0)
    fewest: int = packed("shrink.fewest", 0)  # units it shrinks to
    rejoin: int = packed("shrink.rejoin_s", 0, **TIME)  # ticks of a pause when units come back
    regrows: int = packed("shrink.regrows", 1)  # 1 where units join a running job
    crews: int = packed("fleet.crews", 0, least=1, most=MAX_CREWS)  # 0 unlimited
    maintenance_every: int = packed("maintenance.every_s", NEVER, **TIME | {"least": 1.0})
    maintenance: int = packed("maintenance.lasts_s", 0, **TIME)
    maintenance_restart: int
    silent_restart: int
    slow_restart: int
    # lost ticks after which a slow unit is replaced; NEVER for never
    slow_patience: int = packed("strategy.slow_patience_s", NEVER, **TIME)
    powered: int  # units that can fail
    lurking: int  # number of causes with possible false fixes
    named: int  # units have identity: which of them a failure hits matters
    spare_order: int = packed("spares.order", names=SPARE_ORDERS)  # index in `SPARE_ORDERS`
    # a restart takes the units with the lowest numbers
    reallocates: int = packed("spares.reallocated")
    lemon_kinds: int  # number of causes whose lemons are units
    members: int  # number of causes whose ageing parts belong to units
    mean_gap: float
    shrink_overhead: float = packed("shrink.overhead", 1.0, least=1.0, most=1000.0)
    chance: list[float] = repeated(float, MAX_CAUSES)  # cumulative, of the memoryless causes
    cause: list[CauseRecord] = repeated(CAUSE, MAX_CAUSES)
    level: list[LevelRecord] = repeated(LEVEL, MAX_LEVELS)
    restart: list[RestartRecord] = repeated(RESTART_KIND, MAX_RESTARTS)
    repair: list[RepairRecord] = repeated(REPAIR, MAX_REPAIRS)
    law: list[LawRecord] = repeated(LAW, MAX_LAWS)


PLAN: Final = record_type(JobPlan)


class JobState:
    """The state of a job."""

    key: np.uint64
    now: int
    exposed: int  # ticks in which failures could occur
    due: int  # exposed ticks at the next event of a cause
    source: int  # source of that event
    since: int  # start of the current running period
    position: int  # position in the schedule at its start, at its speed
    index: int  # segments completed
    offset: int  # ticks into the next one, at full speed
    base: int  # index at the last rollback
    done: int  # work ticks completed
    worked: int  # ticks of work up to `position`, at the current speed
    slow_work: int  # ticks of a segment's work at the current speed
    finished: int
    other: int  # the earliest of the following
    work_end: int
    detected: int  # time when a silent error is detected
    slow_end: int
    maintenance_due: int  # maintenance is due, or the job has drained for it
    planned: int  # maintenance is due
    back: int  # time when a unit returns to a job that shrank
    draining: int
    corrupt: int
    clean: int  # index of the last checkpoint before the error
    struck_at: int  # index when it occurred
    kind: int  # index of the current restart
    depth: int  # level it needs
    detect: int  # ticks until it begins
    stepped: int  # the current step is already lost
    last: int  # 1 the work of the last, short segment is done; it is being verified and saved
    took: int  # a spare was taken
    slow: int  # current slowdowns
    merged: int  # events of the memoryless causes
    interruptions: int
    restarts: int
    failures: int  # events that hit the job
    unseen: int  # events that hit a spare or a failed part
    active: int
    idle: int
    idle_bad: int  # anonymous idle units with a false fix
    repairing: int
    repairing_bad: int  # named units and parts under repair that will have a false fix
    relapses: int  # relapses of named units started
    relapsed: int  # unit that fails again; -1 where units are anonymous
    struck: int  # unit of the current event; -1 where it is not known yet
    returned: int  # units that became idle, to order them
    slots: int  # slots used so far
    free_slot: int  # first of the slots used before; -1 for none
    renewals: int
    full: int  # 1 a heap is too small, 2 too many slowdowns, 3 too many events
    events: int
    unsaved: int  # work at the horizon that no durable checkpoint holds
    merged_time: float
    slowdown: float
    bucket: list[int] = repeated(int, len(BUCKETS))
    bank: list[int] = repeated(int, MAX_LEVELS)
    length: list[int] = repeated(int, MAX_LEVELS)
    count: list[int] = repeated(int, MAX_CAUSES)
    bad: list[int] = repeated(int, MAX_CAUSES)  # `idle_bad` by cause
    fresh_time: list[float] = repeated(float, MAX_CAUSES)
    fresh_hazard: list[float] = repeated(float, MAX_CAUSES)
    fresh_left: list[float] = repeated(float, MAX_CAUSES)
    spell_end: list[int] = repeated(int, MAX_SLOW)
    spell_replaced: list[int] = repeated(int, MAX_SLOW)
    spell_factor: list[float] = repeated(float, MAX_SLOW)
    crew_free: list[float] = repeated(float, MAX_CREWS)


JOB: Final = record_type(JobState)


class UnitRecord:
    """Service of a unit that has identity."""

    idle_since: int  # number of the return after which it is idle
    left: int  # exposed ticks when it was last powered; -1 before it ever was
    away: int  # exposed ticks in which it was not powered
    parked: int  # first slot that came due while it was away; -1 for none


UNIT: Final = record_type(UnitRecord)


class MemberRecord:
    """Original parts of a unit, of one ageing cause."""

    left: int  # original parts that have not failed
    renewed: int  # parts renewed so far
    hazard: float  # cumulative hazard at the next failure of an original part


MEMBER: Final = record_type(MemberRecord)


class SlotRecord:
    """Next failure of a part that belongs to a unit."""

    due: float  # service time of the unit at the failure of a part [ticks]
    birth: float  # service time at which the part was new [ticks]
    unit: int
    cause: int
    fresh: int  # 1 the first failure of an original part
    link: int  # next slot of a list; -1 at its end


SLOT: Final = record_type(SlotRecord)


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
