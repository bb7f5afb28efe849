"""Failures and losses of nodes by age."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.quantities import HOUR_S, InvalidSpecError
from perfatlas.reliability.fleet.laws import Exponential, mean_s, survival
from perfatlas.reliability.fleet.model import cause_rate_per_s, mean_repair_s, resolve_fleet

if TYPE_CHECKING:
    from perfatlas.reliability.fleet.laws import FloatArray, Law
    from perfatlas.reliability.fleet.model import Cause


YEAR_S: Final = 365.25 * 24.0 * HOUR_S
MONTH_S: Final = YEAR_S / 12.0


class NodeFailures(NamedTuple):
    """Failures of a node by its age."""

    rate_per_s_A: FloatArray  # Failures of a node (A,)
    down_A: FloatArray  # Share of the time in which it is under repair (A,)


def node_failures(fleet: str, gpus: int, age_s_A: FloatArray, step_s: float) -> NodeFailures:
    """Return the failures of a node by age (A,).

    Args:
        fleet: Name or file of a fleet; its rates are taken per GPU.
        gpus: GPUs of the node.
        age_s_A: Ages at which intervals begin (A,) [s].
        step_s: Length of the intervals [s].

    Raises:
        InvalidSpecError: The fleet does not exist or is invalid, or repairs take more time than
            a node works between failures.

    Limits: Only causes whose repaired parts keep their age (`as_old`) wear; others have their
        long-run rate. Repairs do not wait for crews. Failures are rare beside repairs: a node
        under repair does not fail again.

    Example:
        >>> import numpy as np
        >>> from perfatlas.studies.fleet_plans import node_failures
        >>> found = node_failures("llama3", 8, np.array([0.0, 3e7]), 2.6e6)
        >>> print(f"{found.rate_per_s_A[0] * 86400:.5f} per day, down {found.down_A[0]:.4f}")
        0.00379 per day, down 0.0116
    """
    found = resolve_fleet(fleet)
    share = gpus / found.gpus_per_unit
    rate_A, down_A = np.zeros(age_s_A.shape), np.zeros(age_s_A.shape)
    repairs = {repair.name: mean_repair_s(repair) for repair in found.repairs}
    for cause in found.causes:
        if cause.effect != "stops":
            continue
        own_A = share * _unit_rate_per_s(cause, age_s_A, step_s)
        rate_A += own_A
        if cause.takes != "nothing":
            down_A += own_A * repairs[cause.repair or found.repairs[0].name]
    if (worst := float(down_A.max(initial=0.0))) >= 1.0:
        raise InvalidSpecError(
            f"fleet {fleet}: nodes of {gpus} GPUs would be under repair all the time at an age"
            f" ({worst:.3g} times); check its lifetimes and repairs"
        )
    return NodeFailures(rate_A, down_A)


def _unit_rate_per_s(cause: Cause, age_s_A: FloatArray, step_s: float) -> FloatArray:
    """Return the failures of a unit from a cause, by age (A,) [1/s]."""
    if not cause.as_old or isinstance(cause.lifetime, Exponential):
        per_unit = cause_rate_per_s(cause, 1) - cause.shared / mean_s(cause.lifetime)
        return np.full(age_s_A.shape, per_unit)
    hazard = [
        math.log(survival(cause.lifetime, age) / survival(cause.lifetime, age + step_s)) / step_s
        if survival(cause.lifetime, age + step_s) > 0.0
        else math.inf
        for age in age_s_A.tolist()
    ]
    return cause.per_unit * np.array(hazard)


def surviving(lifetime: Law | None, age_s: FloatArray) -> FloatArray:
    """Return the share of GPUs that are not lost for good at ages, of those at the first age (A,).

    Args:
        lifetime: Time to the permanent loss; None for no loss.
        age_s: Ages, ascending (A,) [s].
    """
    if lifetime is None or not age_s.size:
        return np.ones(age_s.shape)
    share_A = np.array([survival(lifetime, age) for age in age_s.tolist()])
    return share_A / share_A[0] if share_A[0] > 0.0 else np.zeros(age_s.shape)
