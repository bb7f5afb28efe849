"""Prices of operators on devices in three tiers, with bounds and evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.machines.gpu.tiers.pricing import (
        ClockPrices as ClockPrices,
        GatheredOperators as GatheredOperators,
        Tier as Tier,
        gather_operators as gather_operators,
        price_operators as price_operators,
    )
    from perfatlas.machines.gpu.tiers.quantized_rows import holds_quantization as holds_quantization
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
