"""Requests as columns: arrivals, lengths, sessions, scaling."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.serving.requests.arrivals import (
        all_at_once, constant_arrivals, gamma_arrivals, poisson_arrivals, ramp_arrivals, stream,
        think_times,
    )
    from perfatlas.serving.requests.columns import (
        TICKS_PER_SECOND, Requests, plain_requests, whole_ticks,
    )
    from perfatlas.serving.requests.conversations import Turns, sessions
    from perfatlas.serving.requests.dependencies import (
        after_pairs, after_previous, session_of, session_pool, waiting,
    )
    from perfatlas.serving.requests.lengths import (
        MAX_TOKENS, drawn_rows, empirical_lengths, fixed_lengths, lognormal, lognormal_lengths,
        range_around, uniform_lengths,
    )
    from perfatlas.serving.requests.hashes import (
        cached_start, prompt_hashes, with_hashes,
    )
    from perfatlas.serving.requests.reuse_distance import prefix_reuse
    from perfatlas.serving.requests.scaling import scale_lengths, scale_rate, spread_batches
    from perfatlas.serving.requests.trace_reuse import PREFIX_AWARE, Caches, TraceReuse, caches_of
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
