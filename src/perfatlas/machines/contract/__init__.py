"""What a machine gives to the rest: prices of operators, and answers about its devices."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.machines.contract.machine import (
        DeviceColumns, KernelChoice, KernelFamily, Machine, Tier, device_peak, register,
    )
    from perfatlas.machines.contract.managed import (
        managed_roofline, repriced, synchronisations, with_step_errors,
    )
    from perfatlas.machines.contract.pricing import (
        ClockPrices, GatheredOperators, communication_share, gather_operators, issuing_units,
        price_operators, spreads_weights,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
