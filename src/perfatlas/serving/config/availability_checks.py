"""Validation of outages and autoscalers before a simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.quantities import InvalidSpecError, did_you_mean, repr_for_error
from perfatlas.serving.config.availability import FOREVER, ON_FAILURE
from perfatlas.serving.requests import TICKS_PER_SECOND

if TYPE_CHECKING:
    from perfatlas.serving.config.availability import Outage, Scaler
    from perfatlas.serving.config.engines import EngineFleet

MAX_SYNCS: Final = 1_000_000  # size of an autoscaler's history


def _time(ticks: int) -> str:
    return f"{ticks / TICKS_PER_SECOND:g} s"


def check_availability(fleet: EngineFleet, last: int) -> None:
    """Validate the outages and the autoscalers of a fleet.

    Args:
        last: Maximum time of the clock [ps].

    Raises:
        InvalidSpecError: A replica, a time or a number is invalid for the fleet.
    """
    availability = fleet.availability
    number = sum(group.number for group in fleet.groups)
    if availability.on_failure not in ON_FAILURE:
        raise InvalidSpecError(
            f"on_failure {repr_for_error(availability.on_failure)} is unknown; choose one of"
            f" {', '.join(ON_FAILURE)}{did_you_mean(availability.on_failure, ON_FAILURE)}"
        )
    if not 0 <= availability.retry_after <= last:
        raise InvalidSpecError(
            f"retry_after is {_time(availability.retry_after)}; it must be 0 s to {_time(last)}"
        )
    before: dict[int, Outage] = {}
    for outage in sorted(availability.outages, key=lambda outage: (outage.replica, outage.start)):
        name = f"replica {outage.replica}"
        if not 0 <= outage.replica < number:
            raise InvalidSpecError(
                f"outage of {name}: replicas are numbered from 0 to {number - 1}"
            )
        if not 0 <= outage.start <= last:
            raise InvalidSpecError(
                f"{name} fails at {_time(outage.start)}; it must be 0 s to {_time(last)}"
            )
        if outage.end != FOREVER and not outage.start < outage.end <= last:
            raise InvalidSpecError(
                f"{name} fails at {_time(outage.start)} and recovers at {_time(outage.end)}; it"
                f" must recover later than it fails, by {_time(last)}"
            )
        earlier = before.get(outage.replica)
        if earlier is not None and (earlier.end == FOREVER or earlier.end > outage.start):
            back = (
                "without recovery"
                if earlier.end == FOREVER
                else f"recovering at {_time(earlier.end)}"
            )
            raise InvalidSpecError(
                f"{name} fails at {_time(outage.start)} during an outage that starts at"
                f" {_time(earlier.start)}, {back}; outages of a replica must not overlap"
            )
        before[outage.replica] = outage
    if len(availability.scalers) not in (0, len(fleet.pools)):
        raise InvalidSpecError(
            f"there are {len(availability.scalers)} autoscalers for {len(fleet.pools)} pools; each"
            " pool needs one"
        )
    for scaler, groups in zip(availability.scalers, fleet.pools, strict=False):
        _check_scaler(scaler, sum(group.number for group in groups), last)


def _check_scaler(scaler: Scaler, number: int, last: int) -> None:
    if not 1 <= scaler.low <= scaler.initial <= number:
        raise InvalidSpecError(
            f"autoscaler with minimum {scaler.low}, initial {scaler.initial} and maximum"
            f" {number} replicas; 1 <= minimum <= initial <= maximum is required"
        )
    if not 0.0 < scaler.target <= last:
        raise InvalidSpecError(
            f"target is {scaler.target} requests per replica; it must be positive and finite"
        )
    if not 0.0 <= scaler.tolerance < 1.0:
        raise InvalidSpecError(f"tolerance is {scaler.tolerance}; it must be in [0, 1)")
    for name, least in (("period", 1), ("stable", 0), ("start_up", 0)):
        value = getattr(scaler, name)
        if not least <= value <= last:
            raise InvalidSpecError(
                f"{name} is {_time(value)}; it must be {_time(least)} to {_time(last)}"
            )
    if scaler.stable // scaler.period > MAX_SYNCS:
        raise InvalidSpecError(
            f"the stabilization window {_time(scaler.stable)} exceeds {MAX_SYNCS:,} sync periods"
            f" of {_time(scaler.period)}; use a longer period or a shorter window"
        )
