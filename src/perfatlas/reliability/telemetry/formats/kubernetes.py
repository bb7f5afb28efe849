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
from itertools import product
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.reliability.telemetry import history, reading
from perfatlas.reliability.telemetry.formats.json_log import json_records
from perfatlas.reliability.telemetry.formats.options import Imported, ImportOptions
from perfatlas.reliability.telemetry.formats.reasons import reason_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

FORMAT_NAME: Final = "kubernetes"
_READY: Final = "NodeReady"
_TIMES: Final = ("firstTimestamp", "eventTime", "lastTimestamp")
_STATES: Final = tuple(product(("lastState", "state"), ("terminated", "running")))


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
        log = reading.LogFile(path)
        for item in json_records(log, "items"):
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

    def add(self, item: reading.LogRecord, tally: reading.FileCounts) -> None:
        kind = item.text("kind") or ("Event" if item.get("involvedObject") else "")
        readers = {"Event": self._event, "Node": self._node, "Pod": self._pod}
        if kind in readers:
            readers[kind](item, tally)
        else:
            tally.ignore(f"object of kind {kind or 'none'}", item.number)

    def _event(self, item: reading.LogRecord, tally: reading.FileCounts) -> None:
        target = item.inner("involvedObject") or item.inner("regarding")
        if target is None:
            raise item.wrong("missing", "involvedObject")
        reason, kind = item.text("reason"), target.text("kind")
        name = target.text("name", required=True)
        time_s = _time_s(item, next((key for key in _TIMES if item.get(key)), _TIMES[0]))
        if kind == "Node" and reason == _READY:
            self._returns(name, time_s, item.number, tally)
            return
        entry = reason_of("kubernetes", reason)
        if entry is None or kind not in ("Node", "Pod"):
            tally.ignore(f"reason {reason or 'none'} of a {kind or 'nameless object'}", item.number)
            return
        event = history.Event(
            time_s, history.NODE_STATE, entry.cause, entry.kind, item.number, node=name,
            detected_s=time_s, action=entry.action,
        )  # fmt: skip
        if kind == "Pod":
            source = item.inner("source")
            node = source.text("host") if source else ""
            job = f"{target.text('namespace') or 'default'}/{name}"
            event = event._replace(component=history.JOB, node=node, job=job)
        if event.node:
            self._keep(event, tally)
        else:
            self.waiting.append(event)

    def _node(self, item: reading.LogRecord, tally: reading.FileCounts) -> None:
        name = _name(item)
        conditions = _listed(item, "conditions", "a condition", required=True)
        ready = next((row for row in conditions if row.text("type") == "Ready"), None)
        if ready is None:
            tally.ignore("node without the condition Ready", item.number)
            return
        time_s = _time_s(ready, "lastTransitionTime")
        if ready.text("status") == "True":
            self._returns(name, time_s, item.number, tally)
            return
        entry = reason_of("kubernetes", ready.text("reason") or "NodeNotReady")
        cause, action = (entry.cause, entry.action) if entry else ("not_ready", "")
        event = history.Event(
            time_s, history.NODE_STATE, cause, history.FAILURE, item.number, node=name,
            detected_s=time_s, action=action,
        )  # fmt: skip
        self._keep(event, tally)

    def _pod(self, item: reading.LogRecord, tally: reading.FileCounts) -> None:
        """Read when containers of a pod ran, and why they ended."""
        spec, metadata = item.inner("spec"), item.inner("metadata")
        node = spec.text("nodeName") if spec else ""
        space = metadata.text("namespace") if metadata else ""
        job = f"{space or 'default'}/{_name(item)}"
        self.pods[job] = _Seen(node, self.file, item.number)
        spans, events = self.spans.setdefault(job, {}), []
        for container in _listed(item, "containerStatuses", "a container"):
            for key, text in _STATES:
                state = container.inner(key)
                ran = state.inner(text) if state else None
                if ran is not None and ran.get("startedAt") is not None:
                    span = _span(ran, text)
                    spans[container.text("name"), span.start_s] = span
                if ran is not None and text == "terminated" and ran.get("exitCode"):
                    events.append(_end(ran, node, job))
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

    def end_file(self, log: reading.LogFile) -> None:
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

    def _keep(self, event: history.Event, tally: reading.FileCounts) -> None:
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

    def _returns(self, node: str, time_s: float, number: int, tally: reading.FileCounts) -> None:
        away = self.away.get(node)
        if away is None or time_s < away[1]:
            tally.ignore("node that was ready", number)
            return
        self.builder.recover(self.away.pop(node)[0], time_s)
        tally.merge("return of a node", number)


def _name(item: reading.LogRecord) -> str:
    metadata = item.inner("metadata")
    if metadata is None:
        raise item.wrong("missing", "metadata")
    return metadata.text("name", required=True)


def _time_s(item: reading.LogRecord, name: str) -> float:
    """Return a time [s since 1970-01-01 UTC]."""
    if item.get(name) is None:
        raise item.wrong("missing", name)
    return item.read(name, reading.epoch_seconds, None)


def _listed(
    item: reading.LogRecord, name: str, noun: str, *, required: bool = False
) -> Iterator[reading.LogRecord]:
    """Yield the objects of a list in the status, none where it is missing."""
    status, column = item.inner("status"), f"status.{name}"
    rows = status.get(name) if status else None
    if rows is None and not required:
        return
    if not isinstance(rows, list):
        raise item.wrong("missing or not a list" if required else "is not a list", column)
    for row in rows:
        if not isinstance(row, dict):
            raise item.wrong(f"has an item that is not {noun}", column)
        yield item._replace(fields=row)


def _span(ran: reading.LogRecord, state: str) -> _Span:
    """Return when a container ran."""
    start_s = _time_s(ran, "startedAt")
    end_s = _time_s(ran, "finishedAt") if state == "terminated" else math.inf
    if end_s < start_s:
        raise ran.wrong("is before startedAt", "finishedAt")
    return _Span(start_s, end_s, state)


def _end(ended: reading.LogRecord, node: str, job: str) -> history.Event:
    """Return the failure of a container."""
    reason = ended.text("reason")
    entry = reason_of("kubernetes", reason)
    cause = entry.cause if entry and reason != "Error" else f"exit_{ended.get('exitCode')}"
    kind = entry.kind if entry else history.UNCLEAR
    return history.Event(
        _time_s(ended, "finishedAt"), history.JOB, cause, kind, ended.number, node=node, job=job,
        action=history.PROCESS,
    )  # fmt: skip
