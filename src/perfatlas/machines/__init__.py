"""Machines: what prices the operators of a rank, one folder for each kind of device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.machines.contract import (
        ClockPrices as ClockPrices,
        DeviceColumns as DeviceColumns,
        GatheredOperators as GatheredOperators,
        Machine as Machine,
        Tier as Tier,
        communication_share as communication_share,
        device_peak as device_peak,
        gather_operators as gather_operators,
        issuing_units as issuing_units,
        price_operators as price_operators,
        register as register,
        repriced as repriced,
        spreads_weights as spreads_weights,
    )
    from perfatlas.machines.gpu.pipeline import (
        AttentionWork as AttentionWork,
        GemmWork as GemmWork,
        KernelDesign as KernelDesign,
        KernelFamily as KernelFamily,
        KernelTile as KernelTile,
        Silicon as Silicon,
        completed_tile as completed_tile,
        design_kernel as design_kernel,
        family_of as family_of,
        kernel_silicon as kernel_silicon,
        what_ifs as what_ifs,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
