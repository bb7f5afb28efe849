"""What a machine gives to the rest: prices of operators, and answers about its devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.machines.contract.devices import (
        DeviceColumns as DeviceColumns,
        device_peak as device_peak,
    )
    from perfatlas.machines.contract.gathered import (
        ClockPrices as ClockPrices,
        GatheredOperators as GatheredOperators,
        KernelFamily as KernelFamily,
    )
    from perfatlas.machines.contract.pricing import (
        communication_share as communication_share,
        gather_operators as gather_operators,
        issuing_units as issuing_units,
        price_operators as price_operators,
        spreads_weights as spreads_weights,
    )
    from perfatlas.machines.contract.repricing import repriced as repriced
    from perfatlas.machines.contract.roofline import managed_roofline as managed_roofline
    from perfatlas.machines.contract.row import (
        KernelChoice as KernelChoice,
        Machine as Machine,
        Tier as Tier,
    )
    from perfatlas.machines.contract.step_errors import (
        synchronisations as synchronisations,
        with_step_errors as with_step_errors,
    )
    from perfatlas.machines.contract.table import register as register
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
