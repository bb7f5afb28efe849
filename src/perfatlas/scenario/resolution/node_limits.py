"""Power limits of nodes and racks, as limits of their GPUs.

Shape legend: N rows, C candidates.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.energy import board_energy, node_power
from perfatlas.quantities import InvalidSpecError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.hardware import System
    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.quantities import PerfatlasError
    from perfatlas.scenario.resolution.field_columns import ScenarioColumns

NODE_LIMIT: Final = "node_power_cap_w"
LIMITS_OF_POWER: Final = ("power_cap_w", NODE_LIMIT)


def gpu_limits_w(
    columns: ScenarioColumns, rows_C: IntArray, systems: Mapping[str, System]
) -> FloatArray:
    """Return what the limits of their nodes leave to each GPU of rows (C,) [W], inf for none.

    Args:
        columns: Fields of all rows (N).

    Returns:
        The limits; NaN for nodes whose other parts have no known power, and 0 or less if those
        parts alone draw more.
    """
    node_w_C = columns.numbers(NODE_LIMIT, np.inf)[rows_C]
    limits_C = np.full(node_w_C.shape, np.inf)
    names = columns["system"]
    for c in np.flatnonzero(np.isfinite(node_w_C)):
        system = systems.get(names.values[int(names.codes_N[rows_C[c]])])
        if system is not None:
            limits_C[c] = node_power(system.node).gpu_w(float(node_w_C[c]))
    return limits_C


def node_limit_error(limit_w: float, system: System, gpu_w: float) -> PerfatlasError:
    """Return the error of a node limit that leaves nothing to its GPUs, or an unknown share."""
    node = system.node
    if math.isnan(gpu_w):
        return UnsupportedError(
            f"{NODE_LIMIT} = {limit_w:g} W: the power of processors, switches and fans of"
            f" {node.name} is unknown; set power_cap_w, the limit of a GPU, instead"
        )
    others_w = node_power(node).node_w(0.0)
    return InvalidSpecError(
        f"{NODE_LIMIT} = {limit_w:g} W leaves nothing to the {node.devices} GPUs of {node.name},"
        f" whose other parts draw {others_w:.0f} W; set it to more than {math.ceil(others_w)} W, or"
        " leave it out"
    )


def unknown_power(system: System) -> UnsupportedError | None:
    """Return why a power limit of the GPUs of a system cannot be applied, None where it can."""
    board = board_energy(system.device)
    if not math.isnan(board.on_w):
        return None
    return UnsupportedError(f"power_cap_w: {board.notes[0]}; omit it")


def limit_at_bound_error(name: str, limit_w_N: FloatArray, row: int) -> InvalidSpecError:
    """Return the error of a power limit in tier bound."""
    return InvalidSpecError(
        f"{name} = {limit_w_N[row]:g} W needs measured kernels: the clock under a power limit"
        " follows from a model, so that a roofline time at that clock is no lower limit; leave"
        f" {name} out, or choose a tier with measured kernels"
    )
