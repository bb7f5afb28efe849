"""Checks of fleets, jobs and strategies for inconsistent values."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from perfatlas import quantities
from perfatlas.compiled import check_bounds, packed_values
from perfatlas.reliability.fleet import laws
from perfatlas.reliability.fleet.model.model import REACHES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfatlas.reliability.fleet.model.model import Cause, Fleet, Shrink, Strategy

MEANS_S: Final = (1e-3, 3.6e18)  # mean lifetimes: 1,000 failures per second to 1e-6 FIT


def check_job(fleet: Fleet, units: int, strategy: Strategy, horizon_s: float) -> None:
    """Raise for a job that does not fit its fleet, its strategy or the range of the clock."""
    check_bounds("horizon_s", horizon_s, 1e-3, laws.MAX_S)
    if units < 1 or fleet.units < 1:
        raise quantities.InvalidSpecError(
            f"a job of {quantities.counted(units, 'unit')}: expected at least 1 unit"
        )
    spares = strategy.spares.count
    if units > fleet.units:
        raise quantities.InfeasibleError(
            f"the job needs {quantities.counted(units, 'unit')}, the fleet has {fleet.units}",
            advice=(f"run it on {quantities.counted(fleet.units, 'unit')} or enlarge the fleet",),
        )
    if spares is not None and units + spares > fleet.units:
        raise quantities.InfeasibleError(
            f"{quantities.counted(units, 'unit')} and {quantities.counted(spares, 'spare')} exceed"
            f" the fleet's {fleet.units}",
            advice=(
                f"use {quantities.counted(fleet.units - units, 'spare')} or enlarge the fleet",
            ),
        )
    check_fleet(fleet)
    check_strategy(strategy, units)
    _check_names(fleet, strategy)


def check_fleet(fleet: Fleet) -> None:
    """Raise for a fleet with invalid rates, shares or repairs."""
    check_bounds("units", fleet.units, 1, laws.MAX_UNITS)
    check_bounds("gpus_per_unit", fleet.gpus_per_unit, 1, laws.MAX_UNITS)
    packed_values(laws.JobPlan, fleet=fleet)
    check_bounds("causes", len(fleet.causes), 1, laws.MAX_CAUSES // 2)
    check_bounds("repairs", len(fleet.repairs), 1, laws.MAX_REPAIRS)
    if not 1 <= fleet.parts_needed <= fleet.parts_per_unit:
        raise quantities.InvalidSpecError(
            f"parts_needed = {fleet.parts_needed}: expected 1 to parts_per_unit,"
            f" {fleet.parts_per_unit}"
        )
    if not 0 <= fleet.spares < fleet.units:
        raise quantities.InvalidSpecError(
            f"spares = {fleet.spares}: expected 0 to {fleet.units - 1}, fewer than the fleet's"
            f" {quantities.counted(fleet.units, 'unit')}"
        )
    repairs = [repair.name for repair in fleet.repairs]
    check_once("cause", [cause.name for cause in fleet.causes])
    check_once("repair", repairs)
    for cause in fleet.causes:
        _check_cause(cause, fleet)
        _check_known(f"cause {cause.name!r}", "repair", cause.repair, repairs)
    for repair in fleet.repairs:
        where = f"repair {repair.name!r}"
        check_bounds(f"{where}: stages", len(repair.stages), 1, laws.MAX_STAGES)
        for stage in repair.stages:
            if (
                not 0.0 < stage.fixes <= 1.0
                or not 0.0 <= stage.false_fix <= 1.0 - stage.fixes + 1e-12
            ):
                raise quantities.InvalidSpecError(
                    f"{where}: stage {stage.name!r}: fixes = {stage.fixes:g} and false_fix ="
                    f" {stage.false_fix:g}: expected probabilities with a sum of at most 1, fixes"
                    " above 0"
                )


def check_once(kind: str, names: Iterable[str]) -> None:
    """Raise for a name used twice by one kind of object."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise quantities.InvalidSpecError(
                f"{kind} {quantities.repr_for_error(name)} is used twice: expected unique names"
            )
        seen.add(name)


