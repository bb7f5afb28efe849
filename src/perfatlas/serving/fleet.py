"""Engines that serve together: kinds of them, and how requests are divided."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from perfatlas.serving.limits import Limits, Replicas
    from perfatlas.serving.prices import StepPrices


class Kind(NamedTuple):
    """Equal engines of a fleet.

    Args:
        prices: What a step of one costs.
        limits: Of each of its schedulers.
        number: Engines.
        ranks: Attention-data-parallel ranks of an engine, as in `Replicas`.
    """

    prices: StepPrices
    limits: Limits
    number: int = 1
    ranks: int = 1


class Fleet(NamedTuple):
    """Engines of some kinds behind one router, numbered kind after kind.

    Args:
        kinds: At least one.
        routing: As in `Replicas`, over the engines of all kinds.
        seed: Seed of `random`.
        turnaround: As in `Replicas` [ps].

    Limits: The router does not know which engine is faster. A request that one of the kinds could
        never run is rejected, whichever it would have been sent to.
    """

    kinds: tuple[Kind, ...]
    routing: str = "round_robin"
    seed: int = 0
    turnaround: int = 0


def equal_engines(prices: StepPrices, limits: Limits, replicas: Replicas) -> Fleet:
    """Return a fleet of one kind.

    Args:
        prices: What a step costs.
        limits: Of a scheduler.
        replicas: Engines and routing.
    """
    kind = Kind(prices, limits, replicas.number, replicas.ranks)
    return Fleet((kind,), replicas.routing, replicas.seed, replicas.turnaround)
