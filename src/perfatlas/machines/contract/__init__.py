"""What a machine gives to the rest: prices of operators, and answers about its devices."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.machines.contract.devices import DeviceColumns, device_peak
    from perfatlas.machines.contract.gathered import ClockPrices, GatheredOperators, KernelFamily
    from perfatlas.machines.contract.pricing import (
        communication_share, gather_operators, issuing_units, price_operators, spreads_weights,
    )
    from perfatlas.machines.contract.repricing import repriced
    from perfatlas.machines.contract.roofline import managed_roofline
    from perfatlas.machines.contract.row import KernelChoice, Machine, Tier
    from perfatlas.machines.contract.step_errors import synchronisations, with_step_errors
    from perfatlas.machines.contract.table import register
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
