"""Failures of a job that depend on its history, which no closed form here covers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.reliability.fleet.laws import Exponential
from perfatlas.reliability.fleet.model.identity import has_unit_lemons, units_change_places

if TYPE_CHECKING:
    from perfatlas.reliability.fleet.model.model import Cause, Fleet, Strategy


def not_memoryless(fleet: Fleet, strategy: Strategy) -> tuple[str, ...]:
    """Return why failures of a job are not memoryless, as text; empty where they are.

    Lemons that are never retired and never leave the job are memoryless: with the other parts they
    form one Poisson process. With spares they leave when they fail, and return.

    Args:
        strategy: The fault-tolerance strategy of the job; corrupting causes count where it
            verifies.
    """
    hurt = [cause for cause in fleet.causes if cause.effect == "stops"]
    if strategy.verify_s:
        hurt += [cause for cause in fleet.causes if cause.effect == "corrupts"]
    told = {
        "the age of parts": any(not isinstance(cause.lifetime, Exponential) for cause in hurt),
        "lemons": any(_lemons_come_and_go(cause, strategy) for cause in hurt),
        "false fixes": any(_returns_broken(cause, fleet, strategy) for cause in hurt),
    }
    return tuple(what for what, is_so in told.items() if is_so)


def _lemons_come_and_go(cause: Cause, strategy: Strategy) -> bool:
    """Return whether the number of lemons in the job changes."""
    if cause.lemons is None:
        return False
    return bool(cause.lemons.strikes) or (has_unit_lemons(cause) and units_change_places(strategy))


def _returns_broken(cause: Cause, fleet: Fleet, strategy: Strategy) -> bool:
    """Return whether units removed by a cause may return with a false fix."""
    if cause.takes == "nothing" or cause.effect != "stops" or strategy.spares.count is None:
        return False
    name = cause.repair or fleet.repairs[0].name
    repair = next(repair for repair in fleet.repairs if repair.name == name)
    return any(stage.false_fix for stage in repair.stages)
