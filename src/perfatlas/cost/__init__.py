"""Cost: prices of GPU-hours, ownership, cost of tokens, electricity, carbon, cost of chips."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.cost.chips import (
        ChipCost as ChipCost,
        chip_cost as chip_cost,
        chip_data as chip_data,
        chip_note as chip_note,
        known_dies as known_dies,
        predicted_area_mm2 as predicted_area_mm2,
    )
    from perfatlas.cost.metered import (
        METERED as METERED,
        energy_usd as energy_usd,
        metered_columns as metered_columns,
        unused_meter_text as unused_meter_text,
    )
    from perfatlas.cost.ownership import (
        HourlyCost as HourlyCost,
        recovery_factor as recovery_factor,
    )
    from perfatlas.cost.prices import (
        GpuPrice as GpuPrice,
        gpu_price as gpu_price,
        price_problem as price_problem,
        prices_of as prices_of,
    )
    from perfatlas.cost.tokens import (
        SPLIT_RULE as SPLIT_RULE,
        PoolPrices as PoolPrices,
        TokenCounts as TokenCounts,
        cost_columns as cost_columns,
        cost_parts as cost_parts,
        hourly_usd as hourly_usd,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