def _check_cause(cause: Cause, fleet: Fleet) -> None:
    where = f"cause {cause.name!r}"
    packed_values(laws.CauseRecord, f"{where}: ", cause=cause)
    check_bounds(f"{where}: shared", cause.shared, 0.0, laws.MAX_S)
    laws.check_law(cause.lifetime, f"{where}: lifetime")
    lifetime_s = laws.mean_s(cause.lifetime)
    if not MEANS_S[0] <= lifetime_s <= MEANS_S[1]:
        rate = (
            f", which is a rate of {quantities.significant(1.0 / lifetime_s)} /s"
            if lifetime_s > 0.0
            else ""
        )
        raise quantities.InvalidSpecError(
            f"{where}: a mean lifetime of {quantities.significant(lifetime_s)} s{rate}: expected"
            f" {MEANS_S[0]:g} s to"
            f" {MEANS_S[1]:g} s (1e-6 FIT); check the unit"
        )
    if (cause.per_unit > 0.0) == (cause.shared > 0.0):
        raise quantities.InvalidSpecError(f"{where}: expected either per_unit or shared above zero")
    if cause.takes == "part" and fleet.parts_per_unit == 1:
        raise quantities.InvalidSpecError(f"{where}: takes = 'part' needs parts_per_unit above 1")
    if cause.takes == "unit":
        if not 1 <= cause.units <= 64:
            raise quantities.InvalidSpecError(
                f"{where}: units = {cause.units}: expected 1 to 64 at once"
            )
        if cause.units > fleet.units:
            raise quantities.InvalidSpecError(
                f"{where}: units = {cause.units} at once in a fleet of"
                f" {quantities.counted(fleet.units, 'unit')}: expected at most {fleet.units}"
            )
    if cause.effect == "slows" and (cause.lasts is None or not 1.0 < cause.slowdown <= 1000.0):
        raise quantities.InvalidSpecError(
            f"{where}: a cause that slows the job needs lasts and a slowdown above 1, at most 1000"
        )
    if cause.as_old and cause.ages == "mixed":
        raise quantities.InvalidSpecError(f"{where}: as_old has no steady-state ages: set age")
    lemons = cause.lemons
    if lemons is not None:
        if not isinstance(cause.lifetime, laws.Exponential):
            raise quantities.InvalidSpecError(
                f"{where}: lemons need an exponential lifetime: make it exponential, or define a"
                " separate cause for the worse parts"
            )
        if not 0.0 < lemons.share < 1.0 or not 1.0 < lemons.factor < 1e6 or lemons.strikes < 0:
            raise quantities.InvalidSpecError(
                f"{where}: lemons: expected a share below 1 and a factor above 1"
            )


def check_strategy(strategy: Strategy, units: int) -> None:
    """Raise for a strategy with invalid times or levels."""
    where = f"strategy {strategy.name!r}"
    packed_values(laws.JobPlan, f"{where}: ", strategy=strategy)
    check_bounds(f"{where}: levels", len(strategy.levels), 1, laws.MAX_LEVELS)
    for level in strategy.levels:
        packed_values(laws.LevelRecord, f"{where}: {level.name}: ", level=level)
        if isinstance(level.read_s, float | int):
            check_bounds(f"{where}: {level.name}: read_s", level.read_s, 0.0, laws.MAX_S)
    every = [level.every for level in strategy.levels]
    longest_s = strategy.interval_s + strategy.verify_s + max(x.write_s for x in strategy.levels)
    if max(every) * longest_s > laws.MAX_S:
        raise quantities.InvalidSpecError(
            f"{where}: a checkpoint every {max(every):,} segments is never reached: expected one"
            f" within {laws.MAX_S:g} s"
        )
    if every[0] != 1 or any(b % a or b <= a for a, b in pairwise(every)):
        raise quantities.InvalidSpecError(
            f"{where}: levels every {every} segments: expected 1 for the first level and larger"
            " multiples after it"
        )
    _check_restarts(strategy, where)
    if strategy.spares.count is not None and strategy.spares.count < 0:
        raise quantities.InvalidSpecError(
            f"{where}: spares = {strategy.spares.count}: expected 0 or more"
        )
    if strategy.shrink is not None:
        _check_shrink(strategy.shrink, units, where)
    if strategy.maintenance is not None:
        packed_values(laws.JobPlan, f"{where}: maintenance ", maintenance=strategy.maintenance)
        if strategy.maintenance.lasts_s >= strategy.maintenance.every_s:
            raise quantities.InvalidSpecError(
                f"{where}: maintenance of {strategy.maintenance.lasts_s:g} s every"
                f" {strategy.maintenance.every_s:g} s leaves no time for work: make it shorter or"
                " less frequent"
            )


