"""Power limits that no clock keeps, and options of power without effect.

Shape legend: C candidates.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from perfatlas import energy
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray
    from perfatlas.quantities import PerfatlasError
    from perfatlas.step import Candidates, Placement, SharedSteps, StepCost


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


def unreached_limits(question: Candidates) -> Iterator[tuple[int, str]]:
    """Yield candidates with a power limit that has no effect, and a remark on it.

    It is above what their GPUs may draw, or above the other one of the limits of GPU and node.
    """
    placement = question.placement
    if placement.power_cap_w_C is None:
        return
    yield from _higher_limits(placement)
    boards = [energy.board_energy(system.device) for system in placement.systems]
    cap_w_C = np.array([board.cap_w for board in boards])[placement.index_C]
    above_C = np.isfinite(placement.power_cap_w_C) & (placement.power_cap_w_C > cap_w_C)
    for candidate in np.flatnonzero(above_C).tolist():
        limit_w = float(placement.power_cap_w_C[candidate])
        name = placement.systems[int(placement.index_C[candidate])].device.name
        by_node = placement.by_node_C is not None and bool(placement.by_node_C[candidate])
        cap_w = float(cap_w_C[candidate])
        yield candidate, energy.unreached_limit_note(name, limit_w, cap_w, by_node=by_node)


def unused_zeros(question: Candidates) -> Iterator[tuple[int, str]]:
    """Yield candidates with tensors of zeros on devices without energies, and a remark."""
    placement = question.placement
    if placement.zeros_C is None:
        return
    unused_C = placement.zeros_C & np.isnan(placement.power().sustained_on_w)
    for candidate in np.flatnonzero(unused_C).tolist():
        yield candidate, energy.ZEROS_UNUSED


def _higher_limits(placement: Placement) -> Iterator[tuple[int, str]]:
    """Yield candidates with limits of GPU and node, and a remark on the one that does not act."""
    limits_C, higher_C = placement.power_cap_w_C, placement.higher_limit_w_C
    if limits_C is None or higher_C is None:
        return
    for candidate in np.flatnonzero(np.isfinite(higher_C)).tolist():
        limit_w, higher_w = float(limits_C[candidate]), float(higher_C[candidate])
        if placement.by_node_C is not None and placement.by_node_C[candidate]:
            why = f"node_power_cap_w leaves {limit_w:.0f} W to each GPU"
            yield candidate, f"power_cap_w = {higher_w:g} W has no effect here: {why}"
        else:
            why = f"it leaves {higher_w:.0f} W to each GPU, and power_cap_w = {limit_w:g} W"
            yield candidate, f"node_power_cap_w has no effect here: {why}"


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
