"""Price tables of steps for the compiled event loop."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.serving.prices.lookup import StepLoads, step_s
    from perfatlas.serving.prices.split_layers import split_prices
    from perfatlas.serving.prices.tables import TERMS, EnergyPrices, StepPrices, no_energy
    from perfatlas.serving.prices.tabulate import PriceTable, TableLimits, price_table
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
