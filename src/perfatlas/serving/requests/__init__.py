"""Requests as columns: arrivals, lengths, sessions, scaling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.serving.requests.arrivals import (
        all_at_once as all_at_once,
        constant_arrivals as constant_arrivals,
        gamma_arrivals as gamma_arrivals,
        poisson_arrivals as poisson_arrivals,
        ramp_arrivals as ramp_arrivals,
        stream as stream,
        think_times as think_times,
    )
    from perfatlas.serving.requests.columns import (
        TICKS_PER_SECOND as TICKS_PER_SECOND,
        Requests as Requests,
        cached_start as cached_start,
        plain_requests as plain_requests,
        whole_ticks as whole_ticks,
    )
    from perfatlas.serving.requests.conversations import Turns as Turns, sessions as sessions
    from perfatlas.serving.requests.lengths import (
        LONGEST_TOKENS as LONGEST_TOKENS,
        drawn_rows as drawn_rows,
        empirical_lengths as empirical_lengths,
        fixed_lengths as fixed_lengths,
        lognormal as lognormal,
        lognormal_lengths as lognormal_lengths,
        range_around as range_around,
        uniform_lengths as uniform_lengths,
    )
    from perfatlas.serving.requests.reuse_distance import prefix_reuse as prefix_reuse
    from perfatlas.serving.requests.scaling import (
        scale_lengths as scale_lengths,
        scale_rate as scale_rate,
        spread_batches as spread_batches,
    )
    from perfatlas.serving.requests.trace_reuse import (
        PREFIX_AWARE as PREFIX_AWARE,
        Caches as Caches,
        TraceReuse as TraceReuse,
        caches_of as caches_of,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
