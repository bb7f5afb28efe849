"""How likely a job is later than a date: by splitting, which reaches what replicas seldom see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.fleet.simulator import loss_probability
from perfatlas.quantities import InvalidSpecError
from perfatlas.verbs.goodput.rate_interval import NINETY

if TYPE_CHECKING:
    from perfatlas.verbs.goodput.fleet_job import FleetJob
    from perfatlas.verbs.goodput.question import FleetGoodput

REPLICAS: Final = 500  # of each level and run; some seconds


def check_date(asked: FleetGoodput, ready: FleetJob) -> None:
    """Refuse a deadline that is no question.

    Args:
        asked: The fields.
        ready: The job.

    Raises:
        InvalidSpecError: The deadline is before the work could be done or after the job is given
            up.
    """
    if asked.finish_by_s is None or asked.work_s is None:
        return
    if not asked.work_s < asked.finish_by_s < ready.job.horizon_s:
        raise InvalidSpecError(
            f"finish_by_s = {asked.finish_by_s:g}: expected more than work_s = {asked.work_s:g},"
            f" less than {ready.job.horizon_s:g}, when the job is given up"
        )


def lateness(asked: FleetGoodput, ready: FleetJob) -> dict[str, Any]:
    """Return the probability that the work is not done by a date, where one is given.

    Args:
        asked: The fields.
        ready: The job.

    Returns:
        late_probability with its 90 % interval; nothing without finish_by_s.
    """
    if asked.finish_by_s is None or asked.work_s is None:
        return {}
    tail = loss_probability(
        ready.job,
        ready.strategy,
        asked.finish_by_s - asked.work_s,
        replicas=REPLICAS,
        seed=asked.seed,
    )
    low, high = tail.interval(NINETY)
    return {
        "finish_by_s": asked.finish_by_s,
        "late_probability": tail.probability,
        "late_probability_low": low,
        "late_probability_high": high,
    }


def late_remarks(results: dict[str, Any]) -> list[str]:
    """Return what a reader must know of a probability to be late.

    Args:
        results: Of the answer.
    """
    if results.get("late_probability", 1.0) > 0.0:
        return []
    return [
        "no copy of any replica was as late as finish_by_s: so late is rarer than splitting finds"
    ]
