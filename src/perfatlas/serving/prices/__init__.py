"""Price tables of steps for the compiled event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.serving.prices.lookup import StepLoads as StepLoads, step_s as step_s
    from perfatlas.serving.prices.tables import (
        ENERGY_TABLES as ENERGY_TABLES,
        EnergyPrices as EnergyPrices,
        StepPrices as StepPrices,
        no_energy as no_energy,
    )
    from perfatlas.serving.prices.tabulate import (
        PriceTable as PriceTable,
        TableLimits as TableLimits,
        price_table as price_table,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
