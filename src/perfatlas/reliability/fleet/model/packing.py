"""Conversion of a described job to the records of compiled code.

Shape legend: H, G heap slots, Q lemons, D units, K causes with lemons, A ageing causes, L causes
with latent faults.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.compiled import NODE, pack_row
from perfatlas.quantities import DAY_S, InvalidSpecError, significant, two_digits
from perfatlas.reliability.fleet import laws
from perfatlas.reliability.fleet.model.checks import cause_rate_per_s, check_job
from perfatlas.reliability.fleet.model.identity import has_unit_ages, has_unit_lemons, what_differs
from perfatlas.reliability.fleet.model.model import NO_TIME, REACHES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.reliability.fleet.model.model import Cause, Fleet, Strategy

ROUNDING_TOLERANCE: Final = 1e-9  # of a number; a smaller remainder is rounding


class EventStream(NamedTuple):
    """An event stream: a cause, the lemons of one, or a fractional part."""

    cause: Cause
    name: str  # Name shown in tables
    law: laws.Law  # Distribution of a lifetime
    parts: float  # Expected number
    lemons: int  # Lemons tracked one by one, to be retired; the last may be fractional

    @property
    def rate_per_s(self) -> float:
        """Long-run rate of its events, effective or not [1/s]."""
        return (self.lemons or self.parts) / laws.mean_s(self.law)


def event_streams(fleet: Fleet, units: int, powered: int, named: int) -> list[EventStream]:
    """Return causes and their lemons: memoryless ones first, each group by frequency.

    Causes that affect work affect only units of the job: idle spares do no work. Each lemon belongs
    to one cause; the number of lemons may be fractional. Where units are named, lemons among all of
    them fail at their rate wherever they are, and those that are not powered have no effect. A
    fractional ageing part is a separate stream of one part, each of whose failures counts with that
    probability.
    """
    streams: list[EventStream] = []
    for cause in fleet.causes:
        parts = cause.per_unit * (units if strikes_work(cause) else powered) + cause.shared
        bad = 0.0
        if cause.lemons is not None and named and has_unit_lemons(cause):
            among = named * cause.lemons.share
            worse = laws.Exponential(
                mean_s=laws.mean_s(cause.lifetime) / (cause.lemons.factor * cause.per_unit)
            )
            lemons = math.ceil(among * (1.0 - ROUNDING_TOLERANCE))
            streams.append(EventStream(cause, f"{cause.name} (lemons)", worse, among, lemons))
        elif cause.lemons is not None:
            bad = parts * cause.lemons.share
            lemons = math.ceil(bad * (1.0 - ROUNDING_TOLERANCE)) if cause.lemons.strikes else 0
            worse = laws.Exponential(mean_s=laws.mean_s(cause.lifetime) / cause.lemons.factor)
            streams.append(EventStream(cause, f"{cause.name} (lemons)", worse, bad, lemons))
        rest = parts - bad
        in_units = named > 0 and has_unit_ages(cause)
        if in_units:  # of the job and all spares, whether powered or not
            rest = cause.per_unit * named
        if not isinstance(cause.lifetime, laws.Exponential) and not _whole(rest):
            fraction = rest - math.floor(rest)
            scale = powered / named if in_units else 1.0
            streams.append(EventStream(cause, cause.name, cause.lifetime, fraction * scale, 0))
            rest = float(math.floor(rest))
        streams.append(EventStream(cause, cause.name, cause.lifetime, rest, 0))
    active = [stream for stream in streams if stream.parts > 0.0]

    def order(stream: EventStream) -> tuple[bool, float]:
        return not isinstance(stream.law, laws.Exponential), -stream.rate_per_s

    return sorted(active, key=order)


def strikes_work(cause: Cause) -> bool:
    """Return whether a cause affects the work on a unit rather than the unit."""
    return cause.takes == "nothing" or cause.effect != "stops"


def _whole(parts: float) -> bool:
    return abs(parts - round(parts)) <= ROUNDING_TOLERANCE * parts


HEAP: Final = 1024  # slots of a heap at first
MAX_NAMED: Final = 5_000_000  # units that are tracked individually; some hundred bytes each
TAKES: Final = ("nothing", "part", "unit")


class PackedJob(NamedTuple):
    """A job ready to run."""

    plan_1: NDArray[Any]  # Constants (1,)
    job_1: NDArray[Any]  # Buffer for the state (1,)
    stores: laws.Stores  # Tables and heaps
    names: tuple[str, ...]  # Names of the causes, in the order of the plan


def pack(
    fleet: Fleet,
    units: int,
    strategy: Strategy,
    horizon_s: float,
    *,
    work_s: float | None = None,
) -> PackedJob:
    """Return a job for compiled code.

    Args:
        horizon_s: Simulated time [s].
        work_s: Work to complete [s]; None runs until the horizon.

    Raises:
        InfeasibleError: The job is larger than the fleet.
    """
    check_job(fleet, units, strategy, horizon_s)
    law_table = laws.PackedLaws()
    plan_1 = np.zeros(1, laws.PLAN)
    plan = plan_1[0]
    _pack_job(plan, fleet, units, strategy, law_table)
    plan["horizon"] = ticks(horizon_s)
    if work_s is not None:
        segments = max(math.ceil(work_s / strategy.interval_s - ROUNDING_TOLERANCE), 1)
        last = ticks(work_s) - (segments - 1) * int(plan["work"])  # it may be shorter
        plan["segments"], plan["last_work"] = segments, min(max(last, 1), plan["work"])
    named = _pack_identity(plan, fleet, units, strategy)
    streams = event_streams(fleet, units, int(plan["powered"]), named)
    if len(streams) > laws.MAX_CAUSES:
        raise InvalidSpecError(
            f"{len(streams)} causes including their lemons: expected at most {laws.MAX_CAUSES}"
        )
    rate_per_s = sum(stream.rate_per_s for stream in streams)
    if rate_per_s * horizon_s > laws.MAX_EVENTS:
        raise InvalidSpecError(
            f"{rate_per_s * horizon_s:.1e} failures are expected, one every"
            f" {two_digits(1 / rate_per_s)} s: the limit per replica is {laws.MAX_EVENTS:,}; check"
            " the unit of the rates or shorten the horizon"
        )
    lemons = _pack_causes(plan, streams, fleet, strategy, law_table)
    for row, repair in zip(plan["repair"], fleet.repairs, strict=False):
        row["stages"] = len(repair.stages)
        row["relapse"] = law_table.add(repair.relapse, f"relapse after {repair.name}")
        for part, stage in zip(row["stage"], repair.stages, strict=False):
            pack_row(part, laws.StageRecord, stage=stage)
            part["law"] = law_table.add(stage.lasts, f"{repair.name}: {stage.name}")
    rows = law_table.rows()
    plan["law"][: rows.size] = rows
    stores = laws.Stores(
        knots_2K=law_table.knots(),
        renewal_H=np.zeros(HEAP, NODE),
        return_G=np.zeros(HEAP, NODE),
        slot_H=np.zeros(HEAP * bool(plan["members"]), laws.SLOT),
        lemon_Q=np.zeros(lemons, np.int64),
        holder_Q=np.zeros(lemons, np.int64),
        lemon_DK=np.zeros(named * int(plan["lemon_kinds"]), np.int64),
        unit_D=np.zeros(named, laws.UNIT),
        member_DA=np.zeros(named * int(plan["members"]), laws.MEMBER),
        down_D=np.zeros(named, np.int64),
        order_D=np.zeros(named, np.int64),
        spot_D=np.zeros(named, np.int64),
        bad_DL=np.zeros(named * int(plan["lurking"]), np.int64),
    )
    return PackedJob(
        plan_1, np.zeros(1, laws.JOB), stores, tuple(stream.name for stream in streams)
    )


def ticks(seconds: float) -> int:
    """Return a time in whole ticks."""
    return round(seconds * laws.TICKS_PER_SECOND)


def grown(packed: PackedJob) -> PackedJob:
    """Return a job with heaps four times as large.

    Raises:
        InvalidSpecError: More than 64 concurrent slowdowns, or too many failures.
    """
    if packed.job_1["full"][0] == 3:
        days = packed.job_1["now"][0] / laws.TICKS_PER_SECOND / DAY_S
        raise InvalidSpecError(
            f"a replica met {laws.MAX_EVENTS:,} failures within {significant(days)} days: worn-out"
            " parts with"
            " as_old repairs fail ever faster; shorten the horizon, or repair them as new"
        )
    if packed.job_1["full"][0] == 2:
        raise InvalidSpecError(
            "more than 64 concurrent slowdowns: lower the rate or the duration of fail-slow causes"
        )
    stores = packed.stores._replace(
        renewal_H=np.zeros(4 * packed.stores.renewal_H.size, NODE),
        return_G=np.zeros(4 * packed.stores.return_G.size, NODE),
        slot_H=np.zeros(4 * packed.stores.slot_H.size, laws.SLOT),
    )
    return packed._replace(stores=stores)


def _pack_job(
    plan: np.void, fleet: Fleet, units: int, strategy: Strategy, law_table: laws.PackedLaws
) -> None:
    spares = strategy.spares
    warm = spares.kind != "cold" and spares.count is not None
    pack_row(
        plan,
        laws.JobPlan,
        fleet=fleet,
        strategy=strategy,
        spares=spares,
        shrink=strategy.shrink,
        maintenance=strategy.maintenance,
    )
    plan["units"], plan["warm"] = units, warm
    plan["powered"] = units + (spares.count or 0) * warm
    plan["spare_start"] = -1
    if spares.start != NO_TIME:
        plan["spare_start"] = law_table.add(spares.start, "start of a spare")
    plan["silent_restart"] = _restart(strategy, strategy.silent_restart)
    plan["slow_restart"] = _restart(strategy, strategy.slow_restart)
    if strategy.maintenance is not None:
        plan["maintenance_restart"] = _restart(strategy, strategy.maintenance.restart)
    plan["levels"] = len(strategy.levels)
    for row, level in zip(plan["level"], strategy.levels, strict=False):
        pack_row(row, laws.LevelRecord, level=level)
        row["read_law"] = -1
        if isinstance(level.read_s, float | int):
            row["read"] = ticks(level.read_s)
        else:
            row["read_law"] = law_table.add(level.read_s, f"read of {level.name}")
    plan["restarts"] = len(strategy.restarts)
    for row, restart in zip(plan["restart"], strategy.restarts, strict=False):
        pack_row(row, laws.RestartRecord, restart=restart)
        for name, phase in restart.phases.items():
            if isinstance(phase, float | int):
                row["fixed"] += ticks(phase)
            else:
                row["law"][row["phases"]] = law_table.add(phase, f"{restart.name}: {name}")
                row["phases"] += 1


def _pack_identity(plan: np.void, fleet: Fleet, units: int, strategy: Strategy) -> int:
    """Return the number of units tracked individually, 0 where counts suffice."""
    differs = what_differs(fleet, strategy)
    if fleet.parts_per_unit > 1:
        differs = (*differs, "failed parts")
    if not differs:
        return 0
    named = units + (strategy.spares.count or 0)
    if named > MAX_NAMED:
        raise InvalidSpecError(
            f"{named:,} units differ in {' and '.join(dict.fromkeys(differs))}: expected at most"
            f" {MAX_NAMED:,} units that are tracked individually"
        )
    plan["named"] = 1
    return named


def _restart(strategy: Strategy, name: str) -> int:
    names = [restart.name for restart in strategy.restarts]
    return names.index(name) if name else 0


def _pack_causes(
    plan: np.void,
    streams: list[EventStream],
    fleet: Fleet,
    strategy: Strategy,
    law_table: laws.PackedLaws,
) -> int:
    """Write the causes; return the number of lemons."""
    plan["causes"] = len(streams)
    rates = [s.rate_per_s for s in streams if isinstance(s.law, laws.Exponential)]
    plan["memoryless"] = len(rates)
    if rates:
        plan["mean_gap"] = laws.TICKS_PER_SECOND / sum(rates)
        plan["chance"][: len(rates)] = np.cumsum(rates) / sum(rates)
    lemons = 0
    kinds: dict[str, int] = {}
    for row, stream in zip(plan["cause"], streams, strict=False):
        _pack_cause(row, stream, fleet, strategy, law_table)
        cause = stream.cause
        row["lemon_kind"] = row["member"] = -1
        if plan["named"] and has_unit_lemons(cause):
            row["lemon_kind"] = kinds.setdefault(cause.name, len(kinds))
        if plan["named"] and has_unit_ages(cause) and stream.parts >= 1.0:
            row["member"] = plan["members"]
            plan["members"] += 1
        if stream.lemons and cause.lemons is not None:
            row["lemons"], row["first_lemon"] = stream.lemons, lemons
            row["strikes"] = cause.lemons.strikes
            row["normal_share"] = 1.0 / cause.lemons.factor
            row["last_lemon"] = stream.parts - (stream.lemons - 1)
            lemons += stream.lemons
        falls_back = any(stage.false_fix > 0.0 for stage in fleet.repairs[row["repair"]].stages)
        row["lurks"] = plan["lurking"] if falls_back else -1
        plan["lurking"] += falls_back
        whole = row["counted"] == 1.0 and not row["lemons"]
        row["plain"] = whole and row["scope"] > 0
    plan["lemon_kinds"] = len(kinds)
    return lemons


def _pack_cause(
    row: np.void, stream: EventStream, fleet: Fleet, strategy: Strategy, law_table: laws.PackedLaws
) -> None:
    cause = stream.cause
    pack_row(row, laws.CauseRecord, cause=cause)
    memoryless = isinstance(stream.law, laws.Exponential)
    row["law"] = law_table.add(stream.law, f"lifetime of {cause.name}")
    row["first_law"] = row["law"]
    if cause.ages == "mixed":
        row["first_law"] = law_table.add(laws.residual(stream.law), f"lifetime of {cause.name}")
    row["parts"] = stream.parts if memoryless else max(round(stream.parts), 1)
    row["counted"] = 1.0 if memoryless else min(stream.parts, 1.0)
    row["scope"] = 0 if strikes_work(cause) else TAKES.index(cause.takes)
    row["shared"] = cause.shared > 0.0
    row["repair"] = [repair.name for repair in fleet.repairs].index(
        cause.repair or fleet.repairs[0].name
    )
    row["restart"] = _restart(strategy, cause.restart)
    row["detection"] = law_table.add(cause.detection, f"detection of {cause.name}")
    if cause.lasts is not None:
        row["duration"] = row["latency"] = law_table.add(cause.lasts, f"duration of {cause.name}")
    row["level"] = needed_level(cause, strategy)


def needed_level(cause: Cause, strategy: Strategy) -> int:
    """Return the first checkpoint level that survives a cause, -1 where peers hold the state."""
    lost = REACHES.index(cause.loses)
    if strategy.step_s is not None and lost <= REACHES.index("unit"):
        return -1
    survivors = (
        index
        for index, level in enumerate(strategy.levels)
        if REACHES.index(level.survives) >= lost
    )
    return next(survivors, 0)


def fleet_rate_per_s(fleet: Fleet, units: int) -> float:
    """Return the long-run rate of all events of a job [1/s]."""
    return sum(cause_rate_per_s(cause, units) for cause in fleet.causes)
