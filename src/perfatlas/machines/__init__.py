"""Machines: what prices the operators of a rank, one folder for each kind of device."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.machines.contract import (
        ClockPrices, DeviceColumns, GatheredOperators, Machine, Tier, communication_share,
        device_peak, gather_operators, issuing_units, price_operators, register, repriced,
        spreads_weights,
    )
    from perfatlas.machines.gpu.pipeline import (
        AttentionWork, GemmWork, KernelDesign, KernelFamily, KernelTile, Silicon, completed_tile,
        design_kernel, family_of, kernel_silicon, what_ifs,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
