"""The interval of a step on any machine.

The errors of kernels give the first interval. Whole runs of other laboratories deviate further:
their releases, hosts and kernels differ. Both are composed by their outer limits, for closed forms
and for simulations alike.

Shape legend: C candidates.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.engines import release_spread, step_errors, step_spreads

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray
    from perfatlas.serving.closed_form.step_totals import StepTimes
    from perfatlas.step import Candidates


class StepTails(NamedTuple):
    """Limits of the interval of a step beyond the errors of its kernels.

    Args:
        q05: Lower limit of ln(measured / predicted).
        q95: Upper limit.
    """

    q05: float = 0.0
    q95: float = 0.0


KERNELS_ONLY = StepTails()
IDEAL: Final = "ideal"  # takes no time of its own


def step_tails(question: Candidates) -> StepTails:
    """Return the errors of measured runs: those of the engine and those between laboratories.

    Args:
        question: The candidates.

    Limits: None for tier bound and for the ideal engine: their interval is that of the kernels. An
        engine without measured runs has the errors between laboratories. A release that borrows
        its profile is wider by the spread between adjacent releases, in either direction, whatever
        their distance.
    """
    if question.tier == "bound" or question.profile.name == IDEAL:
        return KERNELS_ONLY
    spread = step_spreads()[model_kind(question)]
    error = step_errors().get(question.profile.name)
    q05 = spread.q05 if error is None else min(error.q05, spread.q05)
    q95 = spread.q95 if error is None else max(error.q95, spread.q95)
    if question.profile.borrowed:
        move = max(map(abs, (release_spread().q05, release_spread().q95)))
        q05, q95 = -math.hypot(q05, move), math.hypot(q95, move)
    return StepTails(q05=q05, q95=q95)


def model_kind(question: Candidates) -> str:
    """Return the kind of model whose errors between laboratories apply.

    Args:
        question: The candidates.
    """
    return "experts" if question.model.architecture.has_experts else "dense"


def fastest_s(cost: StepTimes, tails: StepTails) -> FloatArray:
    """Return the lower limit of the time of a step, at least its roofline time (C,) [s].

    Args:
        cost: The step.
        tails: Errors of measured runs.
    """
    fast_C = np.minimum(cost.low_s(), cost.total_s() * math.exp(tails.q05))
    return np.maximum(fast_C, cost.least_s())


def slowest_s(cost: StepTimes, tails: StepTails) -> FloatArray:
    """Return the upper limit of the time of a step (C,) [s].

    Args:
        cost: The step.
        tails: Errors of measured runs.
    """
    slow_C: FloatArray = np.maximum(cost.high_s(), cost.total_s() * math.exp(tails.q95))
    return slow_C
