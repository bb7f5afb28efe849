"""Fields of replica operation: routing, failures, autoscaling, KV cache offloading."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from perfatlas.vocabulary.fields.conditions import AllOf, AnySet, Equals, Fact, Noted, NotEqual
from perfatlas.vocabulary.fields.limits import Limits
from perfatlas.vocabulary.fields.numbers import LONGEST_S, Count, Number
from perfatlas.vocabulary.fields.rows import Row, group, varies_by_replica
from perfatlas.vocabulary.fields.scenario import Formats, Plan
from perfatlas.vocabulary.fields.subject import Subject, SystemName

Seconds = Annotated[float, Number(unit="s", at_least=0.0, at_most=LONGEST_S)]
Bytes = Annotated[float, Number(unit="bytes", above=0.0, at_most=1e17)]
Bandwidth = Annotated[float, Number(unit="bytes/s", above=0.0, at_most=1e17)]
PREFIX_AWARE: Final = Equals("routing", "prefix_aware")
AUTOSCALED: Final = AnySet("max_replicas")
FAILING: Final = AnySet("replica_events")


@group("Replicas", 5)
class ReplicaOperation:
    """Routing, failures and autoscaling of replicas."""

    replica_kinds: Annotated[
        Any,
        Row(
            'Heterogeneous replicas behind one router: a JSON list such as [{"system":'
            ' "h200_sxm", "tp": 4, "dp": 2}, {"system": "b200_sxm", "dp": 4}], or a file.',
            default="all replicas are identical",
            needs=Fact("tokens"),
        ),
    ] = None
    routing: Annotated[
        Literal["round_robin", "least_loaded", "random", "prefix_aware"],
        Row(
            "Routing policy: round_robin, least_loaded, random, or prefix_aware (the replica that"
            " holds the longest cached prefix).",
            needs=Noted(Fact("several replicas")),
        ),
    ] = "round_robin"
    cache_threshold: Annotated[
        Annotated[float, Number(unit="fraction", at_least=0.0, at_most=1.0)] | None,
        Row(
            "Minimum cached fraction of a prompt for prefix_aware routing to follow the cache.",
            default="0.3",
            needs=PREFIX_AWARE,
        ),
    ] = None
    balance_abs_threshold: Annotated[
        Annotated[int, Number(at_least=0, at_most=10**9)] | None,
        Row(
            "Maximum load difference, in requests, for prefix_aware routing; if this and"
            " balance_rel_threshold are exceeded, the least loaded replica is chosen.",
            default="64",
            needs=PREFIX_AWARE,
        ),
    ] = None
    balance_rel_threshold: Annotated[
        Annotated[float, Number(at_least=1.0, at_most=1e9)] | None,
        Row(
            "Maximum load ratio for prefix_aware routing; if this and balance_abs_threshold are"
            " exceeded, the least loaded replica is chosen.",
            default="1.5",
            needs=PREFIX_AWARE,
        ),
    ] = None
    replica_events: Annotated[
        Any,
        Row(
            "Replica failures: a file (CSV, Parquet, JSON Lines) or JSON list with replica,"
            " fails_at_s, back_at_s or down_for_s, and kind (crash or drain).",
            default="none",
        ),
    ] = None
    on_failure: Annotated[
        Literal["retry", "lost"] | None,
        Row("Whether requests on a failed replica are retried or lost.", "retry", FAILING),
    ] = None
    retry_after_s: Annotated[
        Seconds | None,
        Row(
            "Delay from a failure to the retry.",
            default="0",
            needs=AllOf(FAILING, NotEqual("on_failure", "lost")),
        ),
    ] = None
    max_replicas: Annotated[
        Count | None,
        Row("Maximum replicas; enables autoscaling, starting at dp.", "no autoscaling"),
    ] = None
    min_replicas: Annotated[Count | None, Row("Minimum replicas.", "1", AUTOSCALED)] = None
    autoscale_target: Annotated[
        Annotated[float, Number(above=0.0, at_most=1e9)] | None,
        Row("Autoscaler target: requests per replica.", needs=AUTOSCALED),
    ] = None
    autoscale_metric: Annotated[
        Literal["requests", "waiting"] | None,
        Row(
            "Autoscaler metric: requests (running and waiting) or waiting.",
            default="requests",
            needs=AUTOSCALED,
        ),
    ] = None
    autoscale_period_s: Annotated[
        Annotated[float, Number(unit="s", at_least=0.001, at_most=LONGEST_S)] | None,
        Row("Time between autoscaler decisions.", "15", AUTOSCALED),
    ] = None
    autoscale_tolerance: Annotated[
        Annotated[float, Number(unit="fraction", at_least=0.0, below=1.0)] | None,
        Row("Tolerated relative deviation from the target.", "0.1", AUTOSCALED),
    ] = None
    autoscale_down_after_s: Annotated[
        Seconds | None, Row("Stabilization window for scaling down.", "300", AUTOSCALED)
    ] = None
    start_up_s: Annotated[
        Seconds | None,
        Row("Time from a scale-up decision to the first request.", "0", AUTOSCALED),
    ] = None


@group("KV cache offloading", 6)
class KvOffloading:
    """KV cache in host memory and on SSDs."""

    host_cache_bytes: Annotated[
        Bytes | None,
        Row("Host memory per replica for the KV cache, such as 200GB.", "none", Fact("tokens")),
    ] = None
    host_bandwidth: Annotated[
        Bandwidth | None,
        Row(
            "Bandwidth between a GPU and host memory, such as 50GB/s.",
            default="the GPU's host link",
            needs=AnySet("host_cache_bytes", "ssd_cache_bytes"),
        ),
    ] = None
    ssd_cache_bytes: Annotated[
        Bytes | None,
        Row("SSD capacity per replica for the KV cache, such as 4TB.", "none", Fact("tokens")),
    ] = None
    ssd_bandwidth: Annotated[
        Bandwidth | None,
        Row(
            "SSD read bandwidth per replica, such as 7GB/s.",
            needs=AnySet("ssd_cache_bytes"),
        ),
    ] = None


@group("Replica kind", 1)
@varies_by_replica(Subject, Plan, Formats, Limits)
class ReplicaFields:
    """One kind of identical replicas in a heterogeneous deployment."""

    system: Annotated[SystemName | None, Row("System of these replicas.")] = None
    dp: Annotated[Count, Row("Replicas of this kind.")] = 1
