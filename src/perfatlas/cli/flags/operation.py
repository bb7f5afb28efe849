"""How replicas are operated, as flags of `perfatlas simulate`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal

from cyclopts import Group, Parameter

from perfatlas.cli.flags.scenario import Count, default

_OPERATION: Final = Group("Replicas", sort_key=3)


@Parameter(name="*", group=_OPERATION)
@dataclass(frozen=True, kw_only=True)
class OperationFlags:
    """How replicas share requests, fail, start and stop.

    Args:
        replica_kinds: Unequal replicas behind one router: a JSON list such as [{"system":
            "h200_sxm", "tp": 4, "dp": 2}, {"system": "b200_sxm", "dp": 4}], or a file of such.
        routing: Who gets a request: round_robin, least_loaded, random, or prefix_aware: who got the
            beginning of its prompt.
        cache_threshold: Of prefix_aware: share of a prompt above which it is followed.
        balance_abs_threshold: Of prefix_aware: most requests by which loads may differ; past this
            and the ratio, the least loaded takes all.
        balance_rel_threshold: Of prefix_aware: most ratio of the largest load to the smallest; past
            this and the difference, the least loaded takes all.
        replica_events: Replicas that fail: file (CSV, Parquet, JSON Lines) with replica,
            fails_at_s, back_at_s or down_for_s, kind (crash or drain); or a JSON list of such.
        on_failure: What becomes of requests on a replica that fails: retry (they are sent again)
            or lost.
        retry_after_s: From a failure to the next try, in seconds.
        max_replicas: Turns an autoscaler on: replicas at most; --dp are those at the start.
        min_replicas: Replicas at least.
        autoscale_target: Requests of a replica that the autoscaler aims at.
        autoscale_metric: What it counts: requests (that run and wait) or waiting.
        autoscale_period_s: Between two looks at the load, in seconds.
        autoscale_tolerance: Share by which the load may miss the target.
        autoscale_down_after_s: For how long fewer replicas must be enough, in seconds.
        start_up_s: From the decision to start a replica to its first request, in seconds.
    """

    replica_kinds: str | None = None
    routing: Annotated[
        Literal["round_robin", "least_loaded", "random", "prefix_aware"] | None,
        default("round_robin"),
    ] = None
    cache_threshold: Annotated[float | None, default("0.3")] = None
    balance_abs_threshold: Annotated[Count, default("64")] = None
    balance_rel_threshold: Annotated[float | None, default("1.5")] = None
    replica_events: str | None = None
    on_failure: Annotated[Literal["retry", "lost"] | None, default("retry")] = None
    retry_after_s: Annotated[float | None, default("0")] = None
    max_replicas: Count = None
    min_replicas: Annotated[Count, default("1")] = None
    autoscale_target: float | None = None
    autoscale_metric: Annotated[Literal["requests", "waiting"] | None, default("requests")] = None
    autoscale_period_s: Annotated[float | None, default("15")] = None
    autoscale_tolerance: Annotated[float | None, default("0.1")] = None
    autoscale_down_after_s: Annotated[float | None, default("300")] = None
    start_up_s: Annotated[float | None, default("0")] = None
