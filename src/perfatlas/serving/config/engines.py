"""Engines of a deployment: engine types, and the routing of requests."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.serving.config.availability import Availability
from perfatlas.serving.config.limits import Affinity

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfatlas.serving.config.limits import Replicas, SchedulerLimits
    from perfatlas.serving.prices import EnergyPrices, StepPrices


ROLES: Final = ("both", "prefill", "decode")
AGGREGATED_ROLE, PREFILL, DECODE = range(len(ROLES))
MAX_ENGINE_TYPES: Final = 16
FIRST_FROM: Final = ("prefill", "arrival", "recomputed")
GIVEN, ARRIVAL, RECOMPUTED = range(len(FIRST_FROM))


class Link(NamedTuple):
    """Transfer time of a KV cache over a link, piecewise linear in its tokens.

    It bends at the window of sliding-window layers, and starts above 0 with recurrent states.
    """

    borders: tuple[int, ...] = (0,)  # Breakpoints [tokens], ascending from 0
    times: tuple[int, ...] = (0,)  # Transfer times at the breakpoints [ps]
    per_token: tuple[int, ...] = (0,)  # Time per further token up to the next breakpoint [ps]

    def time(self, tokens: int) -> int:
        """Return the transfer time of a KV cache [ps].

        Args:
            tokens: Tokens in the KV cache, at least 0.

        Example:
            >>> from perfatlas.serving.config import Link
            >>> Link((0, 128), (50, 1330), (10, 4)).time(130)  # 50 + 128 x 10 + 2 x 4
            1338
        """
        piece = bisect_right(self.borders, tokens) - 1
        return self.times[piece] + (tokens - self.borders[piece]) * self.per_token[piece]


class ReplicaGroup(NamedTuple):
    """Identical engines of a fleet."""

    prices: StepPrices  # Price tables of a step
    limits: SchedulerLimits  # Limits of each scheduler
    number: int = 1
    ranks: int = 1  # Attention-data-parallel ranks per engine, as in `Replicas`
    # `both` phases of a request, or one of two pools: `prefill` engines run prompts up to the first
    # token, `decode` engines the rest; see `pools`
    role: str = "both"
    # KV cache transfer over the link of a scheduler, i.e. of the devices of its rank.
    link: Link = Link()
    # Time of its front end to send output tokens of a request once [ps]; see `front`
    stream_token: int = 0
    stream_interval: int = 1  # Output tokens that are sent at a time, after the first
    # Dynamic energy of steps and power of GPUs; None counts no energy
    energy: EnergyPrices | None = None
    # Whether tokens wait for those of earlier steps that are not sent yet
    stream_backlog: bool = True
    # Layers of each pipeline stage; empty for engines without stages. Each stage takes its share of
    # the time of a step.
    stage_layers: tuple[int, ...] = ()

    @property
    def batches(self) -> int:
        """Maximum batches in flight of an engine: one per pipeline stage."""
        return max(len(self.stage_layers), 1)


class EngineFleet(NamedTuple):
    """Engines of one or several types behind one router, numbered in order of type.

    Limits: The router does not know which engine is faster. A request that exceeds the limits of
        any engine type is rejected, whichever engine it would have been sent to.
    """

    # 1 to `MAX_ENGINE_TYPES` engine types. With two pools, prefill comes first.
    groups: tuple[ReplicaGroup, ...]
    # As in `Replicas`, over all engines, or over each pool; `prefix_aware` is `least_loaded` for
    # decode engines
    routing: str = "round_robin"
    seed: int = 0  # Seed of `random`
    turnaround: int = 0  # As in `Replicas` [ps]
    latency: int = 0  # Latency of a KV cache transfer after its last byte is sent [ps]
    # With two pools, when the client gets the first token: `prefill`, at the end of the prompt;
    # `arrival`, when the sequence joins the decode batch; `recomputed`, when the decode engine has
    # recomputed it from the last prompt token
    first_from: str = "prefill"
    affinity: Affinity = Affinity()  # Options of `prefix_aware`
    availability: Availability = Availability()  # Outages and autoscaling
    readers: int = 1  # Tokenization threads before the router; 0 for unlimited
    read_token: int = 0  # Time of a thread per prompt token [ps]; see `front`
    # Called with each arriving request and the replicas instead of `routing`; see `run.router`
    router: Callable[..., int] | None = None

    @property
    def pools(self) -> tuple[tuple[ReplicaGroup, ...], ...]:
        """Engine types of each pool to which requests are routed: one, or prefill and decode."""
        entry = tuple(group for group in self.groups if group.role != "decode")
        decode = self.groups[len(entry) :]
        return (entry, decode) if decode else (entry,)


def equal_engines(prices: StepPrices, limits: SchedulerLimits, replicas: Replicas) -> EngineFleet:
    """Return a fleet of identical engines."""
    group = ReplicaGroup(
        prices,
        limits,
        replicas.number,
        replicas.ranks,
        stream_token=replicas.stream_token,
        stream_interval=replicas.stream_interval,
        stream_backlog=replicas.stream_backlog,
        stage_layers=replicas.stage_layers,
    )
    return EngineFleet(
        (group,),
        replicas.routing,
        replicas.seed,
        replicas.turnaround,
        affinity=replicas.affinity,
        availability=replicas.availability,
        readers=replicas.number * replicas.readers,
        read_token=replicas.read_token,
    )
