"""Operator x device x clock to time with its bound, in tiers behind one face."""

from __future__ import annotations

from perfatlas.kernels.bound import bound_time
from perfatlas.kernels.devices import DeviceColumns, device_peak
from perfatlas.kernels.pricing import PricedOperators, Tier, price_operators
from perfatlas.kernels.silicon import silicon_row
from perfatlas.kernels.unique import unique_rows

__all__ = [
    "DeviceColumns",
    "PricedOperators",
    "Tier",
    "bound_time",
    "device_peak",
    "price_operators",
    "silicon_row",
    "unique_rows",
]
