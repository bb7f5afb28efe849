"""Step prices tabulated for a compiled loop."""

from __future__ import annotations

from perfatlas.serving.prices.lookup import StepLoads, step_s
from perfatlas.serving.prices.tables import StepPrices
from perfatlas.serving.prices.tabulate import PriceTable, TableLimits, price_table

__all__ = [
    "PriceTable",
    "StepLoads",
    "StepPrices",
    "TableLimits",
    "price_table",
    "step_s",
]