def _check_restarts(strategy: Strategy, where: str) -> None:
    check_bounds(f"{where}: restarts", len(strategy.restarts), 1, laws.MAX_RESTARTS)
    for restart in strategy.restarts:
        check_bounds(f"{where}: {restart.name}: phases", len(restart.phases), 0, laws.MAX_PHASES)
        for name, phase in restart.phases.items():
            if isinstance(phase, float | int):
                check_bounds(f"{where}: {restart.name}: {name}", phase, 0.0, laws.MAX_S)
        if not 0.0 < restart.success <= 1.0:
            raise quantities.InvalidSpecError(
                f"{where}: {restart.name}: success = {restart.success:g}: expected 0 to 1"
            )


def _check_shrink(shrink: Shrink, units: int, where: str) -> None:
    where = f"{where}: shrink"
    packed_values(laws.JobPlan, f"{where}: ", shrink=shrink)
    if not 1 <= shrink.fewest < units:
        raise quantities.InvalidSpecError(
            f"{where}: fewest = {quantities.repr_for_error(shrink.fewest)}: expected at least 1"
            " unit and fewer than"
            f" the job's {units:,}"
        )
    replica = shrink.replica_units
    if replica < 1:
        raise quantities.InvalidSpecError(
            f"{where}: replica_units = {quantities.repr_for_error(replica)}: expected 1 or more"
        )
    if replica >= units:
        raise quantities.InvalidSpecError(
            f"{where}: a replica of {replica} units is the whole job of {units}: no units remain;"
            " use smaller replicas, or omit shrink"
        )
    if -(-(units - shrink.fewest) // replica) * replica >= units:
        raise quantities.InvalidSpecError(
            f"{where}: with {shrink.fewest} of {units} units no replica of {replica} units"
            f" remains: set fewest to at least {units - (units - 1) // replica * replica}"
        )
    if rest := (units - shrink.fewest) % replica:
        raise quantities.InvalidSpecError(
            f"{where}: fewest = {shrink.fewest}: a job of {quantities.counted(units, 'unit')} that"
            f" drops replicas of {replica} runs on {shrink.fewest + rest} or"
            f" {shrink.fewest + rest - replica}: set fewest to one of these"
        )


def _check_names(fleet: Fleet, strategy: Strategy) -> None:
    restarts = [restart.name for restart in strategy.restarts]
    widest = max(REACHES.index(level.survives) for level in strategy.levels)
    for cause in fleet.causes:
        _check_known(f"cause {cause.name!r}", "restart", cause.restart, restarts)
        if cause.effect == "stops" and REACHES.index(cause.loses) > widest:
            raise quantities.InvalidSpecError(
                f"cause {cause.name!r} has loses = {cause.loses!r}, and no checkpoint of strategy"
                f" {strategy.name!r} survives that: add a level with survives = 'everything'"
            )
        noticed = cause.lasts is not None or strategy.verify_s > 0.0
        if cause.effect == "corrupts" and not noticed:
            raise quantities.InvalidSpecError(
                f"cause {cause.name!r} corrupts silently: set verify in the strategy, or lasts,"
                " the distribution of the detection time, in the cause"
            )
    where = f"strategy {strategy.name!r}"
    _check_known(f"{where}: after silent errors", "restart", strategy.silent_restart, restarts)
    _check_known(f"{where}: after slowdowns", "restart", strategy.slow_restart, restarts)
    if strategy.maintenance is not None:
        _check_known(f"{where}: maintenance", "restart", strategy.maintenance.restart, restarts)


def _check_known(where: str, kind: str, name: str, names: Iterable[str]) -> None:
    candidates = list(names)
    if name and name not in candidates:
        there = ", ".join(repr(other) for other in candidates)
        raise quantities.InvalidSpecError(
            f"{where}: unknown {kind} {quantities.repr_for_error(name)}; known:"
            f" {there}{quantities.did_you_mean(name, candidates)}"
        )


def cause_rate_per_s(cause: Cause, units: float) -> float:
    """Return the long-run rate of a cause over a number of units [1/s].

    Args:
        units: Units whose parts can fail.
    """
    extra = cause.lemons.share * (cause.lemons.factor - 1.0) if cause.lemons else 0.0
    parts = cause.per_unit * units + cause.shared
    return parts * (1.0 + extra) / laws.mean_s(cause.lifetime)
