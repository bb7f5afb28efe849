"""A job on a fleet, from named fields to what the simulator runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from perfatlas.fleet.laws import Constant
from perfatlas.fleet.model import Fleet, Level, Restart, Shrink, Spares, Strategy
from perfatlas.fleet.packing import fleet_rate_per_s
from perfatlas.fleet.renewal import optimal_interval_s
from perfatlas.fleet.shipped import resolve_fleet
from perfatlas.fleet.simulate import Job
from perfatlas.quantities import InfeasibleError, InvalidSpecError

if TYPE_CHECKING:
    from perfatlas.scenario.goodput_fields import FleetGoodput

GIVEN_UP: Final = 20.0  # times the work, after which a job that is not done is given up


@dataclass(frozen=True, kw_only=True)
class FleetJob:
    """A job, how it lives with failures, and what follows for its interval.

    Args:
        job: The job.
        strategy: How it lives with failures.
        optimal_interval_s: Work between checkpoints that is best for failures without memory [s];
            None where writing takes no time.
        interval_is_given: Whether the interval was given.
    """

    job: Job
    strategy: Strategy
    optimal_interval_s: float | None
    interval_is_given: bool

    @property
    def gpus(self) -> int:
        """GPUs of the job."""
        return self.job.units * self.job.fleet.gpus_per_unit


def fleet_job(asked: FleetGoodput) -> FleetJob:
    """Return the job that fields describe.

    Args:
        asked: The fields.

    Raises:
        InvalidSpecError: There is no such fleet, or a number breaks a rule.
        InfeasibleError: The job is larger than the fleet.
    """
    fleet = resolve_fleet(asked.fleet)
    if asked.fleet_units is not None:
        fleet = replace(fleet, units=asked.fleet_units)
    if asked.detection_s is not None:
        detection = Constant(value_s=asked.detection_s)
        fleet = replace(
            fleet, causes=tuple(replace(cause, detection=detection) for cause in fleet.causes)
        )
    units, spares = _sizes(asked, fleet)
    best_s = best_interval_s(fleet, units, asked.checkpoint_write_s)
    interval_s = asked.checkpoint_interval_s or best_s
    if interval_s is None:
        raise InvalidSpecError(
            "checkpoint_write_s = 0: free checkpoints have no optimal interval; give"
            " checkpoint_interval_s"
        )
    strategy = Strategy(
        interval_s=interval_s,
        levels=(Level(write_s=asked.checkpoint_write_s, lag_s=asked.checkpoint_lag_s),),
        restarts=(Restart(name="restart", phases={"restart": asked.restart_s}),),
        spares=Spares(
            count=spares, kind=asked.spare_kind, start=Constant(value_s=asked.spare_start_s)
        ),
        shrink=_shrink(asked, fleet, units),
    )
    given_up_s = None if asked.work_s is None else GIVEN_UP * asked.work_s
    job = Job(
        fleet=fleet,
        units=units,
        horizon_s=given_up_s or asked.duration_s,
        work_s=asked.work_s,
    )
    return FleetJob(
        job=job,
        strategy=strategy,
        optimal_interval_s=best_s,
        interval_is_given=asked.checkpoint_interval_s is not None,
    )


def best_interval_s(fleet: Fleet, units: int, write_s: float) -> float | None:
    """Return the optimal work between checkpoints for failures without memory [s].

    Args:
        fleet: The fleet.
        units: Units of the job.
        write_s: Blocking write [s]; None comes back for none.
    """
    if write_s == 0.0:
        return None
    return float(optimal_interval_s(write_s, 1.0 / fleet_rate_per_s(fleet, units)))


def _sizes(asked: FleetGoodput, fleet: Fleet) -> tuple[int, int]:
    """Return the units of the job and those that stand by."""
    if asked.gpus is None:
        spares = asked.spares or 0
        if spares >= fleet.units:
            raise InfeasibleError(
                f"spares = {spares} of {fleet.units} units leave none for the job",
                advice=(f"keep {fleet.units - 1} at most",),
            )
        return fleet.units - spares, spares
    units = _whole_units(asked.gpus, fleet, "gpus")
    if units + (asked.spares or 0) > fleet.units:
        need = units + (asked.spares or 0)
        raise InfeasibleError(
            f"the job needs {units:,} units and {asked.spares or 0} spares, the fleet has"
            f" {fleet.units:,}.",
            advice=(
                f"gpus = {fleet.units * fleet.gpus_per_unit} fill the fleet.",
                f"fleet_units = {need} makes the fleet as large as the job.",
            ),
        )
    return units, fleet.units - units if asked.spares is None else asked.spares


def _whole_units(gpus: int, fleet: Fleet, name: str) -> int:
    units, rest = divmod(gpus, fleet.gpus_per_unit)
    if rest or not units:
        raise InvalidSpecError(
            f"{name} = {gpus} do not fill units of {fleet.gpus_per_unit}: use"
            f" {max(units, 1) * fleet.gpus_per_unit}"
        )
    return units


def _shrink(asked: FleetGoodput, fleet: Fleet, units: int) -> Shrink | None:
    if asked.fewest_gpus is None:
        if asked.replica_gpus is not None:
            raise InvalidSpecError(
                "replica_gpus is what a job gives up to go on with fewer: give fewest_gpus, with"
                " how few it goes on"
            )
        return None
    replica = asked.replica_gpus or fleet.gpus_per_unit
    fewest = _whole_units(asked.fewest_gpus, fleet, "fewest_gpus")
    if fewest > units:
        raise InvalidSpecError(
            f"fewest_gpus = {asked.fewest_gpus}: the job has {units * fleet.gpus_per_unit}"
        )
    return Shrink(replica_units=_whole_units(replica, fleet, "replica_gpus"), fewest=fewest)
