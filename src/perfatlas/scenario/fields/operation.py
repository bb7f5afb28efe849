"""Operation of replicas: routing, failures, autoscaling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from perfatlas.quantities import InvalidSpecError, UnsupportedError, repr_for_error
from perfatlas.scenario.fields.input_fields import InputFields, input_rows
from perfatlas.scenario.fields.vocabulary import Scenario, system_engine
from perfatlas.serving.config import MAX_ENGINE_TYPES, Affinity, Availability, Outage, Scaler
from perfatlas.serving.requests import whole_ticks
from perfatlas.vocabulary.fields import MAX_S, ReplicaEventFields, ReplicaFields, ReplicaOperation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

EXAMPLE: Final = '[{"system": "h200_sxm", "tp": 4, "dp": 2}, {"system": "b200_sxm", "dp": 4}]'


Kinds = TypeVar("Kinds", bound="Operation")
MAX_EVENTS: Final = 100_000


class ReplicaKind(InputFields, ReplicaFields):
    """One kind of identical replicas; None means the value shared by all kinds."""

    def set_fields(self) -> dict[str, Any]:
        """Return the fields set for this kind, including its number of replicas."""
        return {name: value for name, value in vars(self).items() if value is not None}


def read_kinds(given: Any) -> tuple[ReplicaKind, ...] | None:  # noqa: ANN401 - whatever a person wrote
    """Return kinds from a list, from JSON text that starts with [, or from a file.

    Args:
        given: Rows of named fields, text, or a path to CSV, Parquet or JSON Lines; None for none.

    Example:
        >>> from perfatlas.scenario.fields.operation import read_kinds
        >>> [kind.dp for kind in read_kinds('[{"tp": 4, "dp": 2}, {"system": "b200_sxm"}]')]
        [2, 1]
    """
    if given is None:
        return None
    wanted = f"a list of 1 to {MAX_ENGINE_TYPES} kinds such as {EXAMPLE}"
    rows, where = input_rows(given, "replica_kinds", wanted, MAX_ENGINE_TYPES)
    if not rows:
        raise InvalidSpecError(f"replica_kinds is empty: set {wanted}, or leave it out")
    return tuple(_kind(row, number, where) for number, row in enumerate(rows, start=1))


def _kind(row: Any, number: int, where: str) -> ReplicaKind:  # noqa: ANN401 - whatever a person wrote
    if isinstance(row, ReplicaKind):
        return row
    if not isinstance(row, dict):
        raise InvalidSpecError(
            f"kind {number} of {where} is {repr_for_error(str(row))}: expected fields by name, as"
            " in"
            f" {EXAMPLE}"
        )
    for name in row:
        if name in Scenario.fields() and name not in ReplicaKind.fields():
            raise InvalidSpecError(
                f"kind {number} of {where}: {name} is common to all kinds, not a field of one;"
                " set it once, outside replica_kinds"
            )
    try:
        return ReplicaKind.read(row)
    except InvalidSpecError as error:
        raise error.of(f"kind {number} of {where}") from None


def kind_scenarios(scenario: Scenario, kinds: Sequence[ReplicaKind]) -> list[Scenario]:
    """Return the scenario of each kind: the shared fields with its own."""
    return [scenario.changed(**kind.set_fields()) for kind in kinds]


class ReplicaEvent(InputFields, ReplicaEventFields):
    """An outage of one replica."""

    def outage(self) -> Outage:
        """Return the event in simulated time."""
        note = f"replica {self.replica} fails at {self.fails_at_s:g} s"
        if self.back_at_s is not None and self.down_for_s is not None:
            raise InvalidSpecError(
                f"{note} with back_at_s = {self.back_at_s:g} and down_for_s = {self.down_for_s:g};"
                " set one of the two"
            )
        back = self.back_at_s
        if self.down_for_s is not None:
            back = self.fails_at_s + self.down_for_s
        start = int(whole_ticks(self.fails_at_s))
        if back is None:
            return Outage(self.replica, start, drain=self.kind == "drain")
        if back > MAX_S:
            raise InvalidSpecError(
                f"{note} and returns at {back:g} s, after the longest simulation ({MAX_S:g} s)"
            )
        end = int(whole_ticks(back))
        if end <= start:
            raise InvalidSpecError(
                f"{note} and returns at {back:g} s; it must return later than it fails"
            )
        return Outage(self.replica, start, end, drain=self.kind == "drain")


def read_events(given: Any) -> tuple[ReplicaEvent, ...] | None:  # noqa: ANN401 - whatever a person wrote
    """Return events from a list, from JSON text that starts with [, or from a file.

    Args:
        given: Rows of named fields, text, or a path to CSV, Parquet or JSON Lines; None for none.

    Example:
        >>> from perfatlas.scenario.fields.operation import read_events
        >>> read_events('[{"replica": 1, "fails_at_s": 60, "down_for_s": 30}]')[0].down_for_s
        30.0
    """
    if given is None:
        return None
    wanted = (
        f"a list of at most {MAX_EVENTS:,} events with replica, fails_at_s and back_at_s or"
        " down_for_s"
    )
    rows, where = input_rows(given, "replica_events", wanted, MAX_EVENTS)
    return tuple(_event(row, number, where) for number, row in enumerate(rows, start=1))


def _event(row: Any, number: int, where: str) -> ReplicaEvent:  # noqa: ANN401 - whatever a person wrote
    if isinstance(row, ReplicaEvent):
        return row
    if not isinstance(row, dict):
        raise InvalidSpecError(
            f"event {number} of {where} is {repr_for_error(row)}: expected a table of"
            f" {', '.join(ReplicaEvent.fields())}"
        )
    try:
        return ReplicaEvent.read(row)
    except InvalidSpecError as error:
        raise error.of(f"event {number} of {where}") from None


_AFFINITY: Final = ("cache_threshold", "balance_abs_threshold", "balance_rel_threshold")


_TIMES: Final = {  # autoscaler fields in seconds
    "autoscale_period_s": "period",
    "autoscale_down_after_s": "stable",
    "start_up_s": "start_up",
}


class Operation(InputFields, ReplicaOperation):
    """Routing, failures and autoscaling of replicas. None means the default."""

    readers = {"replica_kinds": read_kinds, "replica_events": read_events}  # noqa: RUF012 - constant

    def affinity(self) -> Affinity:
        """Return the thresholds of prefix-aware routing."""
        given = {
            name: getattr(self, field)
            for name, field in zip(Affinity._fields, _AFFINITY, strict=True)
            if getattr(self, field) is not None
        }
        return Affinity(**given)

    def availability(self, replicas: int | None) -> Availability:
        """Return the failures and the autoscaler.

        Args:
            replicas: Initial replicas, or None if not set.
        """
        events: tuple[ReplicaEvent, ...] = self.replica_events or ()
        return Availability(
            outages=tuple(event.outage() for event in events),
            on_failure=self.on_failure or "retry",
            retry_after=int(whole_ticks(self.retry_after_s or 0.0)),
            scalers=()
            if self.max_replicas is None
            else (self._scaler(self.max_replicas, replicas),),
        )

    def _scaler(self, most: int, replicas: int | None) -> Scaler:
        if self.autoscale_target is None:
            raise InvalidSpecError(
                f"max_replicas = {most} enables autoscaling: set autoscale_target,"
                " the target requests per replica"
            )
        low = self.min_replicas or 1
        initial = low if replicas is None else replicas
        if not low <= initial <= most:
            named = "" if replicas is None else f", dp = {initial} at the start"
            raise InvalidSpecError(
                f"min_replicas = {low}{named}, max_replicas = {most}: these must not decrease"
            )
        given: dict[str, Any] = {
            name: int(whole_ticks(getattr(self, field)))
            for field, name in _TIMES.items()
            if getattr(self, field) is not None
        }
        if self.autoscale_tolerance is not None:
            given["tolerance"] = self.autoscale_tolerance
        waiting = self.autoscale_metric == "waiting"
        return Scaler(low, initial, self.autoscale_target, queue_only=waiting, **given)

    def assumptions(self) -> list[str]:
        """Return the assumptions about router, failures and autoscaler, for the evidence."""
        notes = []
        if self.routing == "least_loaded":
            notes.append(
                "the router sends a request to the replica with the fewest waiting and running"
                " requests, ties in round-robin order, as nginx (least_conn)"
            )
        if self.routing == "prefix_aware":
            share, apart, ratio = self.affinity()
            notes.append(
                f"the router follows prefixes as sglang-router 0.3.2 (cache_aware): to the replica"
                f" with the longest cached prefix if that exceeds {100.0 * share:g}% of the"
                f" prompt, else to the least loaded (ties in round-robin order), and always to"
                f" that if loads differ by more than {apart} requests and a factor of {ratio:g};"
                " attention-DP ranks are workers of the router, which knows what they hold"
            )
        if self.replica_events:
            then = "is lost" if self.on_failure == "lost" else "is retried from the start"
            count = len(self.replica_events)
            events = "1 event" if count == 1 else f"{count:,} events"
            notes.append(
                f"{events} of replicas: a failing replica ends its current step and"
                f" loses its cache and requests; a request {then}; a recovered one has no cache"
            )
        if self.max_replicas is not None:
            notes.append(
                "replicas are started and stopped as by a Kubernetes HorizontalPodAutoscaler on a"
                " per-pod metric: rounded up to the target, with tolerance, downscale stabilization"
                " and at most 4 or 100% new replicas at once; stopping replicas finish requests"
            )
        return notes


def shared_fields(fields: Mapping[str, Any], operation: Operation) -> dict[str, Any]:
    """Return the fields that all kinds share, with the first kind's system if none is shared.

    Args:
        fields: Fields of the scenario, without the traffic.

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


def with_kind_engines(traffic: Kinds, fields: Mapping[str, Any]) -> Kinds:
    """Return traffic whose kinds have the engine of their system where no field names one.

    Args:
        fields: Fields that all kinds share, as `shared_fields` returns them.
    """
    kinds = tuple(
        kind
        if kind.engine or fields.get("engine") or not kind.system
        else kind.changed(engine=system_engine(fields.get("model"), kind.system))
        for kind in traffic.replica_kinds
    )
    return traffic.changed(replica_kinds=kinds)
