"""Power limits that no clock keeps.

Shape legend: C candidates.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from perfatlas import energy
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray
    from perfatlas.quantities import PerfatlasError
    from perfatlas.step import Candidates, SharedSteps, StepCost


def breaks_limits(question: Candidates, steps: Sequence[SharedSteps]) -> NDArray[np.bool_]:
    """Return whether a power limit cannot be kept (C,).

    Args:
        steps: The steps that they run.
    """
    broken_C = np.zeros(question.size, np.bool_)
    for shared in steps:
        broken_C |= np.isfinite(shared.of(_lowest_w))
    return broken_C


def _lowest_w(cost: StepCost) -> FloatArray:
    """Return the power at the lowest clock of steps that no clock keeps below a limit (C,) [W]."""
    return cost.clock.lowest_w


def power_limit_error(
    question: Candidates, steps: Sequence[SharedSteps], candidate: int = 0
) -> PerfatlasError:
    """Return the error of a candidate whose power limit cannot be kept.

    Args:
        steps: The steps that they run.
        candidate: Index of one that `breaks_limits`.
    """
    placement = question.placement
    device = placement.systems[int(placement.index_C[candidate])].device
    board = energy.board_energy(device)
    limits_C = placement.power_cap_w_C
    limit_w = math.inf if limits_C is None else float(limits_C[candidate])
    name = "power_cap_w" if limit_w <= board.cap_w else "device.tdp"
    lowest_w = float(np.nanmax([shared.of(_lowest_w)[candidate] for shared in steps]))
    if placement.by_node_C is not None and placement.by_node_C[candidate]:
        node = placement.systems[int(placement.index_C[candidate])].node
        return InvalidSpecError(
            f"node_power_cap_w leaves {limit_w:.0f} W to each GPU, which cannot be kept: at the"
            f" lowest clock, {energy.lowest_clock():g} of the sustained one, {device.name} draws"
            f" {lowest_w:.1f} W; set it to {math.ceil(energy.node_power(node).node_w(lowest_w))} W"
            " or more"
        )
    return InvalidSpecError(
        f"{name} = {min(limit_w, board.cap_w):g} W cannot be kept: at the lowest clock,"
        f" {energy.lowest_clock():g} of the sustained one, {device.name} draws {lowest_w:.1f} W;"
        f" set {name} to {math.ceil(lowest_w)} W or more"
    )
