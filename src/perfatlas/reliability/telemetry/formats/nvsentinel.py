"""NVSentinel health events as a history: faults, and the healthy events that clear them.

Source: NVIDIA/NVSentinel, data-models/protobufs/health_event.proto and docs/DATA_FLOW.md. Read as
protobuf JSON, as the documents of its database (healthevent inside) or as change-stream records
(fullDocument). Protobuf omits defaults in JSON: an event without isHealthy is not healthy, one
without isFatal is not fatal.
Limits: tested on hand-written events based on the documentation, as no export was available.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from perfatlas.reliability.telemetry.formats.json_log import JsonLog
from perfatlas.reliability.telemetry.formats.options import Imported, ImportOptions
from perfatlas.reliability.telemetry.history import (
    FAILURE,
    GPU_RESET,
    NODE_REBOOT,
    NOTICE,
    PROCESS,
    REPAIR,
    Event,
    History,
    HistoryBuilder,
    xid_action,
    xid_code,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from perfatlas.reliability.telemetry.formats.json_log import Item
    from perfatlas.reliability.telemetry.reading import Tally

FORMAT_NAME: Final = "nvsentinel"
_STORE_ONLY: Final = ("STORE_ONLY", 2)  # name and number of the strategy
_XID: Final = re.compile(r"(?:XID[-_ ]?)?(\d{1,3})", re.IGNORECASE)
_WORDS: Final = re.compile(r"[^a-z0-9]+")
_NODE: Final = ("node", "host", "")
_BEST_NAMES: Final = ("gpu_uuid", "pci", "gpu")  # a GPU may have one name of each
# Names and numbers of RecommendedAction in health_event.proto.
_RECOMMENDED: Final = {
    ("RESTART_APP", 39): PROCESS,
    ("COMPONENT_RESET", 2): GPU_RESET,
    ("RESTART_VM", 15): NODE_REBOOT,
    ("RESTART_BM", 24): NODE_REBOOT,
    ("CONTACT_SUPPORT", 5): REPAIR,
    ("RUN_FIELDDIAG", 6): REPAIR,
    ("REPLACE_VM", 25): REPAIR,
    ("RUN_DCGMEUD", 26): REPAIR,
}
_ACTIONS: Final = {told: action for names, action in _RECOMMENDED.items() for told in names}
_WHOLE_NODE: Final = ("",)


def read(paths: Sequence[str | Path], options: ImportOptions) -> Imported:
    """Return the history in logs of this format.

    Args:
        options: Information that the logs omit.

    Raises:
        InvalidSpecError: A log is invalid.
    """
    return Imported(read_nvsentinel(paths, zone=options.clock.zone))


def read_nvsentinel(paths: Sequence[str | Path], *, zone: str | None = None) -> History:
    """Return the faults of NVSentinel health events; each ends when a healthy event clears it.

    Args:
        paths: Files in time order: one event per line (.jsonl), or a list, or {"events": []}.
        zone: Time zone of times without one; protobuf writes UTC.

    Raises:
        InvalidSpecError: A file is not JSON or is truncated, or an event lacks its node, check or
            time; the message names file, record and field.

    Limits: An event with processing strategy STORE_ONLY is a notice, as the cluster did not act on
        it. Other fatal events are failures, non-fatal ones notices.
    """
    faults = _Faults()
    for path in paths:
        log = JsonLog(path, "events")
        for item in log.items():
            faults.add(_event_of(item), zone, log.tally)
        faults.events.end_file(log.close())
    return faults.events.close()


def _event_of(item: Item) -> Item:
    """Return the event inside a database document or change-stream record."""
    inner = item.inner("fullDocument") or item
    return inner.inner("healthevent") or inner


@dataclass(kw_only=True)
class _Faults:
    """Events so far, and the faults not yet cleared."""

    events: HistoryBuilder = field(default_factory=HistoryBuilder)
    # node and check, then device, then cause
    open: dict[tuple[str, str], dict[str, dict[str, int]]] = field(default_factory=dict)

    def add(self, item: Item, zone: str | None, tally: Tally) -> None:
        node = item.text("nodeName", required=True)
        check = item.text("checkName", required=True)
        time_s = item.time_s("generatedTimestamp", zone)
        devices = _devices(item)
        by_device = self.open.setdefault((node, check), {})
        if item.flag("isHealthy"):
            self._clear(by_device, devices, time_s, item.number, tally)
            return
        cause, component, more = _cause(item, check)
        action = _action(item)
        fresh = [device for device in devices if cause not in by_device.get(device, {})]
        if not fresh:
            tally.merge("repeat of an uncleared fault", item.number)
            return
        tally.parsed += 1
        if more:
            tally.repair("several error codes in one event, named after the first", item.number)
        stored = item.get("processingStrategy") in _STORE_ONLY
        event = self.events.add(
            Event(
                start_s=time_s,
                component=component,
                cause=cause,
                kind=FAILURE if item.flag("isFatal") and not stored else NOTICE,
                line=item.number,
                node=node,
                device=",".join(fresh),
                detected_s=time_s,
                action=action or xid_action(cause),
            )
        )
        for device in fresh:
            by_device.setdefault(device, {})[cause] = event

    def _clear(
        self,
        by_device: dict[str, dict[str, int]],
        devices: tuple[str, ...],
        time_s: float,
        number: int,
        tally: Tally,
    ) -> None:
        """Close the faults of devices, by default of all devices."""
        wanted = list(by_device) if devices == _WHOLE_NODE else devices
        cleared = [by_device.pop(device, {}) for device in wanted]
        events = {event for known in cleared for event in known.values()}
        for event in events - {e for known in by_device.values() for e in known.values()}:
            self.events.recover(event, time_s)
        if events:
            tally.merge("healthy event that clears a fault", number)
        else:
            tally.ignore("healthy event with no fault to clear", number)


def _devices(item: Item) -> tuple[str, ...]:
    """Return the devices of an event, by one of their names; "" for the node."""
    entities = item.get("entitiesImpacted")
    if entities is None:
        return _WHOLE_NODE
    if not isinstance(entities, list):
        raise item.wrong("is not a list", "entitiesImpacted")
    by_type: dict[str, list[str]] = {}
    for entity in entities:
        if not isinstance(entity, Mapping):
            raise item.wrong("has an item other than {entityType, entityValue}", "entities")
        one = item.part(entity)
        by_type.setdefault(one.text("entityType").lower(), []).append(one.text("entityValue"))
    best = next((kind for kind in _BEST_NAMES if kind in by_type), None)
    others = [value for kind, values in by_type.items() if kind not in _NODE for value in values]
    return tuple(dict.fromkeys(by_type[best] if best else others)) or _WHOLE_NODE


def _action(item: Item) -> str:
    """Return what the recommended action of an event is, "" where none is recommended."""
    told = item.get("recommendedAction")
    if told is None:
        return ""
    if isinstance(told, str | int):
        return _ACTIONS.get(told, "")
    raise item.wrong("is neither a name nor a number", "recommendedAction")


def _cause(item: Item, check: str) -> tuple[str, str, bool]:
    """Return cause and component, for Xid checks from the code; and whether more codes follow."""
    codes = item.get("errorCode")
    listed = codes if isinstance(codes, list) else [codes] if codes else []
    first = str(listed[0]) if listed else ""
    match = _XID.fullmatch(first.strip())
    if match and ("xid" in check.lower() or "xid" in first.lower()):
        code = xid_code(int(match[1]))
        return code.cause, code.component, len(listed) > 1
    text = f"{check} {first}".lower()
    component = item.text("componentClass").lower() or "host"
    return _WORDS.sub("_", text).strip("_"), component, len(listed) > 1
