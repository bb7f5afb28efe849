"""The steps of a service at both ends of their interval."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfatlas import inference
from perfatlas.answer import tier_of
from perfatlas.serving.requests import TICKS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from perfatlas.operators import FloatArray
    from perfatlas.scenario.deployments.engine_deployment import Deployment
    from perfatlas.scenario.deployments.services import Service
    from perfatlas.serving.prices import PriceTable, StepPrices
    from perfatlas.step import StepCost


class StepScale(NamedTuple):
    """How much slower the steps of a pool are than priced."""

    decode: float  # Factor on decode steps and on host times, above 0
    prompts: float  # Factor on the prompts of steps, above 0
    front: inference.FrontScale = inference.FrontScale()  # Factors on the times of the front end
    # Whether steps take their roofline time: assumed losses are no fixed share of it
    at_roofline: bool = False

    def to_power(self, exponent: float) -> StepScale:
        """Return the factors to a power, between 1 (0) and an end of the interval (1)."""
        front = inference.FrontScale(self.front.sending**exponent, self.front.request**exponent)
        return self._replace(
            decode=self.decode**exponent, prompts=self.prompts**exponent, front=front
        )


def scaled_prices(table: PriceTable, scale: StepScale) -> StepPrices:
    """Return prices with all device and host times scaled."""
    prices = table.prices
    if scale.at_roofline and table.roofline is not None:
        prices = table.roofline
    factors = {
        "decode_": scale.decode,
        "head_": scale.decode,
        "mixed_": scale.prompts,
        "prefill_": scale.prompts,
    }
    tables = {
        name: np.rint(getattr(prices, name) * factor).astype(np.int64)
        for name in prices._fields
        for start, factor in factors.items()
        if name.startswith(start)
    }
    hosts = {
        name: round(getattr(prices, name) * scale.decode)
        for name in ("host_step", "host_sequence", "host_prefill")
    }
    return prices._replace(**tables, **hosts)


def slowed(ready: Service, scales: Sequence[StepScale]) -> Service:
    """Return a service with scaled step times; KV transfers are not scaled, energy is not counted.

    Args:
        scales: One scale per pool or kind.
    """
    pools = []
    for pool, scale in zip(ready.pools, scales, strict=True):
        seen, replicas = pool.front.seen, pool.replicas
        later_s = seen.request_s * (scale.front.request - 1.0)
        pools.append(
            replace(
                pool,
                front=pool.front._replace(seen=seen._replace(request_s=seen.request_s + later_s)),
                replicas=replicas._replace(
                    stream_token=round(replicas.stream_token * scale.front.sending),
                    turnaround=replicas.turnaround + round(later_s * TICKS_PER_SECOND),
                ),
                table=replace(pool.table, prices=scaled_prices(pool.table, scale), energy=None),
            )
        )
    return replace(ready, pools=tuple(pools))


def price_ends(ready: Service) -> dict[str, tuple[StepScale, ...]]:
    """Return how far step times are scaled at both ends of the interval; empty if unknown.

    Steps deviate by the errors of their kernels or by those of measured runs, whichever are larger,
    as in the closed forms, so that queues grow accordingly. Lower bounds have no interval, and
    steps that are partly at their lower bound have no upper end.

    Args:
        ready: The service, with priced steps.

    Returns:
        The scales of all pools or kinds, by end; all deviate in the same direction.
    """
    machines = [each for pool in ready.pools for each in pool.machines]
    if "bound" in {tier_of((each.table.prefills, each.table.decodes)) for each in machines}:
        return {}
    fronts = [inference.front_ends(pool.question) for pool in ready.pools]
    ends = {
        "low": tuple(
            _scale(pool, inference.fastest_s, min)._replace(front=fast)
            for pool, (fast, _) in zip(ready.pools, fronts, strict=True)
        )
    }
    if not any(_partly_bound(each.table) for each in machines):
        ends["high"] = tuple(
            _scale(pool, inference.slowest_s, max)._replace(front=slow)
            for pool, (_, slow) in zip(ready.pools, fronts, strict=True)
        )
    return ends


def _partly_bound(table: PriceTable) -> bool:
    """Return whether a step is partly priced at the roofline for lack of calibrations."""
    shares = (steps.cost.bound_share()[0] for steps in (table.decodes, table.prefills))
    return any(share >= inference.MIN_BOUND_SHARE for share in shares)


def _scale(
    pool: Deployment,
    end_s: Callable[[StepCost, inference.StepTails], FloatArray],
    furthest: Callable[[Iterable[float]], float],
) -> StepScale:
    """Return the scale of the steps of a pool at an end, that of its machine with the widest."""
    if end_s is inference.fastest_s and pool.table.roofline is not None:
        return StepScale(1.0, 1.0, at_roofline=True)
    parts = [(each.table, inference.step_tails(each.question)) for each in pool.machines]
    decode, prompts = (
        furthest(
            float((end_s(cost, tails) / cost.total_s())[0])
            for cost, tails in ((getattr(table, phase).cost, tails) for table, tails in parts)
        )
        for phase in ("decodes", "prefills")
    )
    return StepScale(decode, prompts)
