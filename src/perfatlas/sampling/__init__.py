"""Seeded draws, sample quantiles, rates from counts and the slowest of many ranks."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.sampling.draws import five_quantiles, seeded_subset
    from perfatlas.sampling.normal import normal_probability, normal_quantile
    from perfatlas.sampling.prediction_errors import ErrorStatistics, error_statistics, share_inside
    from perfatlas.sampling.rates import (
        JEFFREYS, RatePosterior, check_level, exact_rate_interval, rate_posterior, standard_errors,
    )
    from perfatlas.sampling.slowest import DISTRIBUTIONS, expected_slowdown, slowdown_quantile
    from perfatlas.sampling.steady_series import (
        MIN_OBSERVATIONS, SETTLED, Precision, Stability, batch_precision, stability_of, warm_up,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
