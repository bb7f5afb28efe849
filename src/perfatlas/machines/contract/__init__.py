"""What a machine gives to the rest: prices of operators, and answers about its devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.machines.contract.machine import (
        DeviceColumns as DeviceColumns,
        KernelChoice as KernelChoice,
        KernelFamily as KernelFamily,
        Machine as Machine,
        Tier as Tier,
        device_peak as device_peak,
        register as register,
    )
    from perfatlas.machines.contract.managed import (
        managed_roofline as managed_roofline,
        repriced as repriced,
        synchronisations as synchronisations,
        with_step_errors as with_step_errors,
    )
    from perfatlas.machines.contract.pricing import (
        ClockPrices as ClockPrices,
        GatheredOperators as GatheredOperators,
        communication_share as communication_share,
        gather_operators as gather_operators,
        issuing_units as issuing_units,
        price_operators as price_operators,
        spreads_weights as spreads_weights,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
