"""What the prefix caches of a deployment have of the prompts of a trace.

Shape legend: N requests, K classes, P points, H blocks of prompts that repeat.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.serving.requests import prefix_reuse

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.parallelism import PlanColumns
    from perfatlas.serving.requests import Requests
    from perfatlas.serving.requests.reuse_distance import PrefixReuse

PREFIX_AWARE: Final = "prefix_aware"
MAX_KEPT_CACHES: Final = 32  # numbers of caches whose reuse is kept


class Caches(NamedTuple):
    """The prefix caches of deployments."""

    number: FloatArray  # Caches, each of which receives one of so many requests (P,)
    tokens: FloatArray  # Capacity of each [tokens] (P,)


def caches_of(plan: PlanColumns, kv_capacity_tokens: FloatArray, routing: str) -> Caches:
    """Return the prefix caches of plans: one of each attention-DP rank of each replica.

    Args:
        kv_capacity_tokens: KV cache of a replica [tokens] (P,).
        routing: round_robin, where each cache receives one of so many requests, or prefix_aware,
            where all together are one cache.
    """
    number = plan.dp * plan.attention_dp
    tokens = kv_capacity_tokens / plan.attention_dp
    if routing == PREFIX_AWARE:
        return Caches(np.ones_like(number), number * tokens)
    return Caches(number, tokens)


@dataclass(frozen=True, kw_only=True, eq=False)
class TraceReuse:
    """Prompts of a trace of which some repeat the start of earlier ones."""

    requests: Requests  # The requests, with hashes of their prompts
    class_N: IntArray  # Class of each request (N,)
    count_K: IntArray  # Requests of each class (K,)

    def mean_cached(self, caches: Caches) -> FloatArray:
        """Return the mean prompt tokens of each class that caches have (K, P)."""
        mean_KP = np.zeros((self.count_K.size, caches.number.size))
        for number in np.unique(caches.number).tolist():
            some = np.flatnonzero(caches.number == number)
            for k, (needed_H, total_H) in enumerate(_by_class(self, int(number))):
                last = np.searchsorted(needed_H, caches.tokens[some], side="right")
                mean_KP[k, some] = total_H[last] / self.count_K[k]
        return mean_KP

    def cached_tokens(self, caches: Caches) -> IntArray:
        """Return the prompt tokens of each request that the caches of a deployment have (N,)."""
        reuse = prefix_reuse(self.requests, int(caches.number[0]))
        return reuse.cached_tokens(float(caches.tokens[0]), self.class_N.size)


@lru_cache(maxsize=MAX_KEPT_CACHES)
def _by_class(trace: TraceReuse, caches: int) -> tuple[tuple[IntArray, IntArray], ...]:
    """Return the capacities from which blocks of each class are found, and the tokens up to there.

    The tokens have one entry more: those of no block.
    """
    reuse: PrefixReuse = prefix_reuse(trace.requests, caches)
    repeated = np.flatnonzero(reuse.repeats)
    order = repeated[np.argsort(reuse.needed_H[repeated], kind="stable")]
    class_H = trace.class_N[reuse.request_H[order]]
    curves = []
    for k in range(trace.count_K.size):
        of_class = order[class_H == k]
        curves.append((reuse.needed_H[of_class], np.append(0, np.cumsum(reuse.saved_H[of_class]))))
    return tuple(curves)
