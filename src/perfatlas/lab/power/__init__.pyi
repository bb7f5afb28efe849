from .loads import (
    fit_loads as fit_loads,
    read_loads as read_loads,
    score_loads as score_loads,
    shipped_values as shipped_values,
)
from .readings import (
    kernel_watts as kernel_watts,
)
from .scores import (
    Watts as Watts,
    fit_floor_and_scale as fit_floor_and_scale,
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
