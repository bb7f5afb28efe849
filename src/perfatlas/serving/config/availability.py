"""Configuration of replicas that fail, recover, start and stop during a simulation."""

from __future__ import annotations

from typing import Final, NamedTuple

ON_FAILURE: Final = ("retry", "lost")
FOREVER: Final = -1


class Outage(NamedTuple):
    """An outage of a replica."""

    replica: int  # Index of the replica
    start: int  # Time from which the router sends it no requests [ps]
    # Time when it serves again with empty caches [ps]; `FOREVER` if it never does
    end: int = FOREVER
    # Whether it finishes its requests, until `end` at the latest; otherwise it loses them
    drain: bool = False


class Scaler(NamedTuple):
    """Autoscaler that starts and stops replicas by load; see `autoscaling`."""

    low: int  # Minimum replicas; the maximum is the size of the fleet
    initial: int  # Replicas at the start, by lowest index
    target: float  # Target requests per replica
    queue_only: bool = False  # Count only waiting requests
    period: int = 15_000_000_000_000  # Sync period [ps]
    tolerance: float = 0.1  # Relative deviation from the target without scaling
    stable: int = 300_000_000_000_000  # Downscale stabilization window [ps]
    start_up: int = 0  # Time from the decision until a replica serves [ps]


class Availability(NamedTuple):
    """Changes of replicas during a simulation: outages and autoscaling."""

    outages: tuple[Outage, ...] = ()  # Outages; those of one replica are in order
    # Handling of requests on a failed replica: `retry` restarts them from the beginning, `lost`
    # drops them
    on_failure: str = "retry"
    retry_after: int = 0  # Time from the failure to the retry [ps]
    scalers: tuple[Scaler, ...] = ()  # The autoscaler of each pool, none without autoscaling

    @property
    def varies(self) -> bool:
        """Return whether there are outages or an autoscaler."""
        return bool(self.outages or self.scalers)
