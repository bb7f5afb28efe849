"""Cost of deployments: the GPUs of each pool at the prices of their systems.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from perfatlas.cost import SPLIT_RULE, PoolPrices, TokenCounts, cost_columns, prices_of
from perfatlas.energy import node_power
from perfatlas.operators import unique_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.cost import GpuPrice
    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.step import Candidates, SharedSteps

RATED = ("gpus", *(f"output_tokens_per_s_per_gpu{end}" for end in ("", "_low", "_high")))


class Given(NamedTuple):
    """What prices follow from, each distinct combination once."""

    usd_per_gpu_hour: Sequence[Any]  # As the field, None for the catalog
    pue: Sequence[float | None]  # PUE, None if not given
    usd_per_kwh: Sequence[float | None]  # Price of a kWh [USD], None if not given


def pool_prices(
    pools: Sequence[tuple[Candidates, FloatArray | float]],
    given: tuple[Given, IntArray],
    node_power_w: FloatArray,
) -> list[PoolPrices]:
    """Return the prices of the GPUs of pools.

    Args:
        pools: Candidates of each pool, and its GPUs or its share of them (C,).
        given: What prices follow from, and the combination of each candidate (C,).
        node_power_w: AC power of a node (C,) [W], NaN if unknown.
    """
    found, (combinations, given_C) = [], given
    for candidates, share in pools:
        placement = candidates.placement
        first_U, place_C = unique_rows((placement.index_C, given_C))
        names = [placement.systems[at].name for at in placement.index_C[first_U].tolist()]
        given_U = given_C[first_U].tolist()
        fields = ([values[at] for at in given_U] for values in combinations)
        prices, price_U = prices_of(names, *fields)
        pool = PoolPrices(prices, price_U[place_C], share, splits=candidates.model.network.decodes)
        if any(price.is_owned for price in prices):
            nodes = [node_power(system.node) for system in placement.systems]
            devices_C = np.array([node.devices for node in nodes], float)[placement.index_C]
            on_w_C = placement.power().on_w
            idle_w_C = [
                nodes[at].node_w(w) for at, w in zip(placement.index_C, on_w_C, strict=True)
            ]
            pool = pool._replace(
                busy_w=node_power_w / devices_C, idle_w=np.array(idle_w_C) / devices_C
            )
        found.append(pool)
    return found


def deployment_costs(
    columns: Mapping[str, FloatArray],
    pools: Sequence[PoolPrices],
    prompt_share: FloatArray | None,
    candidates: tuple[Candidates, Candidates],
    cached_share: FloatArray | None,
) -> dict[str, FloatArray]:
    """Return the cost of deployments and their tokens, each (C,).

    Args:
        columns: Those of `RATED` (C,).
        pools: As for `cost_columns`.
        cached_share: As `cached_share` returns it, None where cached tokens have no cost apart.
    """
    first, last = candidates[0].load, candidates[1].load
    computed = np.maximum(first.isl - first.prefix, 1.0)
    tokens = TokenCounts(computed, last.osl)
    if cached_share is not None:
        tokens = tokens._replace(cached=first.prefix, cached_share=cached_share)
    return cost_columns(columns, pools, prompt_share, tokens)


def cached_share(question: Candidates, prefills: SharedSteps) -> FloatArray:
    """Return the share of the time of prompts in which they attend to cached tokens (C,).

    It is that of attention, times the pairs of query and key whose key is cached: those of a prompt
    of n new tokens after c cached ones are n x (c + (n + 1) / 2).

    Limits: Every layer attends to all keys: too high for layers with a window.
    """
    reads_O = np.array([operator.reads_keys for operator in prefills.cost.operators])
    time_s_C = prefills.of(lambda cost: cost.total("time_s_CO"))
    reading_s_C = prefills.of(lambda cost: cost.total("time_s_CO", reads_O))
    load = question.load
    own_C = (load.isl - load.prefix + 1.0) / 2.0
    pairs_C = load.prefix / (load.prefix + own_C)
    share_C: FloatArray = reading_s_C / time_s_C * pairs_C
    return share_C


def cost_notes(pools: Sequence[PoolPrices]) -> tuple[tuple[str, ...], ...]:
    """Return assumptions, sources and warnings about the prices of the first candidate."""
    prices: dict[str, GpuPrice] = {}
    for pool in pools:
        price = pool.prices[int(pool.place_C[0])]
        prices[price.note] = price
    known = all(price.is_known for price in prices.values())
    rule = (SPLIT_RULE,) if known and all(pool.splits for pool in pools) else ()
    sources = tuple(text for price in prices.values() for text in price.sources)
    warnings = tuple(price.warning for price in prices.values() if price.warning)
    return (*prices, *rule), sources, warnings
