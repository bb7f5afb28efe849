"""Configuration of replicas that fail, recover, start and stop during a simulation."""

from __future__ import annotations

from typing import Final, NamedTuple

ON_FAILURE: Final = ("retry", "lost")
FOREVER: Final = -1


class Outage(NamedTuple):
    """An outage of a replica.

    Args:
        replica: Index of the replica.
        start: Time from which the router sends it no requests [ps].
        end: Time when it serves again with empty caches [ps]; `FOREVER` if it never does.
        drain: Whether it finishes its requests, until `end` at the latest; otherwise it loses
            them.
    """

    replica: int
    start: int
    end: int = FOREVER
    drain: bool = False


class Scaler(NamedTuple):
    """Autoscaler that starts and stops replicas by load; see `autoscaling`.

    Args:
        low: Minimum replicas; the maximum is the size of the fleet.
        initial: Replicas at the start, by lowest index.
        target: Target requests per replica.
        queue_only: Count only waiting requests.
        period: Sync period [ps].
        tolerance: Relative deviation from the target without scaling.
        stable: Downscale stabilization window [ps].
        start_up: Time from the decision until a replica serves [ps].
    """

    low: int
    initial: int
    target: float
    queue_only: bool = False
    period: int = 15_000_000_000_000
    tolerance: float = 0.1
    stable: int = 300_000_000_000_000
    start_up: int = 0


class Availability(NamedTuple):
    """Changes of replicas during a simulation: outages and autoscaling.

    Args:
        outages: Outages; those of one replica are in order.
        on_failure: Handling of requests on a failed replica: `retry` restarts them from the
            beginning, `lost` drops them.
        retry_after: Time from the failure to the retry [ps].
        scaler: The autoscaler, if any.
    """

    outages: tuple[Outage, ...] = ()
    on_failure: str = "retry"
    retry_after: int = 0
    scaler: Scaler | None = None

    @property
    def varies(self) -> bool:
        """Return whether there are outages or an autoscaler."""
        return bool(self.outages) or self.scaler is not None
