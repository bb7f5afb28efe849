"""Sentences on the clocks that power leaves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.energy import board_energy

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from perfatlas.hardware import Device
    from perfatlas.operators import FloatArray

ZEROS_ALONE: Final = ("tensors of zeros",)
ROUNDING: Final = 1e-9  # relative, above which a power exceeds its limit


class LockedClocks(NamedTuple):
    """Clocks that a user locks, and the power that they would take."""

    subject: str  # What runs, such as "decode steps"
    ratio_C: FloatArray  # Clock over the sustained one (C,)
    watts_C: FloatArray  # Power at that clock without a limit (C,) [W]
    limit_w_C: FloatArray  # Power limit (C,) [W]

    def too_high(self) -> NDArray[np.bool_]:
        """Return the raised clocks that take more power than their limit (C,)."""
        above_C: NDArray[np.bool_] = self.watts_C > self.limit_w_C * (1.0 + ROUNDING)
        return above_C & (self.ratio_C > 1.0)

    def note(self, c: int) -> str:
        """Return what such a clock means for an answer."""
        return (
            f"clock_ratio = {self.ratio_C[c]:g}: {self.subject} would draw {self.watts_C[c]:,.0f}"
            f" W, above the limit of {self.limit_w_C[c]:,.0f} W: a real device lowers the clock, so"
            " these times are lower limits, and power and energy are those at the limit"
        )


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
