"""Events and node conditions of Kubernetes' node-problem-detector as a history.

Source: kubernetes/node-problem-detector, docs and config/kernel-monitor.json: a temporary problem
is an Event, a permanent one a condition of the Node whose status True means a problem. Read from
`kubectl get events -A -o json` and `kubectl get nodes -o json`, joined or separate.
Limits: Kubernetes keeps events for an hour by default, so that a history needs collected logs; a
    condition has only its last change. The default rules have no NVIDIA Xid. Tested on hand-written
    objects, and on the published rules.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from perfatlas.files import check_regular
from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.telemetry.formats.json_log import JsonLog
from perfatlas.reliability.telemetry.formats.options import Imported, ImportOptions
from perfatlas.reliability.telemetry.history import FAILURE, NOTICE, Event, History, HistoryBuilder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.reliability.telemetry.formats.json_log import Item
    from perfatlas.reliability.telemetry.reading import Tally

FORMAT_NAME: Final = "node_problem_detector"
_FINE: Final = "Ready"  # the only Kubernetes condition that is true for a healthy node
_WORD_START: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, kw_only=True)
class DetectorRules:
    """The rules of a node-problem-detector.

    Args:
        source: Source name of its reports.
        reasons: Reasons of its events and problems.
        conditions: Types of its conditions.
    """

    source: str
    reasons: frozenset[str]
    conditions: frozenset[str]


def read(paths: Sequence[str | Path], options: ImportOptions) -> Imported:
    """Return the history in logs of this format.

    Args:
        options: Information that the logs omit.

    Raises:
        InvalidSpecError: A log is invalid.
    """
    if not options.rules:
        raise InvalidSpecError(
            "node-problem-detector needs its configuration (rules, --rules kernel-monitor.json):"
            " to identify its events"
        )
    return Imported(read_problems(paths, [read_rules(path) for path in options.rules]))


def read_rules(path: str | Path) -> DetectorRules:
    """Return the rules of a monitor of node-problem-detector.

    Args:
        path: Its configuration, such as config/kernel-monitor.json.

    Raises:
        InvalidSpecError: The file cannot be read or is not such a configuration.
    """
    check_regular(path, "rules")
    try:
        config = json.loads(Path(path).read_text("utf-8"))
        rules = config["rules"]
        return DetectorRules(
            source=str(config["source"]),
            reasons=frozenset(str(rule["reason"]) for rule in rules),
            conditions=frozenset(str(one["type"]) for one in config.get("conditions", [])),
        )
    except OSError as problem:
        raise InvalidSpecError(f"cannot read rules '{path}': {problem.strerror}") from problem
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise InvalidSpecError(
            f"rules '{path}' are not a node-problem-detector configuration ({problem!r}): expected"
            " source, conditions and rules with reasons"
        ) from problem


def read_problems(paths: Sequence[str | Path], rules: Sequence[DetectorRules]) -> History:
    """Return the problems reported by node-problem-detector.

    Args:
        paths: Kubernetes objects: a List ({"items": [...]}), or one per line (.jsonl).
        rules: Rules of the detector; events of others are ignored and counted.

    Raises:
        InvalidSpecError: A file is not JSON or is truncated, or an object lacks its name or time;
            the message names file, record and field.

    Limits: temporary problems are notices and permanent ones failures, as the detector defines
        them. An event that Kubernetes counted several times is one event at its first time.
    """
    builder = HistoryBuilder()
    seen: set[tuple[str, str, float]] = set()
    for path in paths:
        log = JsonLog(path, "items")
        for item in log.items():
            kind = item.text("kind") or ("Event" if item.get("involvedObject") else "")
            if kind == "Event":
                found = _event(item, rules, log.tally)
                events = [] if found is None else [found]
            elif kind == "Node":
                events = _conditions(item, rules, log.tally)
            else:
                log.tally.ignore(f"object of kind {kind or 'none'}", item.number)
                events = []
            new = [
                event for event in events if (event.node, event.cause, event.start_s) not in seen
            ]
            seen.update((event.node, event.cause, event.start_s) for event in new)
            for event in new:
                builder.add(event)
            if new:
                log.tally.parsed += 1
            elif events:
                log.tally.merge("problem already reported", item.number)
        builder.end_file(log.close())
    return builder.close()


def _event(item: Item, rules: Sequence[DetectorRules], tally: Tally) -> Event | None:
    source = item.inner("source")
    name = source.text("component") if source else ""
    name = name or item.text("reportingComponent")
    reason = item.text("reason")
    known = next((rule for rule in rules if rule.source == name), None)
    if known is None:
        tally.ignore(f"event of {name or 'an unknown source'}", item.number)
        return None
    if reason not in known.reasons:
        tally.ignore(f"reason {reason or 'none'} is not in the rules", item.number)
        return None
    target = item.inner("involvedObject")
    if target is None or target.text("kind") != "Node":
        tally.ignore("event of an object other than a node", item.number)
        return None
    first = next((n for n in ("firstTimestamp", "eventTime") if item.get(n)), "firstTimestamp")
    count = item.get("count")
    if isinstance(count, int) and count > 1:
        tally.repair("event counted several times", item.number)
    start_s = item.time_s(first, None)
    return Event(
        start_s=start_s,
        component="host",
        cause=_snake(reason),
        kind=NOTICE,
        line=item.number,
        node=target.text("name", required=True),
        detected_s=start_s,
    )


def _conditions(item: Item, rules: Sequence[DetectorRules], tally: Tally) -> list[Event]:
    metadata, status = item.inner("metadata"), item.inner("status")
    if metadata is None:
        raise item.wrong("missing", "metadata")
    node = metadata.text("name", required=True)
    listed = status.get("conditions") if status else None
    if not isinstance(listed, list):
        raise item.wrong("missing or not a list", "status.conditions")
    known = frozenset[str]().union(*(rule.conditions for rule in rules))
    events, others = [], []
    for one in listed:
        if not isinstance(one, dict):
            raise item.wrong("has an item that is not a condition", "status.conditions")
        condition = item.part(one)
        kind = condition.text("type")
        if condition.text("status") != "True" or kind == _FINE:
            continue
        if kind not in known:
            others.append(kind)
            continue
        start_s = condition.time_s("lastTransitionTime", None)
        cause = _snake(condition.text("reason") or kind)
        event = Event(start_s, "host", cause, FAILURE, item.number, node=node, detected_s=start_s)
        events.append(event)
    if others and events:
        tally.repair(f"condition {others[0]}, not in the rules, ignored", item.number)
    elif not events:
        why = f"condition {others[0]} is not in the rules" if others else "node without a problem"
        tally.ignore(why, item.number)
    return events


def _snake(name: str) -> str:
    return _WORD_START.sub("_", name).replace("-", "_").lower()
