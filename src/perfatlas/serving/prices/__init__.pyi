from .lookup import (
    StepLoads as StepLoads,
    step_s as step_s,
)
from .tables import (
    StepPrices as StepPrices,
)
from .tabulate import (
    PriceTable as PriceTable,
    TableLimits as TableLimits,
    price_table as price_table,
)
