"""A fleet and what fails in it, as a reader describes it.

A unit is what a job loses and gets as a whole, mostly a node of 8 GPUs; a rack of 72 of which 64
are used is a unit with parts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from perfatlas.fleet.laws import Constant, Exponential, Law

if TYPE_CHECKING:
    from collections.abc import Mapping

Effect = Literal["stops", "corrupts", "slows"]
Takes = Literal["nothing", "part", "unit"]
Reach = Literal["process", "unit", "domain", "everything"]
NO_TIME = Constant(value_s=0.0)
REACHES: tuple[Reach, ...] = ("process", "unit", "domain", "everything")


@dataclass(frozen=True, kw_only=True)
class Lemons:
    """Parts that fail far more often than their like.

    Args:
        share: Of all parts.
        factor: By which they fail more often.
        strikes: Failures after which one is retired and a normal part takes its place; 0 for never.
    """

    share: float
    factor: float
    strikes: int = 0


@dataclass(frozen=True, kw_only=True)
class Cause:
    """Something that fails.

    Args:
        name: As tables show it.
        lifetime: Law of one part's life, or of the time between events.
        per_unit: Parts of one unit; 1/16 of a switch, where 16 units share one.
        shared: Parts for the whole job instead, such as one scheduler.
        effect: It stops the job, corrupts its state silently, or slows it down.
        takes: What leaves for repair: nothing, one part of a unit, or whole units.
        units: Units that leave together (a rack, everything behind a power unit).
        loses: Checkpoints that do not survive it: those in the memory of the process, of the unit,
            of its domain, or everything that is not remote.
        restart: Name of the restart it leads to; the first of the strategy if empty.
        repair: Name of the repair of the fleet; the first if empty.
        detection: Law of the time until it is noticed.
        ages: Parts start "new", at `age_s`, or "mixed" as in a fleet that has long been running.
        age_s: Age of all parts at the start [s].
        as_old: A repaired part is as old as before; otherwise it is as new.
        lasts: Law of a slow spell, or of the time until a silent error is noticed if nothing
            verifies.
        slowdown: Factor on the time of a step in a slow spell.
        lemons: Some parts are worse; memoryless lifetimes only.
        events: Failures that its rate was counted from; None where that is not known.
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
        name: As tables show it.
        lasts: Law of its time.
        fixes: Probability that it fixes.
        false_fix: Probability that it only seems to: the unit returns and fails again; with what is
            left the next stage follows.
    """

    name: str
    lasts: Law
    fixes: float = 1.0
    false_fix: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Repair:
    """What happens to a unit that failed.

    Args:
        name: By which causes refer to it.
        stages: In order; the last is repeated until something comes of it.
        relapse: Law of the time in the job after which a false fix shows.
    """

    name: str
    stages: tuple[RepairStage, ...]
    relapse: Law = NO_TIME


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """Units, what fails in them, and how they are repaired.

    Args:
        units: Units there are.
        causes: What fails.
        repairs: How; the first is meant where a cause names none.
        gpus_per_unit: GPUs of a unit.
        parts_per_unit: Parts of a unit that are lost one by one (trays of a rack); 1 if whole.
        parts_needed: Of them, for the unit to be of use.
        crews: Repairs that go on at once; None for as many as are needed.
    """

    units: int
    causes: tuple[Cause, ...]
    repairs: tuple[Repair, ...] = (
        Repair(name="swap", stages=(RepairStage(name="swap", lasts=NO_TIME),)),
    )
    gpus_per_unit: int = 8
    parts_per_unit: int = 1
    parts_needed: int = 1
    crews: int | None = None


@dataclass(frozen=True, kw_only=True)
class Level:
    """Checkpoints of one kind; one that goes far passes the nearer levels and is one of them too.

    Args:
        name: As tables show it, such as peer memory or remote storage.
        write_s: Time the job stands still for one [s].
        lag_s: From then until it is durable [s]: bytes over the bandwidth of the level.
        every: Segments between two of them; the first level has 1.
        read_s: Time to load one [s], or its law.
        survives: The widest failure after which it can still be read.
    """

    name: str = "checkpoint"
    write_s: float
    lag_s: float = 0.0
    every: int = 1
    read_s: float | Law = 0.0
    survives: Reach = "everything"


@dataclass(frozen=True, kw_only=True)
class Restart:
    """A way to restart and what each phase of it takes.

    Args:
        name: In-process, in-job or scheduler, for example; kinds are given from light to grave.
        phases: Time of each phase [s], or its law: drain, reschedule, collective init, warm-up.
        success: Probability that it works; otherwise the next kind follows.
    """

    name: str
    phases: Mapping[str, float | Law] = field(default_factory=dict)
    success: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Spares:
    """Units that stand by for a job.

    Args:
        count: How many; None for never missing.
        kind: Cold ones do not fail; warm and hot ones are powered and do.
        start: Law of what a restart takes longer when it takes one in: long for cold ones (power
            up, image, health checks), nothing for hot ones.
    """

    count: int | None = None
    kind: Literal["cold", "warm", "hot"] = "cold"
    start: Law = NO_TIME


@dataclass(frozen=True, kw_only=True)
class Shrink:
    """Going on with fewer units when none is left.

    Args:
        replica_units: Units given up together: those of a data-parallel replica; 1 where tensor
            parallelism shrinks instead.
        fewest: Units below which the job waits.
        overhead: Factor on the time of a step beyond the share of units lost.
        rejoin_s: Pause when a unit comes back [s].
    """

    replica_units: int
    fewest: int
    overhead: float = 1.0
    rejoin_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Maintenance:
    """Planned downtime; the job drains to a checkpoint first and saves one of the widest kind.

    Args:
        every_s: From the time of one in the calendar to that of the next [s].
        lasts_s: How long [s], from when the job has drained.
        restart: Name of the restart that follows; the first if empty.
    """

    every_s: float
    lasts_s: float
    restart: str = ""


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """How a job lives with failures.

    Args:
        name: As tables show it.
        interval_s: Work between checkpoints [s].
        levels: Kinds of checkpoints, nearest first.
        restarts: Kinds of restarts, lightest first.
        verify_s: Verification against silent errors before every checkpoint [s]; 0 for none.
        retained: Checkpoints kept, for silent errors that are noticed late.
        step_s: Step lost where peers still hold the state; None where they never do.
        spares: Units that stand by.
        shrink: Going on with fewer units; None waits.
        maintenance: Planned downtime.
        slow_patience_s: Time lost to a slow unit before it is replaced [s]; None for never. The
            ski-rental rule sets it to what replacing costs. The job goes on from where it was.
        silent_restart: Name of the restart after a silent error; the first if empty.
        slow_restart: Name of the restart that replaces a slow unit; the first if empty.
        detection_exposed: Whether further failures strike before the first is detected.
        restart_exposed: Whether failures strike in a restart.
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
        ranks: Processes.
        fixed_s: Part that does not grow [s].
        per_rank_s: Growth with every rank [s].

    Source: assumption: linear. MegaScale (arXiv 2402.15627, public notes) went from 1047 s to under
        5 s at 2,048 ranks and stays under 30 s at 10,000: at most 2.4 to 3 ms per rank.
    """
    return fixed_s + per_rank_s * ranks


def one_cause(mtti_s: float, units: int, **fields: object) -> Fleet:
    """Return a fleet in which one memoryless cause interrupts a job on all units.

    Args:
        mtti_s: Mean time between interruptions of a job on all units [s].
        units: Units.
        fields: Further fields of the cause.
    """
    lifetime = Exponential(mean_s=mtti_s * units)
    cause = Cause(name="failure", lifetime=lifetime, per_unit=1.0, **fields)  # type: ignore[arg-type]
    return Fleet(units=units, causes=(cause,))


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job on a fleet.

    Args:
        fleet: Where it runs.
        units: Units it needs.
        horizon_s: How long it is watched, or after which it is given up [s].
        work_s: Work after which it is done, and saved once more [s]; the last segment is what is
            left of it. None runs until the horizon.
    """

    fleet: Fleet
    units: int
    horizon_s: float
    work_s: float | None = None
