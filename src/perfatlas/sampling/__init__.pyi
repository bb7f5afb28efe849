from .draws import (
    five_quantiles as five_quantiles,
    seeded_subset as seeded_subset,
)
from .normal import (
    normal_probability as normal_probability,
    normal_quantile as normal_quantile,
)
from .rates import (
    JEFFREYS as JEFFREYS,
    RatePosterior as RatePosterior,
    check_level as check_level,
    exact_rate_interval as exact_rate_interval,
    rate_posterior as rate_posterior,
    standard_errors as standard_errors,
)
from .slowest import (
    DISTRIBUTIONS as DISTRIBUTIONS,
    expected_slowdown as expected_slowdown,
    slowdown_quantile as slowdown_quantile,
)
from .steady_series import (
    FEWEST as FEWEST,
    SETTLED as SETTLED,
    Precision as Precision,
    Stability as Stability,
    batch_precision as batch_precision,
    stability_of as stability_of,
    warm_up as warm_up,
)
