"""Whether it matters which units of a fleet are in the job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.reliability.fleet.laws import Exponential

if TYPE_CHECKING:
    from perfatlas.reliability.fleet.model.model import Cause, Fleet, Strategy


def units_change_places(strategy: Strategy) -> bool:
    """Return whether a job does not always run on the same units.

    Unlimited spares are units repaired in place. A job without spares that does not shrink waits
    for its own units.
    """
    return strategy.spares.count is not None and bool(strategy.spares.count or strategy.shrink)


def has_unit_lemons(cause: Cause) -> bool:
    """Return whether the lemons of a cause are units."""
    return cause.lemons is not None and cause.per_unit > 0.0 and cause.units == 1


def has_unit_ages(cause: Cause) -> bool:
    """Return whether ageing parts of a cause belong to units: a fraction of one, to some units."""
    ages = not isinstance(cause.lifetime, Exponential)
    return ages and cause.per_unit > 0.0 and cause.units == 1


def units_differ(fleet: Fleet, spares: int, *, elastic: bool) -> bool:
    """Return whether it matters which spare joins a job.

    Args:
        elastic: Whether the job continues with fewer units.
    """
    return bool(spares or elastic) and bool(_differences(fleet))


def what_differs(fleet: Fleet, strategy: Strategy) -> tuple[str, ...]:
    """Return in what units that change places differ, as text; empty where they do not."""
    return _differences(fleet) if units_change_places(strategy) else ()


def _differences(fleet: Fleet) -> tuple[str, ...]:
    reasons = {
        "lemons": any(has_unit_lemons(cause) for cause in fleet.causes),
        "the age of parts": any(has_unit_ages(cause) for cause in fleet.causes),
        "false fixes": any(
            any(stage.false_fix > 0.0 for stage in repair.stages) for repair in fleet.repairs
        ),
        "failed parts": fleet.parts_per_unit > 1,
    }
    return tuple(what for what, is_so in reasons.items() if is_so)


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
    reasons = {
        "the age of parts": any(not isinstance(cause.lifetime, Exponential) for cause in hurt),
        "lemons": any(_lemons_come_and_go(cause, strategy) for cause in hurt),
        "false fixes": any(_returns_broken(cause, fleet, strategy) for cause in hurt),
    }
    return tuple(what for what, is_so in reasons.items() if is_so)


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
