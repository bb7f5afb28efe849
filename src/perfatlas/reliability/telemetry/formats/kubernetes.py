"""Events of pods and nodes, and the readiness of nodes, in Kubernetes objects.

Source: the core/v1 types Event, Node and Pod of the Kubernetes API, as written by `kubectl get
    events -A -o json`, `kubectl get nodes -o json` and `kubectl get pods -A -o json`, once or
    repeatedly.
Limits: tested on hand-written objects. Kubernetes keeps events for an hour by default, so that a
    history needs collected events, and removes finished pods, whose runs are then missing. A node
    is away from the change of its condition Ready to False or Unknown until its change back to
    True, seen in a later object. A pod runs from the start of its first container to the end of its
    last one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.reliability.telemetry import history
from perfatlas.reliability.telemetry.formats.json_log import JsonLog
from perfatlas.reliability.telemetry.formats.options import Imported, ImportOptions
from perfatlas.reliability.telemetry.formats.reasons import reason_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from perfatlas.reliability.telemetry.formats.json_log import JsonRecord
    from perfatlas.reliability.telemetry.reading import Tally

FORMAT_NAME: Final = "kubernetes"
_READY: Final = "NodeReady"
_TIMES: Final = ("firstTimestamp", "eventTime", "lastTimestamp")


def read(paths: Sequence[str | Path], options: ImportOptions) -> Imported:
    """Return the history in logs of this format."""
    del options
    return Imported(read_kubernetes(paths))


def read_kubernetes(paths: Sequence[str | Path]) -> history.History:
    """Return failures that events and node conditions report, with their ends, and runs of pods.

    Args:
        paths: Lists ({"items": [...]}), or one object per line (.jsonl), in time order.
    """
    reader = _Reader()
    for reader.file, path in enumerate(paths):
        log = JsonLog(path, "items")
        for item in log.items():
            reader.add(item, log.tally)
        reader.end_file(log)
    return reader.close()


class _Span(NamedTuple):
    """When a container ran; the end is infinite while it runs."""

    start_s: float
    end_s: float
    state: str


class _Seen(NamedTuple):
    """Where the last object of a pod was read, and its node."""

    node: str
    file: int
    line: int


@dataclass(kw_only=True)
class _Reader:
    """Events and runs of pods so far, and the nodes that are away.

    Events of pods name no node; they wait for the pod, which may follow in the file.
    """

    file: int = 0
    waiting: list[history.Event] = field(default_factory=list)
    builder: history.HistoryBuilder = field(default_factory=history.HistoryBuilder)
    pods: dict[str, _Seen] = field(default_factory=dict)
    spans: dict[str, dict[tuple[str, float], _Span]] = field(default_factory=dict)
    seen: set[tuple[str, str, float]] = field(default_factory=set)
    away: dict[str, tuple[int, float]] = field(default_factory=dict)

    def add(self, item: JsonRecord, tally: Tally) -> None:
        kind = item.text("kind") or ("Event" if item.get("involvedObject") else "")
        if kind == "Event":
            self._event(item, tally)
        elif kind == "Node":
            self._node(item, tally)
        elif kind == "Pod":
            self._pod(item, tally)
        else:
            tally.ignore(f"object of kind {kind or 'none'}", item.number)

    def _event(self, item: JsonRecord, tally: Tally) -> None:
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
        entry = reason_of("kubernetes", reason)
        if entry is None or kind not in ("Node", "Pod"):
            tally.ignore(f"reason {reason or 'none'} of a {kind or 'nameless object'}", item.number)
            return
        source = item.inner("source")
        node = name if kind == "Node" else (source.text("host") if source else "")
        component = history.NODE_STATE if kind == "Node" else history.JOB
        job = "" if kind == "Node" else f"{target.text('namespace') or 'default'}/{name}"
        event = history.Event(
            time_s, component, entry.cause, entry.kind, item.number, node=node, job=job,
            detected_s=time_s, action=entry.action,
        )  # fmt: skip
        if kind == "Pod" and not node:
            self.waiting.append(event)
        else:
            self._keep(event, tally)

    def _node(self, item: JsonRecord, tally: Tally) -> None:
        name = _name(item)
        ready = next(
            (condition for condition in _conditions(item) if condition.text("type") == "Ready"),
            None,
        )
        if ready is None:
            tally.ignore("node without the condition Ready", item.number)
            return
        time_s = ready.time_s("lastTransitionTime", None)
        if ready.text("status") == "True":
            self._returns(name, time_s, item.number, tally)
            return
        entry = reason_of("kubernetes", ready.text("reason") or "NodeNotReady")
        cause = entry.cause if entry else "not_ready"
        action = entry.action if entry else ""
        event = history.Event(
            time_s, history.NODE_STATE, cause, "failure", item.number, node=name, detected_s=time_s,
            action=action,
        )  # fmt: skip
        self._keep(event, tally)

    def _pod(self, item: JsonRecord, tally: Tally) -> None:
        """Read when containers of a pod ran, and why they ended."""
        spec, metadata = item.inner("spec"), item.inner("metadata")
        node = spec.text("nodeName") if spec else ""
        space = metadata.text("namespace") if metadata else ""
        job, events = f"{space or 'default'}/{_name(item)}", []
        self.pods[job] = _Seen(node, self.file, item.number)
        self.spans.setdefault(job, {}).update(_spans(item))
        for ended in _terminations(item):
            code, reason = ended.get("exitCode"), ended.text("reason")
            if code in (0, None):
                continue
            entry = reason_of("kubernetes", reason)
            cause = entry.cause if entry and reason != "Error" else f"exit_{code}"
            kind = entry.kind if entry else "unclear"
            time_s = ended.time_s("finishedAt", None)
            events.append(
                history.Event(
                    time_s,
                    history.JOB,
                    cause,
                    kind,
                    item.number,
                    node=node,
                    job=job,
                    action="process",
                )
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

    def end_file(self, log: JsonLog) -> None:
        """Add the events of pods that name no node, with the node of their pod."""
        for event in self.waiting:
            pod = self.pods.get(event.job)
            self._keep(event._replace(node=pod.node if pod else ""), log.tally)
        self.waiting.clear()
        self.builder.end_file(log.close())

    def close(self) -> history.History:
        """Return the history; containers of a pod that ran at the same time are one run."""
        runs = history.OccupancyBuilder()
        for job, seen in self.pods.items():
            run: _Span | None = None
            for span in (*sorted(self.spans[job].values()), None):
                if run is not None and span is not None and span.start_s <= run.end_s:
                    last = max(run, span, key=lambda span: span.end_s)
                    run = _Span(run.start_s, last.end_s, last.state)
                    continue
                if run is not None:
                    end_s = history.NOT_TOLD if math.isinf(run.end_s) else run.end_s
                    names = (seen.node, job, run.state)
                    runs.add((run.start_s, end_s), names, seen.file, seen.line)
                run = span
        return self.builder.close(runs.close())

    def _keep(self, event: history.Event, tally: Tally) -> None:
        key = (event.job or event.node, event.cause, event.start_s)
        if key in self.seen or self._is_away(event):
            tally.merge("already reported", event.line)
            return
        self.seen.add(key)
        tally.parsed += 1
        row = self.builder.add(event)
        if event.cause == "not_ready" and event.component == history.NODE_STATE:
            self.away[event.node] = (row, event.start_s)

    def _is_away(self, event: history.Event) -> bool:
        """Return whether an event repeats that a node is away."""
        away = self.away.get(event.node) if event.cause == "not_ready" else None
        return away is not None and (
            event.component == history.NODE_STATE or away[1] <= event.start_s
        )

    def _returns(self, node: str, time_s: float, number: int, tally: Tally) -> None:
        away = self.away.get(node)
        if away is None or time_s < away[1]:
            tally.ignore("node that was ready", number)
            return
        self.builder.recover(self.away.pop(node)[0], time_s)
        tally.merge("return of a node", number)


def _name(item: JsonRecord) -> str:
    metadata = item.inner("metadata")
    if metadata is None:
        raise item.wrong("missing", "metadata")
    return metadata.text("name", required=True)


def _conditions(item: JsonRecord) -> Iterator[JsonRecord]:
    status = item.inner("status")
    listed = status.get("conditions") if status else None
    if not isinstance(listed, list):
        raise item.wrong("missing or not a list", "status.conditions")
    for row in listed:
        if not isinstance(row, dict):
            raise item.wrong("has an item that is not a condition", "status.conditions")
        yield item.part(row)


def _terminations(item: JsonRecord) -> Iterator[JsonRecord]:
    """Yield the current and last ends of the containers of a pod."""
    for container in _containers(item):
        for key in ("lastState", "state"):
            state = container.inner(key)
            ended = state.inner("terminated") if state else None
            if ended is not None:
                yield ended


def _spans(item: JsonRecord) -> Iterator[tuple[tuple[str, float], _Span]]:
    """Yield when each container of a pod ran, by its name and start, where the object has it."""
    for container in _containers(item):
        for key in ("lastState", "state"):
            state = container.inner(key)
            for text in ("terminated", "running"):
                ran = state.inner(text) if state else None
                if ran is None or ran.get("startedAt") is None:
                    continue
                start_s, end_s = ran.time_s("startedAt", None), math.inf
                if text == "terminated":
                    end_s = ran.time_s("finishedAt", None)
                    if end_s < start_s:
                        raise ran.wrong("is before startedAt", "finishedAt")
                yield (container.text("name"), start_s), _Span(start_s, end_s, text)


def _containers(item: JsonRecord) -> Iterator[JsonRecord]:
    """Yield the states of the containers of a pod."""
    status = item.inner("status")
    listed = status.get("containerStatuses") if status else None
    if listed is None:
        return
    if not isinstance(listed, list):
        raise item.wrong("is not a list", "status.containerStatuses")
    for row in listed:
        if not isinstance(row, dict):
            raise item.wrong("has an item that is not a container", "status.containerStatuses")
        yield item.part(row)
