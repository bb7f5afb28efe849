from .outcome import (
    Outcome as Outcome,
    exact_sum as exact_sum,
)
from .rare_outcomes import (
    loss_probability as loss_probability,
)
from .run import (
    simulate as simulate,
    simulate_until as simulate_until,
)
from .searched_interval import (
    chosen_interval_s as chosen_interval_s,
)
