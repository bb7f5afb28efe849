"""Traffic of a deployment: run lengths, steady state, and searches for rates and sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.studies.traffic.judged_sizes import (
        ONE_POOL as ONE_POOL,
        TWO_POOLS as TWO_POOLS,
        Size as Size,
        SizeSearch as SizeSearch,
        beyond_capacity as beyond_capacity,
        judge as judge,
        load_on as load_on,
        load_on_one as load_on_one,
        size_at as size_at,
        smallest_size as smallest_size,
    )
    from perfatlas.studies.traffic.request_rates import (
        RateSearch as RateSearch,
        capacity_of as capacity_of,
        find_rate as find_rate,
        full_rate as full_rate,
        rate_at as rate_at,
    )
    from perfatlas.studies.traffic.run_length import (
        FIRST as FIRST,
        TrafficRun as TrafficRun,
        WatchedRuns as WatchedRuns,
        sized_run as sized_run,
        slow_load as slow_load,
    )
    from perfatlas.studies.traffic.spread_of_draws import (
        Spread as Spread,
        arrival_spread as arrival_spread,
        draws_traffic as draws_traffic,
        widened as widened,
    )
    from perfatlas.studies.traffic.steady_results import (
        gaps_between as gaps_between,
        length_note as length_note,
        load_results as load_results,
        stable_probability as stable_probability,
        steady_rates as steady_rates,
        steady_warnings as steady_warnings,
        window_results as window_results,
        without_steady_mean as without_steady_mean,
        without_upper_limit as without_upper_limit,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
