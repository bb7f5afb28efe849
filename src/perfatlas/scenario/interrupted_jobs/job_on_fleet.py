"""A job on a fleet, from named fields to the input of the simulator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from perfatlas.declarations import verb_fields
from perfatlas.quantities import InfeasibleError, InvalidSpecError, counted, repr_for_error
from perfatlas.reliability.fleet import model
from perfatlas.reliability.fleet.closed_form import likely_interval_s
from perfatlas.reliability.fleet.laws import Constant
from perfatlas.reliability.fleet.simulator import chosen_interval_s
from perfatlas.scenario.fields import refuse_unused
from perfatlas.vocabulary.fields import Missing

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfatlas.scenario.interrupted_jobs.job_fields import FleetGoodput

GIVEN_UP: Final = 20.0  # multiple of the work after which an unfinished job is abandoned


@dataclass(frozen=True, kw_only=True)
class FleetJob:
    """A job, its fault-tolerance strategy and its checkpoint interval."""

    job: model.Job
    strategy: model.Strategy
    # Optimal work between checkpoints by a closed form, or by simulation where parts age [s]; None
    # where writes take no time or there is none
    optimal_interval_s: float | None
    interval_note: str  # Basis of the optimum, or why there is none
    interval_is_given: bool  # Whether the interval was set
    strategy_is_named: bool  # Whether a file has the strategy, under its name
    spares_are_default: bool  # Whether the fleet decides the number of spares
    others: tuple[model.Strategy, ...] = ()  # Other strategies of the same file

    @property
    def gpus(self) -> int:
        """GPUs of the job."""
        return self.job.units * self.job.fleet.gpus_per_unit


def fleet_job(inputs: FleetGoodput, state_bytes: float | None = None) -> FleetJob:
    """Return the job that fields describe.

    Args:
        state_bytes: Size of a checkpoint, for strategies with bandwidths [bytes].

    Raises:
        InvalidSpecError: The fleet or strategy is unknown, or a number is invalid.
        InfeasibleError: The job is larger than the fleet.
    """
    fleet = model.resolve_fleet(inputs.fleet)
    if inputs.fleet_units is not None:
        spares = fleet.spares * inputs.fleet_units // fleet.units
        fleet = replace(fleet, units=inputs.fleet_units, spares=spares)
    if inputs.detection_s is not None:
        detection = Constant(value_s=inputs.detection_s)
        fleet = replace(
            fleet, causes=tuple(replace(cause, detection=detection) for cause in fleet.causes)
        )
    elif inputs.response is not None:
        fleet = model.with_policy(fleet, model.recovery_policies()[inputs.response])
    chosen, rest = _tables(inputs)
    tried = rest if inputs.what_if else []
    reads_bytes = any(table.reads_bytes for table in (*([chosen] if chosen else []), *tried))
    ranks = inputs.gpus or fleet.units * fleet.gpus_per_unit
    from_file = {} if chosen is None else chosen.fields(ranks=ranks, state_bytes=state_bytes)
    units, spares = _sizes(inputs, fleet, from_file.get("spares"))
    differs = model.units_differ(
        fleet, spares, elastic=bool(inputs.fewest_gpus or from_file.get("shrink"))
    )
    facts = _facts(fleet, from_file, reads_bytes=reads_bytes, differs=differs)
    refuse_unused(inputs.values, verb_fields("goodput"), facts)
    strategy, best_s, note = _strategy(inputs, fleet, (units, spares), from_file)
    others = []
    for table in tried:
        fields = table.fields(ranks=ranks, state_bytes=state_bytes)
        count = fields["spares"].count if "spares" in fields and inputs.spares is None else spares
        others.append(_strategy(inputs, fleet, (units, count), fields)[0])
    return FleetJob(
        job=_job(inputs, fleet, units),
        strategy=strategy,
        optimal_interval_s=best_s,
        interval_note=note,
        interval_is_given=inputs.checkpoint_interval_s is not None or "interval_s" in from_file,
        strategy_is_named=chosen is not None,
        spares_are_default=inputs.spares is None and "spares" not in from_file,
        others=tuple(others),
    )


def _facts(
    fleet: model.Fleet, from_file: dict[str, Any], *, reads_bytes: bool, differs: bool
) -> dict[str, Callable[[], Missing | None]]:
    """Return the conditions of fields on a fleet and a strategy: None where met."""
    name = repr_for_error(from_file.get("name", ""))
    corrupts = any(cause.effect == "corrupts" for cause in fleet.causes)
    return {
        "strategy with bandwidths": lambda: (
            None if reads_bytes else Missing("no bandwidth is set", "set one in the strategy")
        ),
        "strategy without shrink": lambda: (
            Missing(f"strategy {name} defines shrink", "set fewest_gpus instead")
            if from_file.get("shrink")
            else None
        ),
        "strategy without verification": lambda: (
            Missing(f"strategy {name} has verify {from_file['verify_s']:g} s", "")
            if from_file.get("verify_s")
            else None
        ),
        "units that differ": lambda: (
            None
            if differs
            else Missing(
                "the units are alike, or there are no spares",
                "it applies to fleets with lemons, ageing parts of units, false fixes or units with"
                " parts",
            )
        ),
        "silent errors": lambda: (
            None if corrupts else Missing('no cause of this fleet has effect = "corrupts"', "")
        ),
    }


def _job(inputs: FleetGoodput, fleet: model.Fleet, units: int) -> model.Job:
    given_up_s = None if inputs.work_s is None else GIVEN_UP * inputs.work_s
    horizon_s = given_up_s or inputs.duration_s
    return model.Job(fleet=fleet, units=units, horizon_s=horizon_s, work_s=inputs.work_s)


def _tables(inputs: FleetGoodput) -> tuple[model.StrategyTable | None, list[model.StrategyTable]]:
    """Return the selected strategy of a file, if any, and the others."""
    origin = inputs.strategy_file or inputs.fleet
    found = model.resolve_strategies(origin)
    if not found and inputs.strategy is None and inputs.strategy_file is None:
        return None, []
    if not found:
        raise InvalidSpecError(f"{origin} has no [[strategy]] table; see docs/fleet.md")
    chosen = model.choose(found, inputs.strategy, origin)
    return chosen, [table for table in found if table is not chosen]


def _strategy(
    inputs: FleetGoodput, fleet: model.Fleet, sizes: tuple[int, int], from_file: dict[str, Any]
) -> tuple[model.Strategy, float | None, str]:
    """Return a strategy, its optimal interval [s] and the basis of the optimum.

    Checkpoints and restarts of a file cannot be set by fields too; other fields override it.
    """
    units, spares = sizes
    given = dict(from_file)
    if "levels" in from_file:
        _refuse_twice(inputs, ("checkpoint_write_s", "checkpoint_lag_s"), from_file["name"])
    else:
        write_s = _needed(inputs.checkpoint_write_s, "checkpoint_write_s")
        given["levels"] = (model.Level(write_s=write_s, lag_s=inputs.checkpoint_lag_s),)
    if "restarts" in from_file:
        _refuse_twice(inputs, ("restart_s",), from_file["name"])
    else:
        restart_s = _needed(inputs.restart_s, "restart_s")
        given["restarts"] = (model.Restart(name="restart", phases={"restart": restart_s}),)
    standing = replace(from_file.get("spares", model.Spares()), count=spares)
    if "spare_kind" in inputs.fields_set:
        standing = replace(standing, kind=inputs.spare_kind)
    if "spare_start_s" in inputs.fields_set:
        standing = replace(standing, start=Constant(value_s=inputs.spare_start_s))
    if "spare_order" in inputs.fields_set:
        standing = replace(standing, order=inputs.spare_order)
    given["spares"] = standing
    given["shrink"] = _shrink(inputs, fleet, units) or from_file.get("shrink")
    interval_s = inputs.checkpoint_interval_s or from_file.get("interval_s")
    draft = model.Strategy(**(given | {"interval_s": interval_s or 1.0}))
    if inputs.response is not None:
        policy = model.recovery_policies()[inputs.response]
        check_spare_kind(inputs, policy)
        draft = model.under_policy(draft, policy, inputs.step_time_s)
    model.check_strategy(draft, units)
    best_s, note = chosen_interval_s(_job(inputs, fleet, units), draft, inputs.seed)
    if interval_s is None and best_s is None:
        interval_s, why = likely_interval_s(fleet, units, draft)
        if interval_s is None:
            raise InvalidSpecError(f"{note}; set checkpoint_interval_s")
        note = f"{note}; approximated by {why}"
    return replace(draft, interval_s=interval_s or best_s or 1.0), best_s, note


def check_spare_kind(inputs: FleetGoodput, policy: model.RecoveryPolicy) -> None:
    """Raise if spares are set to another kind than the one that a policy documents."""
    given = inputs.spare_kind if "spare_kind" in inputs.fields_set else policy.spares
    if policy.spares not in ("", given):
        raise InvalidSpecError(
            f"spare_kind = {given}: the spares of response = {policy.name} are {policy.spares}"
            f" ({policy.does}); remove spare_kind, or use another response"
        )


def _needed(value: float | None, name: str) -> float:
    if value is None:
        raise InvalidSpecError(
            f"{name} is missing: set it, or add a [[strategy]] table to the fleet file"
        )
    return value


def _refuse_twice(inputs: FleetGoodput, names: tuple[str, ...], strategy: str) -> None:
    """Raise for fields that a strategy already defines."""
    fields = type(inputs).fields()
    twice = [name for name in names if getattr(inputs, name) != fields[name].default]
    if twice:
        speed = "; checkpoint_bytes_per_s implies it" if "checkpoint_write_s" in twice else ""
        raise InvalidSpecError(
            f"strategy {strategy!r} already defines {', '.join(twice)}: remove the option, or"
            f" remove it from the file{speed}"
        )


def _sizes(
    inputs: FleetGoodput, fleet: model.Fleet, from_file: model.Spares | None
) -> tuple[int, int]:
    """Return the units of the job and the spares."""
    wanted = inputs.spares if inputs.spares is not None or from_file is None else from_file.count
    if inputs.gpus is None:
        spares = fleet.spares if wanted is None else wanted
        if spares >= fleet.units:
            raise InfeasibleError(
                f"spares = {spares} of {counted(fleet.units, 'unit')} leave none for the job",
                advice=(f"use at most {fleet.units - 1}",),
            )
        return fleet.units - spares, spares
    units = whole_units(inputs.gpus, fleet, "gpus")
    if units <= fleet.units < units + (wanted or 0):
        left = fleet.units - units
        raise InfeasibleError(
            f"the job needs {units:,} of {counted(fleet.units, 'unit')}: spares = {wanted or 0:,}"
            " exceeds the rest of the fleet.",
            advice=(
                f"spares = {left} is the rest of the fleet.",
                f"fleet_units = {units + (wanted or 0)} makes the fleet large enough for all.",
            ),
        )
    if units > fleet.units:
        raise _too_large(fleet, units, wanted or 0)
    return units, fleet.spares_for(units) if wanted is None else wanted


def _too_large(fleet: model.Fleet, units: int, spares: int) -> InfeasibleError:
    """Return the error for a job larger than its fleet, with a remedy."""
    beside = f" and {counted(spares, 'spare')}" if spares else ""
    room = fleet.units - spares
    advice = [f"fleet_units = {units + spares} makes the fleet large enough."]
    if room > 0:
        fill = f"gpus = {room * fleet.gpus_per_unit} fill the fleet"
        advice.insert(0, f"{fill}{' beside the spares' if spares else ''}.")
    return InfeasibleError(
        f"the job needs {counted(units, 'unit')}{beside}, the fleet has {fleet.units:,}.",
        advice=tuple(advice),
    )


def whole_units(gpus: int, fleet: model.Fleet, name: str) -> int:
    """Return the number of units of a number of GPUs."""
    units, rest = divmod(gpus, fleet.gpus_per_unit)
    if rest or not units:
        raise InvalidSpecError(
            f"{name} = {gpus} is not a multiple of the unit of {fleet.gpus_per_unit} GPUs: use"
            f" {max(min(units, fleet.units), 1) * fleet.gpus_per_unit}"
        )
    return units


def _shrink(inputs: FleetGoodput, fleet: model.Fleet, units: int) -> model.Shrink | None:
    if inputs.fewest_gpus is None:
        if inputs.replica_gpus is not None:
            _check_replica(inputs.replica_gpus, fleet, units)
        return None
    replica = inputs.replica_gpus or fleet.gpus_per_unit
    fewest = whole_units(inputs.fewest_gpus, fleet, "fewest_gpus")
    if fewest >= units:
        raise InvalidSpecError(
            f"fewest_gpus = {inputs.fewest_gpus}: expected fewer than the job's"
            f" {counted(units * fleet.gpus_per_unit, 'GPU')}"
        )
    replica_units = whole_units(replica, fleet, "replica_gpus")
    rest = (units - fewest) % replica_units
    if rest and replica_units < units:
        above = (fewest + rest) * fleet.gpus_per_unit
        works = [str(gpus) for gpus in (above, above - replica) if gpus > 0]
        raise InvalidSpecError(
            f"fewest_gpus = {inputs.fewest_gpus}: a job of"
            f" {counted(units * fleet.gpus_per_unit, 'GPU')} that drops {replica:,} at a time"
            f" never runs on {fewest * fleet.gpus_per_unit:,}: set fewest_gpus ="
            f" {' or '.join(works)}"
        )
    return model.Shrink(replica_units=replica_units, fewest=fewest)


def _check_replica(gpus: int, fleet: model.Fleet, units: int) -> None:
    """Raise for a replica size that does not divide the job."""
    if units % whole_units(gpus, fleet, "replica_gpus") or units * fleet.gpus_per_unit == gpus:
        raise InvalidSpecError(
            f"replica_gpus = {gpus}: expected the job's"
            f" {counted(units * fleet.gpus_per_unit, 'GPU')} to be at least two whole replicas"
        )
