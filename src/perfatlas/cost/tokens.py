"""Cost of tokens at the rates of a deployment.

Shape legend: C candidates.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.cost.ownership import PARTS
from perfatlas.quantities import HOUR_S

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from perfatlas.cost.metered import FloatArray, Numbers
    from perfatlas.cost.prices import GpuPrice

MILLION: Final = 1e6
# end of the interval of a price, and that of the rate which costs as much
ENDS: Final = (("", ""), ("_low", "_high"), ("_high", "_low"))
RATE: Final = "output_tokens_per_s_per_gpu"
COST: Final = "usd_per_million_output_tokens"
CACHED_COST: Final = "usd_per_million_cached_input_tokens"
SPLIT_RULE: Final = (
    "cost of input and output tokens: what a step with prompts takes longer than one without is"
    " charged to its input tokens, and idle time is shared in proportion; with two pools, prefill"
    " is charged to input tokens and decode to output tokens."
    " Input tokens found in a prefix cache pay for the attention of prompts to them"
)


class TokenCounts(NamedTuple):
    """Tokens of a request, or of a run, and what cached ones take of the time of prompts."""

    computed: Numbers  # Input tokens that no cache holds (C,)
    output: Numbers  # Output tokens (C,)
    cached: Numbers = 0.0  # Input tokens that a prefix cache holds (C,)
    cached_share: Numbers = 0.0  # Share of the time of prompts in which they attend to these (C,)


class PoolPrices(NamedTuple):
    """The GPUs of a pool at their prices."""

    prices: Sequence[GpuPrice]  # Distinct prices
    place_C: NDArray[np.int64]  # Price of each candidate (C,)
    share: Numbers = 1.0  # GPUs of the pool, or its share of those of the deployment (C,)
    # AC power of a GPU with its share of the node (C,) [W], NaN if unknown
    busy_w: Numbers = math.nan
    idle_w: Numbers = math.nan  # That of an idle one (C,) [W]
    splits: bool = True  # Whether input and output tokens share the cost, not passes

    def parts(self, end: int) -> dict[str, FloatArray]:
        """Return the cost of a useful hour by part, times the share, each (C,) [USD per hour].

        Args:
            end: 0 for the value, 1 and 2 for the low and high end of prices.
        """
        parts = {name: np.full(self.place_C.shape, np.nan) for name in PARTS}
        for index, price in enumerate(self.prices):
            if not price.is_known:
                continue
            hourly = price.costs[end].parts(self.busy_w, self.idle_w)
            own_C = self.place_C == index
            for name, value in hourly.items():
                parts[name] = np.where(own_C, value, parts[name])
        return {name: self.share * value_C for name, value_C in parts.items()}


def hourly_usd(pools: Sequence[PoolPrices], end: int = 0) -> FloatArray:
    """Return the cost of a useful hour of a mean GPU of a deployment (C,) [USD per hour].

    Args:
        pools: All pools.
        end: As for `PoolPrices.parts`.
    """
    return _total(pools, end) / sum(pool.share for pool in pools)


def _total(pools: Sequence[PoolPrices], end: int) -> FloatArray:
    total: FloatArray = np.add.reduce([v for pool in pools for v in pool.parts(end).values()])
    return total


def cost_columns(
    columns: Mapping[str, FloatArray],
    pools: Sequence[PoolPrices],
    prompt_share: FloatArray | None,
    tokens: TokenCounts,
) -> dict[str, FloatArray]:
    """Return the cost of deployments and of their tokens with intervals, each (C,).

    The cost of output tokens is that of the deployment; its parts are the input tokens, cached ones
    apart, and the decodes: computed x cost of input + cached x cost of cached input + output x cost
    of decode = cost of the deployment.

    Args:
        columns: Results with `gpus` and the output rate per GPU with its interval, NaN for none.
        pools: All pools.
        prompt_share: Share of prompts in the GPU time (C,); None where the first pool runs them.
    """
    costs: dict[str, FloatArray] = {}
    has_cached = bool(np.any(np.greater(tokens.cached, 0.0)))
    for end, (suffix, slower) in enumerate(ENDS):
        each_C = hourly_usd(pools, end)
        input_C = prompt_share
        if input_C is None:
            input_C = _total(pools[:1], end) / _total(pools, end)
        million_C = each_C / (HOUR_S * columns[f"{RATE}{slower}"]) * MILLION
        costs[f"usd_per_hour{suffix}"] = each_C * columns["gpus"]
        costs[f"{COST}{suffix}"] = million_C
        costs[f"decode_{COST}{suffix}"] = million_C * (1.0 - input_C)
        prompts_C = million_C * input_C * (tokens.output / tokens.computed)
        new_share = np.subtract(1.0, tokens.cached_share)
        costs[f"usd_per_million_input_tokens{suffix}"] = prompts_C * new_share
        if has_cached:
            cached = np.where(np.greater(tokens.cached, 0.0), tokens.cached, np.nan)
            costs[f"{CACHED_COST}{suffix}"] = (
                prompts_C * tokens.cached_share * (tokens.computed / cached)
            )
    return costs


def cost_parts(results: Mapping[str, Any], pools: Sequence[PoolPrices]) -> dict[str, float] | None:
    """Return the cost of a million output tokens of the first candidate by part [USD].

    The parts sum to it; None without a price or a rate.

    Args:
        results: Results with `usd_per_million_output_tokens`.
        pools: As for `cost_columns`.
    """
    million = results.get(COST)
    if million is None:
        return None
    parts = [pool.parts(0) for pool in pools]
    sums = {name: sum(float(part[name][0]) for part in parts) for name in PARTS}
    total = sum(sums.values())
    return {name: million * usd / total for name, usd in sums.items()}
