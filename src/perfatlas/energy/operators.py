"""Dynamic energy of priced operators.

Shape legend: C candidates, O operators, D distinct devices, F number formats.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.energy.boards import board_energy, energy_data
from perfatlas.formats import get_format

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.machines import DeviceColumns
    from perfatlas.operators import FloatArray, Operator
    from perfatlas.pricing import PricedOperators

ZEROS: Final = "zeros"  # values of the tensors with an entry in `[inputs]` of the data file
# Remark on devices without energies.
ZEROS_UNUSED: Final = (
    "input_distribution = zeros has no effect here: it lowers power, which is not predicted"
)


def with_energy(
    operators: Sequence[Operator],
    prices: PricedOperators,
    devices: DeviceColumns,
    zeros_C: NDArray[np.bool_] | None = None,
) -> PricedOperators:
    """Return prices with the energy of one execution of each operator.

    Energy of the chip: FLOP, bytes between last-level cache and SMs, and issuing, at the voltage
    of the highest clock; `energy_share` is what a lower voltage leaves of it. SMs issue for a share
    of the time of an operator; those of experts issue for all of the time beyond the roofline.
    Energy of memory and links: bytes. The power that a board draws without kernels is not part of
    it.

    Args:
        operators: The operators of the columns (O).
        prices: Their prices (C, O).
        zeros_C: Whether all tensors hold zeros instead of random values (C,); None for none.

    Source: data/energy/energies.toml.

    Limits: Minimum traffic, as the roofline counts it; what kernels move beyond is part of the
        energy of a FLOP. Links carry no energy of the copies in device memory.
    """
    boards = [board_energy(device) for device in devices.devices]
    effect, shares = _effects(zeros_C), energy_data()["issue_share"]
    index_C = devices.index_C
    peaks = [_peak_key(operator) for operator in operators]
    keys = tuple(dict.fromkeys(peaks))
    flop_j_DF = np.array([[board.flop_j[key] for key in keys] for board in boards])
    format_O = np.array([keys.index(key) for key in peaks], np.int64)
    share_O = np.array([_issue_share(operator, shares) for operator in operators])
    excess_O = np.array([_excess_share(operator, shares) for operator in operators])

    def of_device(values: list[float]) -> FloatArray:
        column: FloatArray = np.array(values)[index_C][:, None]
        return column

    # of one device the same row for all candidates
    place_C = index_C if len(boards) > 1 else np.zeros(1, np.int64)
    flop_j_CO = effect["flop"] * flop_j_DF[place_C][:, format_O]
    chip_j_CO = prices.flop_CO * flop_j_CO
    chip_j_CO += (
        effect["sram"] * prices.chip_bytes_CO * of_device([b.sram_j_per_byte for b in boards])
    )
    issue_s_CO = share_O * prices.time_s_CO
    late = np.flatnonzero(excess_O)
    if late.size:
        beyond_s = np.maximum(prices.time_s_CO[:, late] - prices.bound_s_CO[:, late], 0.0)
        issue_s_CO[:, late] += excess_O[late] * beyond_s
    chip_j_CO += of_device([b.issue_w for b in boards]) * issue_s_CO
    memory_j_CO = (
        effect["memory"] * prices.memory_bytes_CO * of_device([b.memory_j_per_byte for b in boards])
    )
    memory_j_CO += prices.link_bytes_CO * of_device([b.link_j_per_byte for b in boards])
    return replace(prices, chip_energy_j_CO=chip_j_CO, memory_energy_j_CO=memory_j_CO)


def _effects(zeros_C: NDArray[np.bool_] | None) -> dict[str, FloatArray | float]:
    """Return the energy of each event relative to that of random values, (C, 1) or one number."""
    zeros = energy_data()["inputs"][ZEROS]
    if zeros_C is None:
        return dict.fromkeys(zeros, 1.0)
    return {name: np.where(zeros_C, zero["value"], 1.0)[:, None] for name, zero in zeros.items()}


def voltage(ratio: FloatArray, slope: FloatArray, floor: FloatArray) -> FloatArray:
    """Return the voltage relative to that of the highest clock.

    Args:
        ratio: Clock relative to the highest clock; above 1 the voltage is that of 1.
        slope: Relative loss of voltage per relative loss of clock.

    Source: a line with a floor, inferred from the energy of a FLOP on an H100 between 1.49 and
        1.98 GHz (data/energy/energies.toml); no vendor publishes the points.

    Example:
        >>> import numpy as np
        >>> from perfatlas.energy.operators import voltage
        >>> voltage(np.array([1.2, 1.0, 0.5, 0.1]), np.array(0.8), np.array(0.55)).tolist()
        [1.0, 1.0, 0.6, 0.55]
    """
    relative: FloatArray = np.maximum(1.0 - slope * (1.0 - np.minimum(ratio, 1.0)), floor)
    return relative


def _peak_key(operator: Operator) -> str:
    return get_format(operator.compute_format).tensor_peak


def _issue_share(operator: Operator, shares: dict[str, dict[str, float]]) -> float:
    """Return the share of the time of an operator in which its SMs issue."""
    if operator.communicates:
        return 0.0
    if not operator.multiplies:
        return shares["others"]["value"]
    layout = get_format(operator.compute_format)
    # SMs convert the weights to the format of the activations
    converts = layout.quantize == "none" and layout.weight_bytes < layout.activation_bytes
    return shares["converted" if converts else "products"]["value"]


def _excess_share(operator: Operator, shares: dict[str, dict[str, float]]) -> float:
    """Return the share of the time beyond the roofline in which SMs issue, not counted above."""
    if not operator.routed:
        return 0.0
    return max(shares["grouped"]["value"] - _issue_share(operator, shares), 0.0)
