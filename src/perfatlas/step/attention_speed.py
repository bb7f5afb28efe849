"""Attention kernels of an engine whose speed is known relative to the measured ones.

Shape legend: C candidates, O operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfatlas.operators import Attention
from perfatlas.pricing import scaled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.engines import EngineProfile
    from perfatlas.machines import DeviceColumns
    from perfatlas.operators import Operator
    from perfatlas.pricing import PricedOperators


def with_attention_speed(
    prices: PricedOperators,
    operators: Sequence[Operator],
    profile: EngineProfile,
    devices: DeviceColumns,
) -> PricedOperators:
    """Return prices with the times of the engine's own attention kernels.

    Args:
        operators: Operators of a step (O).
        profile: `attention` names its source.
        devices: Device of each candidate.

    Limits: One factor for all shapes. Energy is that of the measured kernels.
    """
    if profile.attention is None:
        return prices
    speeds = [profile.attention.speed.get(device.architecture, 1.0) for device in devices.devices]
    speed_CO = np.where(
        [isinstance(operator, Attention) for operator in operators],
        np.array(speeds)[devices.index_C][:, None],
        1.0,
    )
    return scaled(prices, time=np.where(prices.match_CO >= 0, 1.0 / speed_CO, 1.0))
