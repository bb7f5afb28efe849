"""User overrides of spec fields, and the values derived from them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from perfatlas.files import Entry
from perfatlas.hardware.device_fields import FORMATS, MATRIX_FORMATS, DeviceKind
from perfatlas.hardware.schema import FIELDS, RAILS, kind_of
from perfatlas.hardware.spec import Spec, catalog_group, unknown_field
from perfatlas.quantities import InvalidSpecError, Source, repr_for_error

if TYPE_CHECKING:
    from collections.abc import Mapping

OVERRIDE: Final = Source(kind="assumed", ref="user override")
MAX_TEXT_LENGTH: Final = 8192  # characters of a system with its overrides
LEAF: Final = "fabric.leaf_nodes"
LEAF_FOLLOWS: Final = ("fabric.radix", "fabric.topology")  # unless it is set
_SHAPE: Final = "name{field=value, field=value}"


def split_overrides(text: str) -> tuple[str, dict[str, Entry]]:
    """Return the name before the braces and the overrides inside them.

    Example:
        >>> from perfatlas.hardware.changes import split_overrides
        >>> name, changes = split_overrides("h200_sxm{device.tdp=500W}")
        >>> name, changes["device.tdp"].value
        ('h200_sxm', 500.0)
    """
    head, brace, tail = text.partition("{")
    body = tail.rstrip().removesuffix("}")
    if "}" in head or "{" in body or "}" in body or (brace and not tail.rstrip().endswith("}")):
        raise InvalidSpecError(f"system {repr_for_error(text)}: overrides are written {_SHAPE}")
    if len(text) > MAX_TEXT_LENGTH:
        raise InvalidSpecError(
            f"system {repr_for_error(text)} is longer than {MAX_TEXT_LENGTH} characters"
        )
    changes: dict[str, Entry] = {}
    for part in filter(str.strip, body.split(",")):
        key, equals, value = part.partition("=")
        path = key.strip()
        if not equals:
            raise InvalidSpecError(
                f"system {repr_for_error(text)}: {repr_for_error(part.strip())} is not field=value"
            )
        if path not in FIELDS:
            raise unknown_field(path, f"system {repr_for_error(text)}")
        if path in changes:
            raise InvalidSpecError(f"system {repr_for_error(text)}: {path} is set twice")
        changes[path] = Entry(FIELDS[path].reader.read(value.strip(), path), OVERRIDE)
    return head.strip(), changes


def number(entries: Mapping[str, Entry], path: str) -> float:
    """Return a numeric entry [SI]."""
    return float(entries[path].value)


def _ratio(path: str, old: Mapping[str, Entry], new: Mapping[str, Entry]) -> float:
    if path not in old or path not in new:
        return 1.0
    return number(new, path) / number(old, path)


def _scaled(entry: Entry, ratio: float, why: str) -> Entry:
    source = Source(kind="derived", ref=entry.source.ref, note=f"x {ratio:.6g}: {why}")
    return Entry(float(entry.value) * ratio, source, entry.reason)


def _rescale(
    kind: DeviceKind, old: Mapping[str, Entry], new: dict[str, Entry], changed: frozenset[str]
) -> None:
    """Keep peak = units x clock x FLOP per clock and unit, and bandwidth = links x rate of a link.

    What the user set is not changed.

    Units, tensor clock and FLOP per clock scale the peaks that the user did not set. Changing only
    a peak changes the FLOP per clock. The tensor clock scales the boost and sustained clocks.
    """
    links, bandwidth = "device.scale_up.links", "device.scale_up.bandwidth"
    linked = links in old and number(old, links) > 0.0 and bandwidth in new
    if linked and bandwidth not in changed and _ratio(links, old, new) != 1.0:
        new[bandwidth] = _scaled(new[bandwidth], _ratio(links, old, new), f"{links} changed")
    clock = _ratio("device.clock.peak", old, new)
    for path in ("device.clock.boost", "device.clock.sustained"):
        if clock != 1.0 and path not in changed and path in new:
            new[path] = _scaled(new[path], clock, "device.clock.peak changed")
    every = clock * _ratio(kind.count, old, new)
    matrix = every * _ratio(kind.width, old, new)
    for name in FORMATS:
        path = f"device.peak.{name}"
        ratio = matrix if name in MATRIX_FORMATS else every
        if ratio != 1.0 and path not in changed and path in new:
            why = f"peak = {kind.unit}s x clock x FLOP per clock and {kind.unit}"
            new[path] = _scaled(new[path], ratio, why)
    width = kind.width
    if "device.peak.bf16" in changed and width not in changed and width in new:
        ratio = _ratio("device.peak.bf16", old, new) / every
        if ratio != 1.0:
            new[width] = _scaled(new[width], ratio, "device.peak.bf16 changed")


def ports_of_leaf(entries: Mapping[str, Entry]) -> int:
    """Return the ports of one leaf switch that a node takes: one of each rail, or all its NICs."""
    rails = entries["fabric.topology"].value == RAILS
    return 1 if rails else int(number(entries, "node.nics"))


def leaf_of_radix(entries: Mapping[str, Entry]) -> Entry:
    """Return the nodes of a leaf switch whose ports are downlinks and uplinks."""
    radix, ratio = number(entries, "fabric.radix"), number(entries, "fabric.oversubscription")
    downlinks = math.floor(radix * ratio / (1.0 + ratio))
    why = f"{downlinks} downlinks of {radix:g} ports, {ports_of_leaf(entries)} of each node"
    source = Source(kind="derived", ref=entries["fabric.radix"].source.ref, note=why)
    return Entry(max(downlinks // ports_of_leaf(entries), 1), source)


def apply_changes(spec: Spec, changes: Mapping[str, Entry], name: str = "") -> Spec:
    """Return a spec with some fields changed, and the derived fields updated.

    Args:
        changes: New entries by path. "node" and "fabric" replace the whole node or fabric.
    """
    new = dict(spec.entries)
    for section in ("node", "fabric"):
        if section in changes:
            new = {path: entry for path, entry in new.items() if not path.startswith(f"{section}.")}
            new |= catalog_group(section, str(changes[section].value), spec.origin)
            new[section] = changes[section]
    new |= changes
    changed = frozenset(changes)
    _rescale(kind_of(new, spec.origin), spec.entries, new, changed)
    if "fabric.radix" in new and LEAF not in changed and not changed.isdisjoint(LEAF_FOLLOWS):
        new[LEAF] = leaf_of_radix(new)
    return replace(
        spec,
        name=name or spec.name,
        entries=new,
        changed=spec.changed | changed,
        unchanged=spec.unchanged or spec.entries,
    )
