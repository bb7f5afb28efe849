"""Replicas that fail, come back, start and stop while traffic runs, as they are asked for."""

from __future__ import annotations

from typing import Final, NamedTuple

ON_FAILURE: Final = ("retry", "lost")
FOREVER: Final = -1


class Outage(NamedTuple):
    """A replica that does not serve for a time.

    Args:
        replica: Its place among all.
        start: From when on the router sends it nothing [ps].
        end: When it serves again, its caches empty [ps]; `FOREVER` where it never does.
        drain: It goes on with what it has, to `end` at the latest; otherwise it loses that.
    """

    replica: int
    start: int
    end: int = FOREVER
    drain: bool = False


class Scaler(NamedTuple):
    """Replicas started and stopped by the load, as `autoscaling` says.

    Args:
        low: Replicas at least; at most are those of the fleet.
        initial: Replicas at the start, the first ones.
        target: Requests of a replica that are aimed at.
        queue_only: Requests that wait count, those that run do not.
        period: Between two looks at the load [ps].
        tolerance: Share by which the load may miss the target before anything changes.
        stable: How long the most replicas that were wanted are kept [ps].
        start_up: From the decision to the first request of a replica [ps].
    """

    low: int
    initial: int
    target: float
    queue_only: bool = False
    period: int = 15_000_000_000_000
    tolerance: float = 0.1
    stable: int = 300_000_000_000_000
    start_up: int = 0


class Upkeep(NamedTuple):
    """What changes replicas while traffic runs.

    Args:
        outages: Of each replica one after the other.
        on_failure: What a client does whose request was on a replica that failed: `retry`, it asks
            again, from the start; `lost`, it does not.
        retry_after: From the failure to the next try [ps].
        scaler: Starts and stops replicas.
    """

    outages: tuple[Outage, ...] = ()
    on_failure: str = "retry"
    retry_after: int = 0
    scaler: Scaler | None = None

    @property
    def varies(self) -> bool:
        """Return whether anything ever changes."""
        return bool(self.outages) or self.scaler is not None
