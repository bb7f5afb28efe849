"""Sentences on the clocks that power leaves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from perfatlas.energy import board_energy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.hardware import Device

ZEROS_ALONE: Final = ("tensors of zeros",)


def clock_causes(
    device: Device, limit_w: float, locked: float | None, *, zeros: bool
) -> tuple[str, ...]:
    """Return what may give a device another clock than its kernels were measured at.

    Args:
        device: The device.
        limit_w: Its power limit [W].
        locked: Clock over the sustained one that a user sets, None for none.
        zeros: Whether all tensors hold zeros.
    """
    causes = [] if locked is None else [f"a clock locked at {locked:g}"]
    own_clock = board_energy(device).lender and not math.isnan(limit_w)
    if own_clock or limit_w < device.calibrated_tdp_w:
        causes.append(f"a power limit of {limit_w:g} W")
    if zeros:
        causes += ZEROS_ALONE
    return tuple(causes)


def clock_note(
    device: Device, causes: Sequence[str], left: str, *, moved: bool, known: bool
) -> str:
    """Return the sentence on the clocks that some causes leave.

    Args:
        device: The device.
        causes: What leaves them.
        left: Which clocks are left to what.
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
        f"{' and '.join(causes)} {verb} {left} of the clock {clock}; voltages are inferred or"
        " assumed, and kernels were measured only at that clock, whose interval is used"
    )
