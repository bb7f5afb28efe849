"""Resolution of a system: catalog name or TOML path, with overrides."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import Entry, Number
from perfatlas.hardware import catalog
from perfatlas.hardware.catalog import RELATIVE, catalog_spec
from perfatlas.hardware.changes import LEAF, apply_changes, leaf_of_radix, number, split_overrides
from perfatlas.hardware.checks import check_spec, peaks
from perfatlas.hardware.device import Device, Fabric, Node, ScaleUp, System
from perfatlas.hardware.paths import read_topology
from perfatlas.hardware.schema import FIELDS, attributes_of, fields_of, kind_of
from perfatlas.hardware.slices import find_slice
from perfatlas.hardware.spec import Spec, file_spec
from perfatlas.quantities import InvalidSpecError, Source, format_quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

DIE_TO_DIE: Final = "device.die_to_die.bandwidth"


def alternatives(device: Device) -> dict[str, float]:
    """Return the memory of other catalog accelerators of its kind by name [bytes], nearest first.

    Devices of the same vendor come first, then the others, each in order of memory. CPUs and what
    is only announced are not listed.

    Example:
        >>> from perfatlas.hardware import alternatives
        >>> from perfatlas.hardware import resolve_system
        >>> "mi355x" in alternatives(resolve_system("mi300x").device)
        True
    """
    others = [resolve_system(name).device for name in system_names()]
    others = [other for other in others if other.sources["device.year"].kind != "announced"]
    others = [other for other in others if other.kind == device.kind and other.name != device.name]
    others = [other for other in others if "cpu" not in (other.architecture, other.name)]
    others.sort(key=lambda o: (o.vendor != device.vendor, o.memory_bytes, o.name))
    return {other.name: other.memory_bytes for other in others}


def system_names() -> list[str]:
    """Return the names of all systems of the catalog, sorted.

    Example:
        >>> from perfatlas.hardware import system_names
        >>> "h200_sxm" in system_names()
        True
    """
    return list(catalog.system_names())


def _with_defaults(spec: Spec) -> Spec:
    """Return the spec with omitted fields derived from the others."""
    entries = dict(spec.entries)
    for section in ("node", "fabric"):
        if any(path.startswith(f"{section}.") for path in entries):
            spelled = Source(kind="assumed", ref=spec.origin, note="defined inline, without a name")
            entries.setdefault(section, Entry("custom", spelled))
    unstated = Source(kind="assumed", ref=spec.origin, note="no calibration_relative is set")
    entries.setdefault(RELATIVE, Entry("", unstated))
    kind = kind_of(entries, spec.origin)
    for path, field in fields_of(kind).items():
        if field.default is not None and path not in entries:
            why = f"assumed: the default, as {spec.origin} does not state it"
            omitted = Source(kind="assumed", ref=why)
            entries[path] = Entry(field.default, omitted)
    sized = ("fabric.radix", "fabric.topology", "fabric.oversubscription", "node.nics")
    if LEAF not in entries and all(path in entries for path in sized):
        entries[LEAF] = leaf_of_radix(entries)
    width, parts = kind.width, (kind.count, "device.clock.peak")
    peak = "device.peak.bf16" if "device.peak.bf16" in entries else "device.peak.fp16"
    if width not in entries and peak in entries and all(part in entries for part in parts):
        value = number(entries, peak) / (number(entries, parts[0]) * number(entries, parts[1]))
        source = Source(
            kind="derived", ref=spec.origin, note=f"{peak} / ({kind.unit}s x clock.peak)"
        )
        entries[width] = Entry(value, source)
    return replace(spec, entries=entries)


def _user_spec(path: str) -> Spec:
    """Return the spec of a user's file: complete, or changes to a catalog system."""
    spec, base_name = file_spec(path)
    if base_name is None:
        return _with_defaults(spec)
    base = _with_defaults(catalog_spec(base_name))
    changes = dict(spec.entries)
    if RELATIVE not in changes and not base.entries[RELATIVE].value:
        source = Source(kind="assumed", ref=path, note=f"based on {base.name}")
        changes[RELATIVE] = Entry(base.name, source)
    merged = apply_changes(replace(base, origin=path), changes, spec.name)
    notes = (*base.notes, f"{spec.name} is {base.name} with changes from {path}", *spec.notes)
    return replace(merged, notes=notes, changed=merged.changed - {RELATIVE})


