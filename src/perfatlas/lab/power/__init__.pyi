from .clock_shares import (
    clock_share_errors as clock_share_errors,
)
from .loads import (
    fit_loads as fit_loads,
    read_loads as read_loads,
    score_loads as score_loads,
    shipped_values as shipped_values,
)
from .readings import (
    fit_kernels as fit_kernels,
    kernel_watts as kernel_watts,
    sample_counts as sample_counts,
)
from .scores import (
    Watts as Watts,
    fit_factors as fit_factors,
    held_out as held_out,
    power_error as power_error,
)
from .served import (
    ServedPower as ServedPower,
    scenario_of as scenario_of,
    served_power as served_power,
)
from .splits import (
    fold_of as fold_of,
    power_splits as power_splits,
)
