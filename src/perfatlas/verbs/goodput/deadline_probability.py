"""Probability of missing a deadline, by splitting, which also estimates rare outcomes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.fleet.simulator import loss_probability
from perfatlas.verbs.goodput.rate_interval import NINETY

if TYPE_CHECKING:
    from perfatlas.verbs.goodput.fleet_job import FleetJob
    from perfatlas.verbs.goodput.question import FleetGoodput

REPLICAS: Final = 500  # replicas per level and run; some seconds


def check_date(inputs: FleetGoodput, ready: FleetJob) -> None:
    """Raise for an impossible deadline.

    Args:
        inputs: The fields.
        ready: The job.

    Raises:
        InvalidSpecError: The deadline is before the work can be done or after the job is abandoned.
    """
    if inputs.finish_by_s is None or inputs.work_s is None:
        return
    if not inputs.work_s < inputs.finish_by_s < ready.job.horizon_s:
        raise InvalidSpecError(
            f"finish_by_s = {inputs.finish_by_s:g}: expected more than work_s = {inputs.work_s:g}"
            f" and less than {ready.job.horizon_s:g}, the horizon of the simulation"
        )


def deadline_probability(inputs: FleetGoodput, ready: FleetJob) -> dict[str, Any]:
    """Return the probability of missing the deadline, where one is set.

    Args:
        inputs: The fields.
        ready: The job.

    Returns:
        late_probability with its 90% interval; nothing without finish_by_s.
    """
    if inputs.finish_by_s is None or inputs.work_s is None:
        return {}
    tail = loss_probability(
        ready.job,
        ready.strategy,
        inputs.finish_by_s - inputs.work_s,
        replicas=REPLICAS,
        seed=inputs.seed,
    )
    low, high = tail.interval(NINETY)
    return {
        "finish_by_s": inputs.finish_by_s,
        "late_probability": tail.probability,
        "late_probability_low": low,
        "late_probability_high": high,
    }


def deadline_remarks(results: dict[str, Any]) -> list[str]:
    """Return remarks on the probability of missing the deadline.

    Args:
        results: Results of the answer.
    """
    if results.get("late_probability", 1.0) > 0.0:
        return []
    return ["no copy of any replica missed finish_by_s: the event is too rare for the simulation"]
