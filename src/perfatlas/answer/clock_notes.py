"""Sentences on the clocks that power leaves."""

from __future__ import annotations

import math
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.energy import board_energy
from perfatlas.inference import unreached_limits, unused_zeros
from perfatlas.step import StepCost

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfatlas.hardware import Device
    from perfatlas.operators import FloatArray
    from perfatlas.step import Candidates, Placement, SharedSteps

ZEROS_ALONE: Final = ("tensors of zeros",)
ROUNDING: Final = 1e-9  # relative, above which a power exceeds its limit


def raised_clock_notes(
    subject: str, clock_C: FloatArray, watts_C: FloatArray, limit_w_C: FloatArray
) -> Iterator[tuple[int, str]]:
    """Yield candidates whose raised clock takes more power than their limit, and a warning.

    Args:
        subject: What runs, such as "decode steps".
        clock_C: Clock over the sustained one that a user locks (C,).
        watts_C: Power at that clock without a limit (C,) [W].
        limit_w_C: Power limit (C,) [W].
    """
    above_C = (clock_C > 1.0) & (watts_C > limit_w_C * (1.0 + ROUNDING))
    for c in np.flatnonzero(above_C).tolist():
        yield (
            c,
            (
                f"clock_ratio = {clock_C[c]:g}: {subject} would draw {watts_C[c]:,.0f} W, above the"
                f" limit of {limit_w_C[c]:,.0f} W: a real device lowers the clock, so these times"
                " are lower limits, and power and energy are those at the limit"
            ),
        )


def raised_step_notes(steps: SharedSteps, placement: Placement) -> Iterator[tuple[int, str]]:
    """Yield candidates whose steps exceed their power limit at a raised clock, and a warning.

    Args:
        placement: Their devices, clocks and limits.
    """
    if placement.clock_ratio_C is None:
        return
    power = placement.power()
    watts_C = power.on_w + steps.of(StepCost.energy_j) / steps.of(StepCost.total_s)
    subject = f"{steps.cost.operators[0].phase} steps"
    yield from raised_clock_notes(subject, placement.clock_ratio_C, watts_C, power.cap_w)


def power_warnings(question: Candidates, steps: Sequence[SharedSteps]) -> list[str]:
    """Return warnings of power options without effect and of clocks that power would not leave.

    Args:
        steps: The steps that they run.
    """
    raised = (raised_step_notes(shared, question.placement) for shared in steps)
    unused = (unreached_limits(question), unused_zeros(question))
    return [text for _, text in chain(*unused, *raised)]


def clock_causes(
    device: Device, limit_w: float, locked: float | None, *, zeros: bool
) -> tuple[str, ...]:
    """Return what may give a device another clock than its kernels were measured at.

    Args:
        limit_w: Its power limit [W].
        locked: Clock over the sustained one that a user sets, None for none.
    """
    causes = [] if locked is None else [f"a clock locked at {locked:g}"]
    own_clock = board_energy(device).lender and not math.isnan(limit_w)
    if own_clock or limit_w < device.calibrated_tdp_w:
        causes.append(f"a power limit of {limit_w:g} W")
    if zeros:
        causes += ZEROS_ALONE
    return tuple(causes)


def clock_note(
    device: Device, causes: Sequence[str], remaining: str, *, moved: bool, known: bool
) -> str:
    """Return the sentence on the clocks that some causes leave.

    Args:
        causes: What leaves them.
        moved: Whether any differs from that at which kernels were measured.
        known: Whether power decides clocks: not at the roofline, nor without energies.
    """
    if causes == ZEROS_ALONE and not known:
        return "input_distribution = zeros changes no time: no clock is predicted here"
    lender = board_energy(device).lender
    clock = f"of {lender} at its TDP" if lender else "sustained at the TDP"
    verb = "leaves" if len(causes) == 1 and causes != ZEROS_ALONE else "leave"
    if not moved:
        return (
            f"{' and '.join(causes)} {verb} the clock {clock} unchanged, and with it all times:"
            " power does not limit these kernels"
        )
    return (
        f"{' and '.join(causes)} {verb} {remaining} of the clock {clock}; voltages are inferred or"
        " assumed, and kernels were measured only at that clock, whose interval is used"
    )