def _looks_like_path(text: str) -> bool:
    return text.endswith(".toml") or "/" in text or "\\" in text


def _attributes(entries: Mapping[str, Entry], section: str) -> dict[str, Any]:
    """Return the stated fields of a section as attributes; counts become `int`."""
    attributes: dict[str, Any] = {}
    for name, path in attributes_of(section, kind_of(entries, section)).items():
        if path not in entries:  # an optional field with a default in `device`
            continue
        value = entries[path].value
        attributes[name] = int(value) if _is_whole(path) else value
    return attributes


def _is_whole(path: str) -> bool:
    reader = FIELDS[path].reader
    return isinstance(reader, Number) and reader.whole


def _device(spec: Spec) -> Device:
    stated = _attributes(spec.entries, "device")
    stated["memory_bandwidth"] = min(stated["memory_bandwidth"], _read_between_dies(spec.entries))
    further = {name: stated.pop(name) for name in stated.keys() - Device.__dataclass_fields__}
    return Device(
        name=spec.name,
        **stated,
        further=further,
        calibrated_tdp_w=float((spec.unchanged or spec.entries)["device.tdp"].value),
        peak_flop_per_s=peaks(spec.entries),
        scale_up=ScaleUp(**_attributes(spec.entries, "device.scale_up")),
        sources=_sources(spec.entries, "device."),
        overridden=tuple(sorted(path for path in spec.changed if path.startswith("device."))),
    )


def _read_between_dies(entries: Mapping[str, Entry]) -> float:
    """Return the bandwidth of memory that the links between dies allow [bytes/s].

    Memory is spread evenly over the dies, and each reads all of it: of its share of the traffic,
    1/dies, a part of (dies - 1)/dies comes over its links.
    """
    if DIE_TO_DIE not in entries:
        return math.inf
    dies, link = int(number(entries, "device.dies")), number(entries, DIE_TO_DIE)
    return link * dies**2 / (dies - 1) if dies > 1 and link else math.inf


def _between_dies_note(spec: Spec) -> tuple[str, ...]:
    """Return that the links between dies limit the memory, if they do."""
    stated = number(spec.entries, "device.memory.bandwidth")
    allowed = _read_between_dies(spec.entries)
    if allowed >= stated:
        return ()
    note = (
        f"{DIE_TO_DIE} limits memory to {format_quantity(allowed, 'B/s')} of"
        f" {format_quantity(stated, 'B/s')}: each die reads all memory evenly, that of other dies"
        " over its links"
    )
    return (note,)


def _node(spec: Spec) -> Node:
    """Return the node with the paths between its GPUs."""
    stated = _attributes(spec.entries, "node")
    paths = read_topology(str(stated.get("topology", "")))
    domain = int(number(spec.entries, "device.scale_up.domain_size"))
    if paths and len(paths) < domain:
        raise InvalidSpecError(
            f"{spec.origin}: node.topology has {len(paths)} GPUs, and device.scale_up.domain_size ="
            f" {domain}; set device.scale_up.domain_size and node.devices to {len(paths)} too"
        )
    return Node(name=str(spec.entries["node"].value), **stated, paths=paths)


def _sources(entries: Mapping[str, Entry], prefix: str) -> dict[str, Source]:
    """Return the sources of stated values by path; empty text is not a value."""
    return {
        path: entry.source
        for path, entry in entries.items()
        if path.startswith(prefix) and entry.value != ""
    }


