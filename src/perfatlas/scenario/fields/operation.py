"""Operation of replicas: routing, failures, autoscaling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic import field_validator

from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.scenario.fields.input_fields import InputFields
from perfatlas.scenario.fields.replica_events import ReplicaEvent, read_events
from perfatlas.scenario.fields.replica_kinds import ReplicaKind, read_kinds
from perfatlas.serving.config import Affinity, Scaler, Upkeep
from perfatlas.serving.requests import whole_ticks
from perfatlas.vocabulary.fields import ReplicaOperation

if TYPE_CHECKING:
    from collections.abc import Mapping

_AFFINITY: Final = ("cache_threshold", "balance_abs_threshold", "balance_rel_threshold")
_TIMES: Final = {  # autoscaler fields in seconds
    "autoscale_period_s": "period",
    "autoscale_down_after_s": "stable",
    "start_up_s": "start_up",
}


class Operation(InputFields, ReplicaOperation):
    """Routing, failures and autoscaling of replicas. None means the default."""

    @field_validator("replica_kinds", mode="before")
    @classmethod
    def _read_kinds(cls, given: object) -> tuple[ReplicaKind, ...] | None:
        return read_kinds(given)

    @field_validator("replica_events", mode="before")
    @classmethod
    def _read_events(cls, given: object) -> tuple[ReplicaEvent, ...] | None:
        return read_events(given)

    def affinity(self) -> Affinity:
        """Return the thresholds of prefix-aware routing."""
        given = {
            name: getattr(self, asked)
            for name, asked in zip(Affinity._fields, _AFFINITY, strict=True)
            if getattr(self, asked) is not None
        }
        return Affinity(**given)

    def upkeep(self, replicas: int | None) -> Upkeep:
        """Return the failures and the autoscaler.

        Args:
            replicas: Initial replicas, or None if not set.

        Raises:
            InvalidSpecError: An event or the autoscaler is inconsistent.
        """
        events: tuple[ReplicaEvent, ...] = self.replica_events or ()
        return Upkeep(
            outages=tuple(event.outage() for event in events),
            on_failure=self.on_failure or "retry",
            retry_after=int(whole_ticks(self.retry_after_s or 0.0)),
            scaler=self._scaler(replicas),
        )

    def _scaler(self, replicas: int | None) -> Scaler | None:
        if self.max_replicas is None:
            return None
        if self.autoscale_target is None:
            raise InvalidSpecError(
                f"max_replicas = {self.max_replicas} enables autoscaling: set autoscale_target,"
                " the target requests per replica"
            )
        low = self.min_replicas or 1
        initial = low if replicas is None else replicas
        if not low <= initial <= self.max_replicas:
            raise InvalidSpecError(
                f"min_replicas = {low}, dp = {initial} initially, max_replicas ="
                f" {self.max_replicas}: these must not decrease"
            )
        given: dict[str, Any] = {
            name: int(whole_ticks(getattr(self, asked)))
            for asked, name in _TIMES.items()
            if getattr(self, asked) is not None
        }
        if self.autoscale_tolerance is not None:
            given["tolerance"] = self.autoscale_tolerance
        waiting = self.autoscale_metric == "waiting"
        return Scaler(low, initial, self.autoscale_target, queue_only=waiting, **given)

    def assumptions(self) -> list[str]:
        """Return the assumptions about router, failures and autoscaler, for the evidence."""
        said = []
        if self.routing == "least_loaded":
            said.append(
                "the router sends a request to the replica with the fewest waiting and running"
                " requests, ties in round-robin order, as nginx (least_conn)"
            )
        if self.routing == "prefix_aware":
            share, apart, ratio = self.affinity()
            said.append(
                f"the router follows prefixes as sglang-router 0.3.2 (cache_aware): to the replica"
                f" with the longest cached prefix if that exceeds {100.0 * share:g}% of the"
                f" prompt, else to the least loaded (ties in round-robin order), and always to"
                f" that if loads differ by more than {apart} requests and a factor of {ratio:g}"
            )
        if self.replica_events:
            then = "is lost" if self.on_failure == "lost" else "is retried from the start"
            count = len(self.replica_events)
            events = "1 event" if count == 1 else f"{count:,} events"
            said.append(
                f"{events} of replicas: a failing replica ends its current step and"
                f" loses its cache and requests; a request {then}; a recovered one has no cache"
            )
        if self.max_replicas is not None:
            said.append(
                "replicas are started and stopped as by a Kubernetes HorizontalPodAutoscaler on a"
                " per-pod metric: rounded up to the target, with tolerance, downscale stabilization"
                " and at most 4 or 100% new replicas at once; stopping replicas finish requests"
            )
        return said


def shared_fields(fields: Mapping[str, Any], operation: Operation) -> dict[str, Any]:
    """Return the fields that all kinds share, with the first kind's system if none is shared.

    Args:
        fields: Fields of the scenario, without the traffic.
        operation: The kinds and other fields of operation.

    Raises:
        InvalidSpecError: A field conflicts with kinds, or a kind has no system.
        UnsupportedError: Autoscaling of several kinds.
    """
    kinds: tuple[ReplicaKind, ...] = operation.replica_kinds
    given = {name: value for name, value in fields.items() if value not in (None, "")}
    if given.get("mode") == "disaggregated":
        raise InvalidSpecError(
            "replica_kinds cannot be used with mode = disaggregated: kinds serve whole requests,"
            " pools divide them; set one of the two"
        )
    for name, instead in (("dp", "set dp in each kind"), ("gpus", "it is the sum over kinds")):
        if name in given:
            raise InvalidSpecError(
                f"{name} = {given[name]} cannot be used with replica_kinds: {instead}; leave {name}"
                " out"
            )
    for name in ("host_cache_bytes", "ssd_cache_bytes"):
        if getattr(operation, name, None) is not None:
            raise UnsupportedError(
                f"{name} = {getattr(operation, name):g}: KV cache offloading is not supported for"
                f" several kinds of replicas; leave {name} or replica_kinds out"
            )
    if operation.max_replicas is not None:
        raise UnsupportedError(
            f"max_replicas = {operation.max_replicas}: autoscaling is not supported for several"
            " kinds of replicas; leave max_replicas or replica_kinds out"
        )
    for number, kind in enumerate(kinds, start=1):
        if kind.system is None and "system" not in given:
            raise InvalidSpecError(
                f"kind {number} of replica_kinds has no system; set it there, or once for all kinds"
            )
    return {**fields, "system": given.get("system", kinds[0].system)}
