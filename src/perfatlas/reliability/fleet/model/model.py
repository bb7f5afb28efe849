"""A fleet and its causes of failure, as users describe it.

A unit is what a job is allocated and loses as a whole, usually a node of 8 GPUs; a rack of 72 GPUs
of which 64 are used is a unit with parts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from perfatlas.reliability.fleet.laws import Constant, Exponential, Law

if TYPE_CHECKING:
    from collections.abc import Mapping

Effect = Literal["stops", "corrupts", "slows"]
Takes = Literal["nothing", "part", "unit"]
SpareOrder = Literal["random", "first", "longest_idle", "last_returned"]
Reach = Literal["process", "unit", "domain", "everything"]
NO_TIME = Constant(value_s=0.0)
REACHES: tuple[Reach, ...] = ("process", "unit", "domain", "everything")


@dataclass(frozen=True, kw_only=True)
class Lemons:
    """Units that fail far more often than others from a cause.

    All parts of a lemon fail at its rate. Parts that no unit has to itself, of a cause that takes
    several units or belongs to the whole job, are lemons one by one.
    """

    share: float
    factor: float  # Failure rate relative to normal units
    strikes: int = 0  # Failures after which one is replaced by a normal unit; 0 for never


@dataclass(frozen=True, kw_only=True)
class Cause:
    """A cause of failures."""

    name: str  # Name shown in tables
    lifetime: Law  # Distribution of the lifetime of one part, or of the time between events
    per_unit: float = 0.0  # Parts per unit; 1/16 for a switch shared by 16 units
    shared: float = 0.0  # Parts of the whole job instead, such as one scheduler
    effect: Effect = "stops"  # Stops the job, corrupts its state silently, or slows it down
    takes: Takes = "unit"  # What goes to repair: nothing, one part of a unit, or whole units
    units: int = 1  # Units that fail together (a rack, everything behind a power unit)
    # Checkpoints lost with it: in the memory of the process, of the unit, of its domain, or
    # everything not remote
    loses: Reach = "unit"
    restart: str = ""  # Name of the restart that follows; the first of the strategy if empty
    repair: str = ""  # Name of the repair of the fleet; the first if empty
    detection: Law = NO_TIME  # Distribution of the time to detection
    # Parts start "new", at `age_s`, or "mixed" as in a fleet that has long been running
    ages: Literal["new", "mixed"] = "new"
    age_s: float = 0.0  # Age of all parts at the start [s]
    as_old: bool = False  # A repaired part keeps its age; otherwise it is as good as new
    # Distribution of the duration of a slowdown, or of the time to detection of a silent error
    # without verification
    lasts: Law | None = None
    slowdown: float = 1.0  # Factor on the step time during a slowdown
    lemons: Lemons | None = None  # Parts with a higher failure rate; exponential lifetimes only
    events: int | None = None  # Failures from which its rate was estimated; None if unknown


@dataclass(frozen=True, kw_only=True)
class RepairStage:
    """A step of a repair, such as reset, reboot, swap or return to the vendor."""

    name: str  # Name shown in tables
    lasts: Law  # Distribution of its duration
    fixes: float = 1.0  # Probability that it fixes the fault
    # Probability of a false fix: the unit returns and fails again; otherwise the next stage follows
    false_fix: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Repair:
    """The repair of a failed unit."""

    name: str  # Name by which causes refer to it
    # Stages in order; the last is repeated until it fixes or falsely fixes
    stages: tuple[RepairStage, ...]
    relapse: Law = NO_TIME  # Distribution of the running time until a false fix shows


NO_REPAIR_TIMES: Final = (Repair(name="swap", stages=(RepairStage(name="swap", lasts=NO_TIME),)),)


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """Units, their causes of failure and their repairs."""

    units: int  # Number of units
    causes: tuple[Cause, ...]
    # Repairs; the first is the default of a cause. Where they are not given, failed units return at
    # once.
    repairs: tuple[Repair, ...] = NO_REPAIR_TIMES
    gpus_per_unit: int = 8
    parts_per_unit: int = 1  # Parts of a unit that fail one by one (trays of a rack); 1 if none
    parts_needed: int = 1  # Parts needed for the unit to be usable
    crews: int | None = None  # Maximum concurrent repairs; None for no limit
    spares: int = 0  # Units that are spares when one job uses the whole fleet
    spares_ref: str = ""  # Source of their number

    def spares_for(self, units: int) -> int:
        """Return the spares of a job in the fleet's ratio of spares to other units, rounded up.

        At most the rest of the fleet.

        Example:
            >>> from perfatlas.reliability.fleet.model import resolve_fleet
            >>> resolve_fleet("llama3").spares_for(128)  # 32 spares for 2,048 nodes
            2
        """
        wanted = -(-units * self.spares // (self.units - self.spares))
        return min(wanted, self.units - units)


@dataclass(frozen=True, kw_only=True)
class Level:
    """A checkpoint level; a checkpoint of a level is also one of every level below."""

    name: str = "checkpoint"  # Name shown in tables, such as peer memory or remote storage
    write_s: float  # Blocking time of one [s]
    # Time from then until it is durable [s]: bytes over the bandwidth of the level
    lag_s: float = 0.0
    every: int = 1  # Segments between two of them; the first level has 1
    read_s: float | Law = 0.0  # Time to load one [s], or its distribution
    survives: Reach = "everything"  # The widest failure that it survives


@dataclass(frozen=True, kw_only=True)
class Restart:
    """A kind of restart and the durations of its phases."""

    name: str  # Such as in-process, in-job or scheduler; kinds are ordered from light to heavy
    # Time of each phase [s], or its law: drain, reschedule, collective init, warm-up
    phases: Mapping[str, float | Law] = field(default_factory=dict)
    success: float = 1.0  # Probability that it works; otherwise the next kind is tried


@dataclass(frozen=True, kw_only=True)
class Spares:
    """Spare units of a job."""

    count: int | None = None  # Number of spares; None for unlimited
    # Cold ones do not fail; warm and hot ones are powered and do
    kind: Literal["cold", "warm", "hot"] = "cold"
    # Distribution of the extra restart time to start one: long for cold ones (power up, image,
    # health checks), zero for hot ones
    start: Law = NO_TIME
    # Which spare is taken: a random one, the first by number, the one that has been idle longest,
    # or the one that returned last. It matters where units differ.
    order: SpareOrder = "random"
    # Whether every restart allocates all units anew, those with the lowest numbers, as a scheduler
    # does that queues the job again
    reallocated: bool = False


@dataclass(frozen=True, kw_only=True)
class Shrink:
    """Elastic operation with fewer units when no spare is left."""

    # Units dropped together: those of a data-parallel replica; 1 where tensor parallelism shrinks
    # instead
    replica_units: int
    fewest: int  # Units below which the job waits
    overhead: float = 1.0  # Factor on the step time beyond the share of units lost
    rejoin_s: float = 0.0  # Pause when a unit rejoins [s]
    # Whether units join a running job; otherwise it is complete again only after it fell below
    # `fewest` and waited for all of its units
    regrows: bool = True


@dataclass(frozen=True, kw_only=True)
class Maintenance:
    """Planned downtime, after a checkpoint of the most durable level."""

    every_s: float  # Time between the scheduled starts of two maintenances [s]
    lasts_s: float  # Duration [s], from when the job has drained
    restart: str = ""  # Name of the restart that follows; the first if empty


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """The fault-tolerance strategy of a job."""

    name: str = "synchronous"  # Name shown in tables
    interval_s: float  # Work between checkpoints [s]
    levels: tuple[Level, ...]  # Checkpoint levels, nearest first
    restarts: tuple[Restart, ...] = (Restart(name="restart"),)  # Kinds of restarts, lightest first
    # Verification against silent errors before every checkpoint [s]; 0 for none
    verify_s: float = 0.0
    retained: int = 1  # Checkpoints kept, for silent errors that are detected late
    step_s: float | None = None  # Step lost where peers hold the state; None where they never do
    spares: Spares = Spares()  # Spare units
    shrink: Shrink | None = None  # Elastic operation with fewer units; None to wait
    maintenance: Maintenance | None = None  # Planned downtime
    # Time lost to a slow unit before it is replaced [s]; None for never. The ski-rental rule sets
    # it to the cost of replacement. The job resumes without lost work.
    slow_patience_s: float | None = None
    silent_restart: str = ""  # Name of the restart after a silent error; the first if empty
    slow_restart: str = ""  # Name of the restart that replaces a slow unit; the first if empty
    # Whether further failures can occur before the first is detected
    detection_exposed: bool = False
    restart_exposed: bool = True  # Whether failures can occur during a restart


def collective_init_s(ranks: int, *, fixed_s: float, per_rank_s: float) -> float:
    """Return the time to bring up the communicators of a job [s].

    Args:
        fixed_s: Constant part [s].
        per_rank_s: Increase per rank [s].

    Source: assumption: linear. MegaScale (arXiv 2402.15627, public notes) went from 1047 s to under
        5 s at 2,048 ranks and stays under 30 s at 10,000: at most 2.4 to 3 ms per rank.
    """
    return fixed_s + per_rank_s * ranks


def one_cause(mtti_s: float, units: int, **fields: object) -> Fleet:
    """Return a fleet in which one memoryless cause interrupts a job on all units.

    Args:
        mtti_s: Mean time between interruptions of a job on all units [s].
    """
    lifetime = Exponential(mean_s=mtti_s * units)
    cause = Cause(name="failure", lifetime=lifetime, per_unit=1.0, **fields)  # type: ignore[arg-type]
    return Fleet(units=units, causes=(cause,))


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job on a fleet."""

    fleet: Fleet
    units: int  # Units it needs
    horizon_s: float  # Simulated time, after which it is abandoned [s]
    # Work to complete, followed by a last checkpoint [s]; the last segment may be shorter. None
    # runs until the horizon.
    work_s: float | None = None
