"""What the loop refuses of failing, starting and stopping replicas before it starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.quantities import InvalidSpecError, UnsupportedError, did_you_mean, shown
from perfatlas.serving.config.availability import FOREVER, ON_FAILURE
from perfatlas.serving.requests import TICKS_PER_SECOND

if TYPE_CHECKING:
    from perfatlas.serving.config.availability import Outage, Scaler
    from perfatlas.serving.config.engines import Fleet

MOST_LOOKS: Final = 1_000_000  # of an autoscaler that are remembered


def _said(ticks: int) -> str:
    return f"{ticks / TICKS_PER_SECOND:g} s"


def check_upkeep(fleet: Fleet, last: int) -> None:
    """Refuse outages of replicas there are not, ends before starts, and what is not simulated.

    Args:
        fleet: Engines and what changes them.
        last: Last time of the clock [ps].

    Raises:
        InvalidSpecError: A replica, a time or a number contradicts the fleet.
        UnsupportedError: Replicas of two pools fail, start or stop, or an autoscaler's do fail.
    """
    upkeep = fleet.upkeep
    number = sum(kind.number for kind in fleet.kinds)
    if upkeep.on_failure not in ON_FAILURE:
        raise InvalidSpecError(
            f"on_failure {shown(upkeep.on_failure)} is unknown; choose one of"
            f" {', '.join(ON_FAILURE)}{did_you_mean(upkeep.on_failure, ON_FAILURE)}"
        )
    if not 0 <= upkeep.retry_after <= last:
        raise InvalidSpecError(
            f"retry_after is {_said(upkeep.retry_after)}; it is 0 s to {_said(last)}"
        )
    if upkeep.varies and any(kind.role != "both" for kind in fleet.kinds):
        raise UnsupportedError(
            "replicas of two pools that fail, start or stop are not simulated; leave one of both"
        )
    if upkeep.outages and upkeep.scaler is not None:
        raise UnsupportedError(
            "outages name a replica, and which replicas there are is up to the autoscaler: both"
            " together are not simulated; leave one of both"
        )
    _check_outages(upkeep.outages, number, last)
    if upkeep.scaler is not None:
        _check_scaler(upkeep.scaler, number, last)


def _check_outages(outages: tuple[Outage, ...], number: int, last: int) -> None:
    before: dict[int, Outage] = {}
    for outage in sorted(outages, key=lambda one: (one.replica, one.start)):
        name = f"replica {outage.replica}"
        if not 0 <= outage.replica < number:
            raise InvalidSpecError(
                f"an outage of {name}: there are {number}, counted from 0 to {number - 1}"
            )
        if not 0 <= outage.start <= last:
            raise InvalidSpecError(
                f"{name} fails at {_said(outage.start)}; it is 0 s to {_said(last)}"
            )
        if outage.end != FOREVER and not outage.start < outage.end <= last:
            raise InvalidSpecError(
                f"{name} fails at {_said(outage.start)} and is back at {_said(outage.end)}; it"
                f" is back later than it fails, by {_said(last)}"
            )
        earlier = before.get(outage.replica)
        if earlier is not None and (earlier.end == FOREVER or earlier.end > outage.start):
            back = "never back" if earlier.end == FOREVER else f"back at {_said(earlier.end)}"
            raise InvalidSpecError(
                f"{name} fails at {_said(outage.start)}, when it has failed already: at"
                f" {_said(earlier.start)}, {back}; outages of a replica follow each other"
            )
        before[outage.replica] = outage


def _check_scaler(scaler: Scaler, number: int, last: int) -> None:
    if not 1 <= scaler.low <= scaler.initial <= number:
        raise InvalidSpecError(
            f"an autoscaler of at least {scaler.low}, at first {scaler.initial} and at most"
            f" {number} replicas; these rise, from 1 on"
        )
    if not 0.0 < scaler.target <= last:
        raise InvalidSpecError(
            f"target is {scaler.target} requests of a replica; it is above 0 and finite"
        )
    if not 0.0 <= scaler.tolerance < 1.0:
        raise InvalidSpecError(f"tolerance is {scaler.tolerance}; it is 0 or more and below 1")
    for name, least in (("period", 1), ("stable", 0), ("start_up", 0)):
        value = getattr(scaler, name)
        if not least <= value <= last:
            raise InvalidSpecError(
                f"{name} is {_said(value)}; it is {_said(least)} to {_said(last)}"
            )
    if scaler.stable // scaler.period > MOST_LOOKS:
        raise InvalidSpecError(
            f"stable {_said(scaler.stable)} is more than {MOST_LOOKS:,} periods of"
            f" {_said(scaler.period)}; look less often or keep less long"
        )
