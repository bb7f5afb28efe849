"""Fields of replica operation: routing, failures, autoscaling, KV cache offloading."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from perfatlas.vocabulary.fields.conditions import AllOf, AnySet, Equals, Fact, Noted, NotEqual
from perfatlas.vocabulary.fields.limits import Limits
from perfatlas.vocabulary.fields.numbers import MAX_S, Bytes, Count, Number
from perfatlas.vocabulary.fields.rows import group, varies_by_replica
from perfatlas.vocabulary.fields.scenario import Formats, Plan
from perfatlas.vocabulary.fields.subject import Subject, SystemName

Seconds = Annotated[float, Number(unit="s", at_least=0.0, at_most=MAX_S)]
Bandwidth = Annotated[float, Number(unit="bytes/s", above=0.0, at_most=1e17)]
PREFIX_AWARE: Final = Equals("routing", "prefix_aware")
AUTOSCALED: Final = AnySet("max_replicas")
FAILING: Final = AnySet("replica_events")


@group("Replicas", 5)
class ReplicaOperation:
    """Routing, failures and autoscaling of replicas."""

    replica_kinds: Annotated[Any, Fact("tokens")] = None
    routing: Annotated[
        Literal["round_robin", "least_loaded", "random", "prefix_aware"],
        Noted(Fact("several replicas")),
    ] = "round_robin"
    cache_threshold: Annotated[
        Annotated[float, Number(unit="fraction", at_least=0.0, at_most=1.0)] | None, PREFIX_AWARE
    ] = None
    balance_abs_threshold: Annotated[
        Annotated[int, Number(at_least=0, at_most=10**9)] | None, PREFIX_AWARE
    ] = None
    balance_rel_threshold: Annotated[
        Annotated[float, Number(at_least=1.0, at_most=1e9)] | None, PREFIX_AWARE
    ] = None
    replica_events: Any = None
    on_failure: Annotated[Literal["retry", "lost"] | None, FAILING] = None
    retry_after_s: Annotated[Seconds | None, AllOf(FAILING, NotEqual("on_failure", "lost"))] = None
    max_replicas: Count | None = None
    min_replicas: Annotated[Count | None, AUTOSCALED] = None
    autoscale_target: Annotated[
        Annotated[float, Number(above=0.0, at_most=1e9)] | None, AUTOSCALED
    ] = None
    autoscale_metric: Annotated[Literal["requests", "waiting"] | None, AUTOSCALED] = None
    autoscale_period_s: Annotated[
        Annotated[float, Number(unit="s", at_least=0.001, at_most=MAX_S)] | None, AUTOSCALED
    ] = None
    autoscale_tolerance: Annotated[
        Annotated[float, Number(unit="fraction", at_least=0.0, below=1.0)] | None, AUTOSCALED
    ] = None
    autoscale_down_after_s: Annotated[Seconds | None, AUTOSCALED] = None
    start_up_s: Annotated[Seconds | None, AUTOSCALED] = None


@group("KV cache offloading", 6)
class KvOffloading:
    """KV cache in host memory, on SSDs and in a pool of other machines."""

    host_cache_bytes: Annotated[Bytes | None, Fact("tokens")] = None
    host_bandwidth: Annotated[
        Bandwidth | None, AnySet("host_cache_bytes", "ssd_cache_bytes", "remote_cache_bytes")
    ] = None
    ssd_cache_bytes: Annotated[Bytes | None, Fact("tokens")] = None
    ssd_bandwidth: Annotated[Bandwidth | None, AnySet("ssd_cache_bytes")] = None
    remote_cache_bytes: Annotated[Bytes | None, Fact("tokens")] = None
    remote_bandwidth: Annotated[Bandwidth | None, AnySet("remote_cache_bytes")] = None


@group("Replica event", 1)
class ReplicaEventFields:
    """A replica fails or is drained, and returns at a time, after a duration, or never."""

    replica: Annotated[int, Number(at_least=0, at_most=10**9)]
    fails_at_s: Seconds
    back_at_s: Seconds | None = None
    down_for_s: Seconds | None = None
    kind: Literal["crash", "drain"] = "crash"


@group("Replica kind", 1)
@varies_by_replica(Subject, Plan, Formats, Limits)
class ReplicaFields:
    """One kind of identical replicas in a heterogeneous deployment."""

    system: SystemName | None = None
    dp: Count = 1
