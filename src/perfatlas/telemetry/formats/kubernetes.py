"""Events of pods and nodes, and the readiness of nodes, in Kubernetes objects.

Source: the core/v1 types Event, Node and Pod of the Kubernetes API, as written by `kubectl get
    events -A -o json`, `kubectl get nodes -o json` and `kubectl get pods -A -o json`, once or
    repeatedly.
Limits: tested on hand-written objects. Kubernetes keeps events for an hour by default, so that a
    history needs collected events. A node is away from the change of its condition Ready to False
    or Unknown until its change back to True, seen in a later object.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from perfatlas.telemetry.formats.json_log import JsonLog
from perfatlas.telemetry.formats.options import Imported, ImportOptions
from perfatlas.telemetry.formats.reasons import reason_of
from perfatlas.telemetry.history import JOB, NODE_STATE, Event, History, HistoryBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from perfatlas.telemetry.formats.json_log import Item
    from perfatlas.telemetry.reading import Tally

FORMAT_NAME: Final = "kubernetes"
_READY: Final = "NodeReady"
_TIMES: Final = ("firstTimestamp", "eventTime", "lastTimestamp")


def read(paths: Sequence[str | Path], options: ImportOptions) -> Imported:
    """Return the history in logs of this format.

    Args:
        paths: The logs.
        options: Not used.

    Raises:
        InvalidSpecError: A log is invalid.
    """
    del options
    return Imported(read_kubernetes(paths))


def read_kubernetes(paths: Sequence[str | Path]) -> History:
    """Return the failures that events and node conditions report, with their ends.

    Args:
        paths: Lists ({"items": [...]}), or one object per line (.jsonl), in time order.

    Raises:
        InvalidSpecError: A file is not JSON or is truncated, or an object lacks its name or time;
            the message names file, record and field.
    """
    reader = _Reader()
    for path in paths:
        log = JsonLog(path, "items")
        for item in log.items():
            reader.add(item, log.tally)
        reader.builder.end_file(log.close())
    return reader.builder.close()


@dataclass(kw_only=True)
class _Reader:
    """Events so far, and the nodes that are away."""

    builder: HistoryBuilder = field(default_factory=HistoryBuilder)
    seen: set[tuple[str, str, float]] = field(default_factory=set)
    away: dict[str, tuple[int, float]] = field(default_factory=dict)

    def add(self, item: Item, tally: Tally) -> None:
        kind = item.text("kind") or ("Event" if item.get("involvedObject") else "")
        if kind == "Event":
            self._event(item, tally)
        elif kind == "Node":
            self._node(item, tally)
        elif kind == "Pod":
            self._pod(item, tally)
        else:
            tally.ignore(f"object of kind {kind or 'none'}", item.number)

    def _event(self, item: Item, tally: Tally) -> None:
        target = item.inner("involvedObject") or item.inner("regarding")
        if target is None:
            raise item.wrong("missing", "involvedObject")
        reason, kind = item.text("reason"), target.text("kind")
        name = target.text("name", required=True)
        stamp = next((key for key in _TIMES if item.get(key)), _TIMES[0])
        time_s = item.time_s(stamp, None)
        if kind == "Node" and reason == _READY:
            self._returns(name, time_s, item.number, tally)
            return
        found = reason_of("kubernetes", reason)
        if found is None or kind not in ("Node", "Pod"):
            tally.ignore(f"reason {reason or 'none'} of a {kind or 'nameless object'}", item.number)
            return
        source = item.inner("source")
        node = name if kind == "Node" else (source.text("host") if source else "")
        component = NODE_STATE if kind == "Node" else JOB
        job = "" if kind == "Node" else f"{target.text('namespace') or 'default'}/{name}"
        event = Event(
            time_s, component, found.cause, found.kind, item.number, node=node, job=job,
            detected_s=time_s, action=found.action,
        )  # fmt: skip
        self._keep(event, tally)

    def _node(self, item: Item, tally: Tally) -> None:
        name = _name(item)
        ready = next((one for one in _conditions(item) if one.text("type") == "Ready"), None)
        if ready is None:
            tally.ignore("node without the condition Ready", item.number)
            return
        time_s = ready.time_s("lastTransitionTime", None)
        if ready.text("status") == "True":
            self._returns(name, time_s, item.number, tally)
            return
        found = reason_of("kubernetes", ready.text("reason") or "NodeNotReady")
        cause = found.cause if found else "not_ready"
        action = found.action if found else ""
        event = Event(
            time_s, NODE_STATE, cause, "failure", item.number, node=name, detected_s=time_s,
            action=action,
        )  # fmt: skip
        self._keep(event, tally)

    def _pod(self, item: Item, tally: Tally) -> None:
        """Read why containers of a pod ended."""
        spec, metadata = item.inner("spec"), item.inner("metadata")
        node = spec.text("nodeName") if spec else ""
        space = metadata.text("namespace") if metadata else ""
        job, events = f"{space or 'default'}/{_name(item)}", []
        for ended in _terminations(item):
            code, reason = ended.get("exitCode"), ended.text("reason")
            if code in (0, None):
                continue
            found = reason_of("kubernetes", reason)
            cause = found.cause if found and reason != "Error" else f"exit_{code}"
            kind = found.kind if found else "unclear"
            time_s = ended.time_s("finishedAt", None)
            events.append(
                Event(time_s, JOB, cause, kind, item.number, node=node, job=job, action="process")
            )
        new = [e for e in events if (e.job, e.cause, e.start_s) not in self.seen]
        for event in new:
            self.seen.add((event.job, event.cause, event.start_s))
            self.builder.add(event)
        if new:
            tally.parsed += 1
        elif events:
            tally.merge("already reported", item.number)
        else:
            tally.ignore("pod without a failed container", item.number)

    def _keep(self, event: Event, tally: Tally) -> None:
        key = (event.node or event.job, event.cause, event.start_s)
        if key in self.seen or (event.cause == "not_ready" and event.node in self.away):
            tally.merge("already reported", event.line)
            return
        self.seen.add(key)
        tally.parsed += 1
        row = self.builder.add(event)
        if event.cause == "not_ready":
            self.away[event.node] = (row, event.start_s)

    def _returns(self, node: str, time_s: float, number: int, tally: Tally) -> None:
        away = self.away.get(node)
        if away is None or time_s < away[1]:
            tally.ignore("node that was ready", number)
            return
        self.builder.recover(self.away.pop(node)[0], time_s)
        tally.merge("return of a node", number)


def _name(item: Item) -> str:
    metadata = item.inner("metadata")
    if metadata is None:
        raise item.wrong("missing", "metadata")
    return metadata.text("name", required=True)


def _conditions(item: Item) -> Iterator[Item]:
    status = item.inner("status")
    listed = status.get("conditions") if status else None
    if not isinstance(listed, list):
        raise item.wrong("missing or not a list", "status.conditions")
    for one in listed:
        if not isinstance(one, dict):
            raise item.wrong("has an item that is not a condition", "status.conditions")
        yield item.part(one)


def _terminations(item: Item) -> Iterator[Item]:
    """Yield the current and last ends of the containers of a pod."""
    status = item.inner("status")
    listed = status.get("containerStatuses") if status else None
    if listed is None:
        return
    if not isinstance(listed, list):
        raise item.wrong("is not a list", "status.containerStatuses")
    for one in listed:
        if not isinstance(one, dict):
            raise item.wrong("has an item that is not a container", "status.containerStatuses")
        container = item.part(one)
        for key in ("lastState", "state"):
            state = container.inner(key)
            ended = state.inner("terminated") if state else None
            if ended is not None:
                yield ended
