"""The vocabulary of how replicas are operated: who gets which request, who fails, how many run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic import field_validator

from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.scenario.fields.asked import Asked
from perfatlas.scenario.fields.replica_events import ReplicaEvent, read_events
from perfatlas.scenario.fields.replica_kinds import ReplicaKind, read_kinds
from perfatlas.serving.config import Affinity, Scaler, Upkeep
from perfatlas.serving.requests import whole_ticks
from perfatlas.vocabulary.fields import ReplicaOperation

if TYPE_CHECKING:
    from collections.abc import Mapping

_AFFINITY: Final = ("cache_threshold", "balance_abs_threshold", "balance_rel_threshold")
_TIMES: Final = {  # fields of a scaler in seconds
    "autoscale_period_s": "period",
    "autoscale_down_after_s": "stable",
    "start_up_s": "start_up",
}


class Operation(Asked, ReplicaOperation):
    """How replicas share requests, fail, start and stop. None means "as it is by default"."""

    @field_validator("replica_kinds", mode="before")
    @classmethod
    def _read_kinds(cls, given: object) -> tuple[ReplicaKind, ...] | None:
        return read_kinds(given)

    @field_validator("replica_events", mode="before")
    @classmethod
    def _read_events(cls, given: object) -> tuple[ReplicaEvent, ...] | None:
        return read_events(given)

    def affinity(self) -> Affinity:
        """Return when the router follows a prefix."""
        given = {
            name: getattr(self, asked)
            for name, asked in zip(Affinity._fields, _AFFINITY, strict=True)
            if getattr(self, asked) is not None
        }
        return Affinity(**given)

    def upkeep(self, replicas: int | None) -> Upkeep:
        """Return what fails, starts and stops.

        Args:
            replicas: Asked for at the start, None where nobody did.

        Raises:
            InvalidSpecError: An event or the autoscaler contradicts itself.
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
                f"max_replicas = {self.max_replicas} turns an autoscaler on: give autoscale_target,"
                " the requests of a replica it aims at"
            )
        low = self.min_replicas or 1
        initial = low if replicas is None else replicas
        if not low <= initial <= self.max_replicas:
            raise InvalidSpecError(
                f"min_replicas = {low}, dp = {initial} at the start, max_replicas ="
                f" {self.max_replicas}: these rise"
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

    def said(self) -> list[str]:
        """Return what is assumed of router, failures and autoscaler, for the evidence."""
        said = []
        if self.routing == "least_loaded":
            said.append(
                "the router sends a request to the replica with the fewest waiting and running, of"
                " equals to the next in turn, as nginx (least_conn)"
            )
        if self.routing == "prefix_aware":
            share, apart, ratio = self.affinity()
            said.append(
                f"the router follows prefixes as sglang-router 0.3.2 (cache_aware): to the replica"
                f" that got the longest known beginning where that is over {100.0 * share:g} % of"
                f" the prompt, else to the least loaded (of equals the next in turn), and there"
                f" always where loads differ by over {apart} requests and {ratio:g} times"
            )
        if self.replica_events:
            then = "is lost" if self.on_failure == "lost" else "is sent again and starts over"
            count = len(self.replica_events)
            events = "1 event" if count == 1 else f"{count:,} events"
            said.append(
                f"{events} of replicas: one that fails ends its step and"
                f" loses caches and requests; a request {then}; one that is back has an empty cache"
            )
        if self.max_replicas is not None:
            said.append(
                "replicas are started and stopped as by a Kubernetes HorizontalPodAutoscaler on a"
                " metric per pod: rounded up to the target, tolerance, stabilization downwards, at"
                " most 4 or as many again at once; those that stop end their requests"
            )
        return said


def shared_fields(fields: Mapping[str, Any], operation: Operation) -> dict[str, Any]:
    """Return the fields that all kinds share, with the system of the first where none is shared.

    Args:
        fields: Of the scenario, beside the traffic.
        operation: The kinds and what else is asked of replicas.

    Raises:
        InvalidSpecError: A field contradicts kinds, or a kind has no system.
        UnsupportedError: An autoscaler of several kinds.
    """
    kinds: tuple[ReplicaKind, ...] = operation.replica_kinds
    given = {name: value for name, value in fields.items() if value not in (None, "")}
    if given.get("mode") == "disaggregated":
        raise InvalidSpecError(
            "replica_kinds and mode = disaggregated: kinds are replicas that do all of a request,"
            " pools divide it; give one of the two"
        )
    for name, instead in (("dp", "give dp in each kind"), ("gpus", "they are the sum over kinds")):
        if name in given:
            raise InvalidSpecError(
                f"{name} = {given[name]} beside replica_kinds: {instead}; leave {name} out"
            )
    for name in ("host_cache_bytes", "ssd_cache_bytes"):
        if getattr(operation, name, None) is not None:
            raise UnsupportedError(
                f"{name} = {getattr(operation, name):g}: cache below the GPU is told of replicas of"
                f" one kind, and not of several; leave {name} or replica_kinds out"
            )
    if operation.max_replicas is not None:
        raise UnsupportedError(
            f"max_replicas = {operation.max_replicas}: an autoscaler starts and stops replicas of"
            " one kind, and none of several is simulated; leave max_replicas or replica_kinds out"
        )
    for number, kind in enumerate(kinds, start=1):
        if kind.system is None and "system" not in given:
            raise InvalidSpecError(
                f"kind {number} of replica_kinds has no system; give it one, or one for all kinds"
            )
    return {**fields, "system": given.get("system", kinds[0].system)}
