"""Cost: prices of GPU-hours, ownership, cost of tokens, electricity, carbon, cost of chips."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.cost.chips import (
        ChipCost, chip_cost, chip_data, chip_note, known_dies, predicted_area_mm2,
    )
    from perfatlas.cost.metered import METERED, energy_usd, metered_columns, unused_meter_text
    from perfatlas.cost.ownership import HourlyCost, recovery_factor
    from perfatlas.cost.packages import interposers_of
    from perfatlas.cost.prices import (
        GpuPrice, PriceList, capital_usd, gpu_price, price_list, price_problem, prices_of,
    )
    from perfatlas.cost.tokens import (
        SPLIT_RULE, PoolPrices, TokenCounts, cost_columns, cost_parts, hourly_usd,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
