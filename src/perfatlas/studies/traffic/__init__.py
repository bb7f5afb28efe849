"""Traffic of a deployment: run lengths, steady state, and searches for rates and sizes."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.studies.traffic.judged_sizes import (
        LIVE, ONE_POOL, PLURALS, TWO_POOLS, Size, SizeSearch, beyond_capacity, judge, load_on,
        load_on_one, most_sessions, size_at, smallest_size,
    )
    from perfatlas.studies.traffic.request_rates import (
        RateSearch, capacity_of, find_rate, full_rate, rate_at,
    )
    from perfatlas.studies.traffic.run_length import (
        FIRST, TrafficRun, WatchedRuns, served, sized_run, slow_load,
    )
    from perfatlas.studies.traffic.spread_of_draws import (
        Spread, arrival_spread, draws_traffic, widened,
    )
    from perfatlas.studies.traffic.steady_results import (
        gaps_between, length_note, load_results, stable_probability, steady_rates, steady_warnings,
        window_results, without_steady_mean, without_upper_limit,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
