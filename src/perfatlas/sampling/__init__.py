"""Seeded draws, sample quantiles, rates from counts and the slowest of many ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.sampling.draws import (
        five_quantiles as five_quantiles,
        seeded_subset as seeded_subset,
    )
    from perfatlas.sampling.normal import (
        normal_probability as normal_probability,
        normal_quantile as normal_quantile,
    )
    from perfatlas.sampling.rates import (
        JEFFREYS as JEFFREYS,
        RatePosterior as RatePosterior,
        check_level as check_level,
        exact_rate_interval as exact_rate_interval,
        rate_posterior as rate_posterior,
        standard_errors as standard_errors,
    )
    from perfatlas.sampling.slowest import (
        DISTRIBUTIONS as DISTRIBUTIONS,
        expected_slowdown as expected_slowdown,
        slowdown_quantile as slowdown_quantile,
    )
    from perfatlas.sampling.steady_series import (
        FEWEST as FEWEST,
        SETTLED as SETTLED,
        Precision as Precision,
        Stability as Stability,
        batch_precision as batch_precision,
        stability_of as stability_of,
        warm_up as warm_up,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
