"""Facts about a fleet without simulation: rates, shares, MTTI by job size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfatlas.quantities import DAY_S, significant
from perfatlas.reliability.fleet.laws import Exponential, mean_s
from perfatlas.reliability.fleet.model.catalog import published_rates
from perfatlas.reliability.fleet.model.checks import cause_rate_per_s
from perfatlas.reliability.fleet.model.packing import fleet_rate_per_s
from perfatlas.reliability.telemetry.history import xid_meaning

if TYPE_CHECKING:
    from perfatlas.reliability.fleet.model.model import Cause, Fleet, Repair


def initial_ages_text(fleet: Fleet) -> list[str]:
    """Return the ages of ageing parts at the start of the job, as text."""
    causes_by_age: dict[str, list[str]] = {}
    for cause in fleet.causes:
        if isinstance(cause.lifetime, Exponential):
            continue
        age = f"{significant(cause.age_s / DAY_S, 4)} d old" if cause.age_s else "new"
        began = "of mixed ages (steady state)" if cause.ages == "mixed" else age
        causes_by_age.setdefault(began, []).append(cause.name)
    return [
        f"ageing parts are {began} at the start of the job: {', '.join(names)} (set by ages or age"
        " of a cause)"
        for began, names in causes_by_age.items()
    ]


def fleet_facts(fleet: Fleet) -> dict[str, Any]:
    """Return the facts about a fleet, as plain data.

    Returns:
        units, gpus_per_unit, gpus, events_per_day of a job on all of it, causes (name, meaning,
        effect, per_day, share, mean_time_between_s in the whole fleet, part_mean_s of a normal
        part, detection_s, repair, takes, of_job (per job, whatever its size), ages, lemon_share and
        lemon_factor; the most frequent first), repairs (name, mean_s), jobs (gpus, mtti_s; sizes
        double up to the whole fleet).

    Limits: long-run rates; a young fleet of ageing parts has other rates.

    Example:
        >>> from perfatlas.reliability.fleet.model import fleet_facts
        >>> from perfatlas.reliability.fleet.model import resolve_fleet
        >>> facts = fleet_facts(resolve_fleet("llama3"))
        >>> facts["gpus"], facts["causes"][0]["name"]
        (16640, 'llama3_gpu')
    """
    whole = fleet_rate_per_s(fleet, fleet.units)
    causes = [_cause(cause, fleet, whole) for cause in fleet.causes]
    return {
        "units": fleet.units,
        "gpus_per_unit": fleet.gpus_per_unit,
        "gpus": fleet.units * fleet.gpus_per_unit,
        "events_per_day": whole * DAY_S,
        "causes": sorted(causes, key=lambda row: -row["per_day"]),
        "repairs": [
            {"name": repair.name, "mean_s": mean_repair_s(repair)} for repair in fleet.repairs
        ],
        "jobs": [_job(fleet, units) for units in _sizes(fleet.units)],
    }


def _cause(cause: Cause, fleet: Fleet, whole: float) -> dict[str, Any]:
    per_s = cause_rate_per_s(cause, fleet.units)
    ageing = not isinstance(cause.lifetime, Exponential)
    published = published_rates().get(cause.name)
    repairable = any(mean_repair_s(repair) for repair in fleet.repairs)
    repair = cause.repair or (fleet.repairs[0].name if repairable else "not known")
    return {
        "name": cause.name,
        "meaning": published.rate_kind if published else xid_meaning(cause.name),
        "effect": cause.effect,
        "per_day": per_s * DAY_S,
        "share": per_s / whole,
        "mean_time_between_s": 1.0 / per_s,
        "part_mean_s": mean_s(cause.lifetime),
        "detection_s": mean_s(cause.detection),
        "repair": repair if cause.takes != "nothing" else "",
        "takes": cause.takes,
        "of_job": cause.shared > 0.0,
        "ages": ageing,
        "lemon_share": cause.lemons.share if cause.lemons else None,
        "lemon_factor": cause.lemons.factor if cause.lemons else None,
    }


def mean_repair_s(repair: Repair) -> float:
    """Return the mean time of a repair over the stages reached [s]."""
    total, reached = 0.0, 1.0
    for number, stage in enumerate(repair.stages):
        ends = stage.fixes + stage.false_fix
        last = number == len(repair.stages) - 1
        total += reached * mean_s(stage.lasts) / (ends if last else 1.0)
        reached *= 1.0 - ends
    return total


def _sizes(units: int) -> list[int]:
    """Return 1, 2, 4, ... units and the whole fleet."""
    sizes = [1 << n for n in range(units.bit_length()) if 1 << n < units]
    return [*sizes, units]


def _job(fleet: Fleet, units: int) -> dict[str, float]:
    stopping = [cause for cause in fleet.causes if cause.effect != "slows"]
    rate = sum(cause_rate_per_s(cause, units) for cause in stopping)
    return {
        "gpus": units * fleet.gpus_per_unit,
        "mtti_s": 1.0 / rate if rate else float("inf"),
    }
