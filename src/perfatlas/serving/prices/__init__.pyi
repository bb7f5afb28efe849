from .lookup import (
    StepLoads as StepLoads,
    step_s as step_s,
)
from .tables import (
    ENERGY_TABLES as ENERGY_TABLES,
    EnergyPrices as EnergyPrices,
    StepPrices as StepPrices,
    no_energy as no_energy,
)
from .tabulate import (
    PriceTable as PriceTable,
    TableLimits as TableLimits,
    price_table as price_table,
)
