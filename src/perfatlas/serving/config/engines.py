"""Engines that serve together: kinds of them, and how requests are divided."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.serving.config.availability import Upkeep
from perfatlas.serving.config.limits import Affinity

if TYPE_CHECKING:
    from perfatlas.serving.config.limits import Limits, Replicas
    from perfatlas.serving.prices import StepPrices


ROLES: Final = ("both", "prefill", "decode")
BOTH, PREFILL, DECODE = range(len(ROLES))
MOST_KINDS: Final = 16
FIRST_FROM: Final = ("prefill", "arrival", "recomputed")
GIVEN, ARRIVAL, RECOMPUTED = range(len(FIRST_FROM))


class Link(NamedTuple):
    """What a cache takes over a link by its tokens: a line from every border to the next.

    Layers that keep a window of tokens, and states of one size, make it bend and begin above 0.

    Args:
        borders: Tokens, rising from 0.
        times: Of a cache of as many tokens [ps].
        per_token: Of every further one up to the next border [ps].
    """

    borders: tuple[int, ...] = (0,)
    times: tuple[int, ...] = (0,)
    per_token: tuple[int, ...] = (0,)

    def time(self, tokens: int) -> int:
        """Return what a cache takes [ps].

        Args:
            tokens: Of the cache, at least 0.

        Example:
            >>> from perfatlas.serving.config import Link
            >>> Link((0, 128), (50, 1330), (10, 4)).time(130)  # 50 + 128 x 10 + 2 x 4
            1338
        """
        piece = bisect_right(self.borders, tokens) - 1
        return self.times[piece] + (tokens - self.borders[piece]) * self.per_token[piece]


class Kind(NamedTuple):
    """Equal engines of a fleet.

    Args:
        prices: What a step of one costs.
        limits: Of each of its schedulers.
        number: Engines.
        ranks: Attention-data-parallel ranks of an engine, as in `Replicas`.
        role: `both` phases of a request, or one of two pools: `prefill` engines run prompts to
            their first token, `decode` engines the rest, as `pools` says.
        link: What a cache takes over the link of a scheduler, that of the devices of its rank.
        stream_token: What its front end takes to send output tokens of a request, as `front` says
            [ps],
        stream_interval: after the first so many at a time.
    """

    prices: StepPrices
    limits: Limits
    number: int = 1
    ranks: int = 1
    role: str = "both"
    link: Link = Link()
    stream_token: int = 0
    stream_interval: int = 1


class Fleet(NamedTuple):
    """Engines of some kinds behind one router, numbered kind after kind.

    Args:
        kinds: 1 to `MOST_KINDS`. Of two pools, those that prefill come first.
        routing: As in `Replicas`, over the engines of all kinds, or over each pool; `prefix_aware`
            is `least_loaded` over those that decode.
        seed: Seed of `random`.
        turnaround: As in `Replicas` [ps].
        latency: From the last byte of a cache on its way to its arrival [ps].
        first_from: Of two pools: `prefill`, the client gets the first token when the prompt has
            ended; `arrival`, when the sequence joins those that decode; `recomputed`, when the
            decode engine has computed it again from the last token of the prompt.
        affinity: Of `prefix_aware`.
        upkeep: What changes replicas while traffic runs.
        readers: Threads that tokenize, before the router; 0 for as many as there are requests.
        read_token: What one takes for a token of a prompt, as `front` says [ps].

    Limits: The router does not know which engine is faster. A request that one of the kinds could
        never run is rejected, whichever it would have been sent to.
    """

    kinds: tuple[Kind, ...]
    routing: str = "round_robin"
    seed: int = 0
    turnaround: int = 0
    latency: int = 0
    first_from: str = "prefill"
    affinity: Affinity = Affinity()
    upkeep: Upkeep = Upkeep()
    readers: int = 1
    read_token: int = 0


def equal_engines(prices: StepPrices, limits: Limits, replicas: Replicas) -> Fleet:
    """Return a fleet of one kind.

    Args:
        prices: What a step costs.
        limits: Of a scheduler.
        replicas: Engines and routing.
    """
    kind = Kind(
        prices,
        limits,
        replicas.number,
        replicas.ranks,
        stream_token=replicas.stream_token,
        stream_interval=replicas.stream_interval,
    )
    return Fleet(
        (kind,),
        replicas.routing,
        replicas.seed,
        replicas.turnaround,
        affinity=replicas.affinity,
        upkeep=replicas.upkeep,
        readers=replicas.number * replicas.readers,
        read_token=replicas.read_token,
    )
