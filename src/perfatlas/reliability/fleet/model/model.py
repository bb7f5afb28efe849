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

    Args:
        factor: Failure rate relative to normal units.
        strikes: Failures after which one is replaced by a normal unit; 0 for never.
    """

    share: float
    factor: float
    strikes: int = 0


@dataclass(frozen=True, kw_only=True)
class Cause:
    """A cause of failures.

    Args:
        name: Name shown in tables.
        lifetime: Distribution of the lifetime of one part, or of the time between events.
        per_unit: Parts per unit; 1/16 for a switch shared by 16 units.
        shared: Parts of the whole job instead, such as one scheduler.
        effect: Stops the job, corrupts its state silently, or slows it down.
        takes: What goes to repair: nothing, one part of a unit, or whole units.
        units: Units that fail together (a rack, everything behind a power unit).
        loses: Checkpoints lost with it: in the memory of the process, of the unit, of its domain,
            or everything not remote.
        restart: Name of the restart that follows; the first of the strategy if empty.
        repair: Name of the repair of the fleet; the first if empty.
        detection: Distribution of the time to detection.
        ages: Parts start "new", at `age_s`, or "mixed" as in a fleet that has long been running.
        age_s: Age of all parts at the start [s].
        as_old: A repaired part keeps its age; otherwise it is as good as new.
        lasts: Distribution of the duration of a slowdown, or of the time to detection of a silent
            error without verification.
        slowdown: Factor on the step time during a slowdown.
        lemons: Parts with a higher failure rate; exponential lifetimes only.
        events: Failures from which its rate was estimated; None if unknown.
    """

    name: str
    lifetime: Law
    per_unit: float = 0.0
    shared: float = 0.0
    effect: Effect = "stops"
    takes: Takes = "unit"
    units: int = 1
    loses: Reach = "unit"
    restart: str = ""
    repair: str = ""
    detection: Law = NO_TIME
    ages: Literal["new", "mixed"] = "new"
    age_s: float = 0.0
    as_old: bool = False
    lasts: Law | None = None
    slowdown: float = 1.0
    lemons: Lemons | None = None
    events: int | None = None


@dataclass(frozen=True, kw_only=True)
class RepairStage:
    """A step of a repair, such as reset, reboot, swap or return to the vendor.

    Args:
        name: Name shown in tables.
        lasts: Distribution of its duration.
        fixes: Probability that it fixes the fault.
        false_fix: Probability of a false fix: the unit returns and fails again; otherwise the next
            stage follows.
    """

    name: str
    lasts: Law
    fixes: float = 1.0
    false_fix: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Repair:
    """The repair of a failed unit.

    Args:
        name: Name by which causes refer to it.
        stages: Stages in order; the last is repeated until it fixes or falsely fixes.
        relapse: Distribution of the running time until a false fix shows.
    """

    name: str
    stages: tuple[RepairStage, ...]
    relapse: Law = NO_TIME


NO_REPAIR_TIMES: Final = (Repair(name="swap", stages=(RepairStage(name="swap", lasts=NO_TIME),)),)


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """Units, their causes of failure and their repairs.

    Args:
        units: Number of units.
        repairs: Repairs; the first is the default of a cause. Where they are not given, failed
            units return at once.
        parts_per_unit: Parts of a unit that fail one by one (trays of a rack); 1 if none.
        parts_needed: Parts needed for the unit to be usable.
        crews: Maximum concurrent repairs; None for no limit.
        spares: Units that are spares when one job uses the whole fleet.
        spares_ref: Source of their number.
    """

    units: int
    causes: tuple[Cause, ...]
    repairs: tuple[Repair, ...] = NO_REPAIR_TIMES
    gpus_per_unit: int = 8
    parts_per_unit: int = 1
    parts_needed: int = 1
    crews: int | None = None
    spares: int = 0
    spares_ref: str = ""

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
    """A checkpoint level; a checkpoint of a level is also one of every level below.

    Args:
        name: Name shown in tables, such as peer memory or remote storage.
        write_s: Blocking time of one [s].
        lag_s: Time from then until it is durable [s]: bytes over the bandwidth of the level.
        every: Segments between two of them; the first level has 1.
        read_s: Time to load one [s], or its distribution.
        survives: The widest failure that it survives.
    """

    name: str = "checkpoint"
    write_s: float
    lag_s: float = 0.0
    every: int = 1
    read_s: float | Law = 0.0
    survives: Reach = "everything"


@dataclass(frozen=True, kw_only=True)
class Restart:
    """A kind of restart and the durations of its phases.

    Args:
        name: Such as in-process, in-job or scheduler; kinds are ordered from light to heavy.
        phases: Time of each phase [s], or its law: drain, reschedule, collective init, warm-up.
        success: Probability that it works; otherwise the next kind is tried.
    """

    name: str
    phases: Mapping[str, float | Law] = field(default_factory=dict)
    success: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Spares:
    """Spare units of a job.

    Args:
        count: Number of spares; None for unlimited.
        kind: Cold ones do not fail; warm and hot ones are powered and do.
        start: Distribution of the extra restart time to start one: long for cold ones (power up,
            image, health checks), zero for hot ones.
        order: Which spare is taken: a random one, the first by number, the one that has been idle
            longest, or the one that returned last. It matters where units differ.
        reallocated: Whether every restart allocates all units anew, those with the lowest numbers,
            as a scheduler does that queues the job again.
    """

    count: int | None = None
    kind: Literal["cold", "warm", "hot"] = "cold"
    start: Law = NO_TIME
    order: SpareOrder = "random"
    reallocated: bool = False


@dataclass(frozen=True, kw_only=True)
class Shrink:
    """Elastic operation with fewer units when no spare is left.

    Args:
        replica_units: Units dropped together: those of a data-parallel replica; 1 where tensor
            parallelism shrinks instead.
        fewest: Units below which the job waits.
        overhead: Factor on the step time beyond the share of units lost.
        rejoin_s: Pause when a unit rejoins [s].
        regrows: Whether units join a running job; otherwise it is complete again only after it
            fell below `fewest` and waited for all of its units.
    """

    replica_units: int
    fewest: int
    overhead: float = 1.0
    rejoin_s: float = 0.0
    regrows: bool = True


@dataclass(frozen=True, kw_only=True)
class Maintenance:
    """Planned downtime, after a checkpoint of the most durable level.

    Args:
        every_s: Time between the scheduled starts of two maintenances [s].
        lasts_s: Duration [s], from when the job has drained.
        restart: Name of the restart that follows; the first if empty.
    """

    every_s: float
    lasts_s: float
    restart: str = ""


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """The fault-tolerance strategy of a job.

    Args:
        name: Name shown in tables.
        interval_s: Work between checkpoints [s].
        levels: Checkpoint levels, nearest first.
        restarts: Kinds of restarts, lightest first.
        verify_s: Verification against silent errors before every checkpoint [s]; 0 for none.
        retained: Checkpoints kept, for silent errors that are detected late.
        step_s: Step lost where peers hold the state; None where they never do.
        spares: Spare units.
        shrink: Elastic operation with fewer units; None to wait.
        maintenance: Planned downtime.
        slow_patience_s: Time lost to a slow unit before it is replaced [s]; None for never. The
            ski-rental rule sets it to the cost of replacement. The job resumes without lost work.
        silent_restart: Name of the restart after a silent error; the first if empty.
        slow_restart: Name of the restart that replaces a slow unit; the first if empty.
        detection_exposed: Whether further failures can occur before the first is detected.
        restart_exposed: Whether failures can occur during a restart.
    """

    name: str = "synchronous"
    interval_s: float
    levels: tuple[Level, ...]
    restarts: tuple[Restart, ...] = (Restart(name="restart"),)
    verify_s: float = 0.0
    retained: int = 1
    step_s: float | None = None
    spares: Spares = Spares()
    shrink: Shrink | None = None
    maintenance: Maintenance | None = None
    slow_patience_s: float | None = None
    silent_restart: str = ""
    slow_restart: str = ""
    detection_exposed: bool = False
    restart_exposed: bool = True


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
    """A job on a fleet.

    Args:
        units: Units it needs.
        horizon_s: Simulated time, after which it is abandoned [s].
        work_s: Work to complete, followed by a last checkpoint [s]; the last segment may be
            shorter. None runs until the horizon.
    """

    fleet: Fleet
    units: int
    horizon_s: float
    work_s: float | None = None
