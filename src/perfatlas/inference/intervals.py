"""The interval of a step on any machine.

The errors of kernels give the first interval. Whole runs of other laboratories deviate further:
their releases, hosts and kernels differ. How far depends on the operators of the step: their
spreads between laboratories and that of whole runs add in quadrature. Kernels and laboratories are
composed by their outer limits, for closed forms and for simulations alike. Where no measured run of
an engine has a part of a model or of a plan, limits are at least those of unseen kinds.

Shape legend: C candidates.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.engines import (
    SUPPORT,
    measured_runs,
    release_spread,
    run_support,
    step_spreads,
    unseen_kinds,
    whole_run_spread,
)
from perfatlas.measurements.calibrations import has_shipped

if TYPE_CHECKING:
    from perfatlas.engines import EngineProfile
    from perfatlas.hardware import Device
    from perfatlas.inference.distinct_steps import StepTimes
    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.step import Candidates


class StepTails(NamedTuple):
    """Errors of measured runs, of which the interval of a step is composed beyond its kernels."""

    center: float = 0.0  # Mean of ln(measured / predicted) over laboratories
    deviation: float = 0.0  # Its deviation by what is not an operator
    lower: float = 0.0  # Deviations from the center to the lower limit
    upper: float = 0.0  # Deviations from the center to the upper limit
    # Half-width by which the release of a borrowed profile widens the lower limit
    release_low_C: FloatArray | float = 0.0
    release_high_C: FloatArray | float = 0.0  # Likewise the upper limit
    # Limits of ln(measured / predicted) that unseen kinds have at least (C,); 0 for seen ones
    unseen_low: FloatArray | float = 0.0
    unseen_high: FloatArray | float = 0.0

    def limits(self, laboratory_C: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the limits of ln(measured / predicted) of steps, each (C,).

        Args:
            laboratory_C: Deviation of each by its operators on other machines (C,).
        """
        deviation_C = np.hypot(self.deviation, laboratory_C)
        low_C = np.minimum(self.center - self.lower * deviation_C, self.unseen_low)
        high_C = np.maximum(self.center + self.upper * deviation_C, self.unseen_high)
        return -np.hypot(low_C, self.release_low_C), np.hypot(high_C, self.release_high_C)


KERNELS_ONLY = StepTails()
IDEAL: Final = "ideal"  # takes no time of its own
OVER_NODES: Final = "tensor parallelism across nodes"


def step_tails(question: Candidates) -> StepTails:
    """Return the errors of measured runs between laboratories, of which those of an engine are one.

    Limits: None for tier bound, whose interval is that of the kernels. The ideal engine has the
        errors of its operators on other machines, and none of whole runs. An engine without
        measured runs has the same errors as the others, but those of unseen kinds where a model is
        not a plain transformer. A release that borrows its profile is
        wider by the spread between adjacent releases, whatever their distance.
    """
    if question.tier == "bound":
        return KERNELS_ONLY
    whole = whole_run_spread()
    if question.profile.name == IDEAL:
        return StepTails(lower=whole.lower, upper=whole.upper)
    placement = question.placement
    limits = [
        release_limits(question.profile, system.device.vendor) for system in placement.systems
    ]
    faster_C, slower_C = np.array(limits)[placement.index_C].T[::-1]
    kinds, index_C = unseen(question)
    least, new_C = unseen_kinds(), np.array([bool(some) for some in kinds])[index_C]
    return StepTails(
        center=step_spreads()[model_kind(question)].center,
        deviation=whole.deviation,
        lower=whole.lower,
        upper=whole.upper,
        release_low_C=faster_C,
        release_high_C=slower_C,
        unseen_low=np.where(new_C, least.low, 0.0) if new_C.any() else 0.0,
        unseen_high=np.where(new_C, least.high, 0.0) if new_C.any() else 0.0,
    )