def _system(spec: Spec, name: str) -> System:
    check_spec(spec)
    entries = spec.entries
    node = _node(spec)
    fabric = Fabric(name=str(entries["fabric"].value), **_attributes(entries, "fabric"))
    return System(
        name=name,
        device=_device(spec),
        node=node,
        fabric=fabric,
        sources=_sources(entries, ""),
        notes=(*spec.notes, *_between_dies_note(spec)),
        overridden=tuple(sorted(spec.changed)),
        ranges={path: entry.ends for path, entry in entries.items() if entry.ends},
    )


@cache
def _catalog_system(name: str) -> System:
    spec, pod_slice = catalog_spec(name), find_slice(name)
    return _system(_with_defaults(spec), pod_slice.name if pod_slice else spec.name)


@lru_cache(maxsize=4096)  # a block of a sweep, with and without its changes
def _changed_system(text: str) -> System:
    name, changes = split_overrides(text)
    base = _with_defaults(catalog_spec(name))
    return _system(apply_changes(replace(base, origin=text), changes), text)


@lru_cache(maxsize=64)
def _path_system(text: str, stamp: tuple[int, int]) -> System:
    """Return the system of a user's file; `stamp` is its modification time and size."""
    del stamp  # only part of the cache's key
    path, changes = split_overrides(text)
    return _system(apply_changes(_user_spec(path), changes), text)


def _stamp(path: str) -> tuple[int, int]:
    try:
        status = Path(path).stat()
    except (OSError, ValueError):
        return (0, 0)
    return (status.st_mtime_ns, status.st_size)


def resolve_system(text: str) -> System:
    """Return the system that a user names, checked for physical consistency.

    Args:
        text: A catalog name or a unique prefix ("h200_sxm" or "H200"), a slice of a TPU pod
            ("v5p-128", "v5e-4x4"), or the path of a TOML spec (complete, or with
            `base = "h200_sxm"` and changes), optionally followed by overrides in braces:
            "h200_sxm{device.memory.bandwidth=6TB/s, device.tdp=500W}".
            Override paths are those of the TOML. Changing SMs, tensor clock or FLOP per clock
            scales the peaks that are not set; changing only a peak changes FLOP per clock and SM.

    Raises:
        InvalidSpecError: Unknown name or field, unreadable file, invalid or inconsistent value.

    Example:
        >>> from perfatlas.hardware import resolve_system
        >>> resolve_system("h200_sxm{device.memory.bandwidth=6TB/s}").device.memory_bandwidth
        6000000000000.0
    """
    stripped = text.strip()
    if "{" not in stripped and not _looks_like_path(stripped):
        return _catalog_system(stripped)
    path = stripped.partition("{")[0].strip()
    if "node.topology" in stripped:  # it may name a file, which may change
        _changed_system.cache_clear()
    if not _looks_like_path(path):
        return _changed_system(stripped)
    return _path_system(stripped, _stamp(path))


def names_file(text: str) -> bool:
    """Return whether a file is opened for the name of a system: its spec, or its topology.

    Args:
        text: As of `resolve_system`.

    Example:
        >>> from perfatlas.hardware import names_file
        >>> names_file("h200_sxm{device.memory.bandwidth=6TB/s}"), names_file("chips/new.toml")
        (False, True)
    """
    return "node.topology" in text or _looks_like_path(text.partition("{")[0].strip())


def with_values(system: System, values: Mapping[str, float]) -> System:
    """Return a system with other values of some numeric fields, as overrides of its name set them.

    Args:
        values: New values by field [SI]; counts are rounded.

    Raises:
        InvalidSpecError: A value is invalid or contradicts other fields.

    Example:
        >>> from perfatlas.hardware import resolve_system, with_values
        >>> with_values(resolve_system("h200_sxm"), {"device.tdp": 500.0}).name
        'h200_sxm{device.tdp=500.0}'
    """
    head, _, tail = system.name.partition("{")
    parts = [part.strip() for part in tail.rstrip().removesuffix("}").split(",")]
    changes = [part for part in parts if part and part.partition("=")[0].strip() not in values]
    for path, value in values.items():
        changes.append(f"{path}={round(value) if _is_whole(path) else float(value)!r}")
    return resolve_system(f"{head.strip()}{{{', '.join(changes)}}}" if changes else head.strip())