def release_limits(profile: EngineProfile, vendor: str = "") -> tuple[float, float]:
    """Return how much slower and how much faster a release may be than its profile, in ln(time).

    Releases become faster: that of a borrowed profile moved on, or was behind, by as much as
    adjacent releases differ or as the changes between the two were published to gain. Both 0 for
    a profile of its own.

    Args:
        vendor: Vendor of the device; some changes gained on those of one vendor alone.
    """
    if not profile.borrowed:
        return 0.0, 0.0
    spread = release_spread()
    gain = profile.borrowed_gain * profile.vendor_gains.get(vendor, 1.0)
    gained = max(spread.q95, log(gain), 0.0)
    lost = max(-spread.q05, 0.0)
    return (gained, lost) if profile.borrowed_is_newer else (lost, gained)


def model_kind(question: Candidates) -> str:
    """Return the kind of model whose errors between laboratories apply."""
    return "experts" if question.model.network.has_experts else "dense"


def run_kinds(question: Candidates) -> list[tuple[str, ...]]:
    """Return what tells runs of one engine apart: parts of the model and of each plan (C)."""
    parts = question.model.network.kinds
    over_C = question.plan.tp > question.placement.node()
    of_plans = {False: parts, True: (*parts, OVER_NODES)}
    return [of_plans[over] for over in over_C.tolist()]


def unseen(question: Candidates) -> tuple[list[tuple[str, ...]], IntArray]:
    """Return kinds that no measured run of the engine has, and the position of each candidate's.

    Returns:
        The kinds by plan and system; positions (C,).
    """
    ran = {k: runs.get(question.profile.name, ()) for k, runs in unseen_kinds().measured.items()}
    placement, parts = question.placement, question.model.network.kinds
    kinds = [
        tuple(kind for kind in own if system.device.architecture not in ran.get(kind, ()))
        for own in (parts, (*parts, OVER_NODES))
        for system in placement.systems
    ]
    over_C = question.plan.tp > placement.node()
    return kinds, over_C * len(placement.systems) + placement.index_C


def devices(question: Candidates) -> list[Device]:
    """Return the device of each candidate (C)."""
    systems = question.placement.systems
    return [systems[index].device for index in question.placement.index_C]


def support(question: Candidates) -> str:
    """Return what supports the step times of the first candidate, one of `SUPPORT`.

    A device whose kernels were measured is related at least; a borrowed release, a changed device
    and a network that does not decode are related at most.

    Limits: "" for tier bound and the ideal engine, which have no errors of services.
    """
    profile, device = question.profile, devices(question)[0]
    if question.tier == "bound" or profile.name == IDEAL:
        return ""
    here, related, extrapolated = SUPPORT
    kinds, index_C = unseen(question)
    if kinds[index_C[0]]:
        return extrapolated
    stack = (profile.name, device.architecture, device.name)
    found = run_support(measured_runs(), model_kind(question), stack)
    differs = profile.borrowed or device.overridden or not question.model.network.decodes
    if found == here and not differs:
        return here
    return related if found == here or has_shipped(device.name) else found


def step_limits(cost: StepTimes, tails: StepTails) -> tuple[FloatArray, FloatArray]:
    """Return the limits of ln(measured / predicted) of a step by errors of runs, each (C,).

    The clock that a power limit leaves deviates independently of them.
    """
    total_s_C = cost.total_s()
    by_operators_C = np.zeros_like(total_s_C)
    # the deviation of ln(time) by its operators on other machines
    np.divide(cost.laboratory_s(), total_s_C, out=by_operators_C, where=total_s_C > 0.0)
    low_C, high_C = tails.limits(by_operators_C)
    width_C = cost.clock_width()
    return -np.hypot(low_C, width_C), np.hypot(high_C, width_C)


def fastest_s(cost: StepTimes, tails: StepTails) -> FloatArray:
    """Return the lower limit of the time of a step, at least its roofline time (C,) [s].

    Args:
        tails: Errors of measured runs.
    """
    fast_C = np.minimum(cost.low_s(), cost.total_s() * np.exp(step_limits(cost, tails)[0]))
    return np.maximum(fast_C, cost.least_s())


def slowest_s(cost: StepTimes, tails: StepTails) -> FloatArray:
    """Return the upper limit of the time of a step (C,) [s].

    Args:
        tails: Errors of measured runs.
    """
    slow_C: FloatArray = np.maximum(
        cost.high_s(), cost.total_s() * np.exp(step_limits(cost, tails)[1])
    )
    return slow_C
