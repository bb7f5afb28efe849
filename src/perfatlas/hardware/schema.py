"""Fields of a hardware spec: dotted path, dimension and plausible range."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from perfatlas.files import Number, Text
from perfatlas.hardware import kinds
from perfatlas.hardware.device_fields import (
    BETWEEN,
    COLLECTIVES,
    DeviceKind,
    SpecField,
    count,
    flag,
    latency,
    rate,
    ratio,
    text,
)
from perfatlas.hardware.paths import PEER_ACCESS, TopologyText
from perfatlas.quantities import InvalidSpecError, did_you_mean, repr_for_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.files import Entry

DEFAULT_KIND: Final = "gpu"  # of a device that states none
FABRIC_KINDS: Final = ("infiniband", "ethernet", "ici", "c2c")
TOPOLOGIES: Final = ("rail_optimized_fat_tree", "fat_tree", "torus", "dragonfly", "none")
# Fields of nodes and fabrics.
NODE_FIELDS: Final[Mapping[str, SpecField]] = {
    "node": text(
        "name of a node of the catalog; instead of a name, set the fields of the table node",
        read_by=BETWEEN,
    ),
    "node.devices": count("devices of a node", *BETWEEN),
    "node.nics": count("NICs of a node in the network between nodes", *BETWEEN),
    "node.nic_bandwidth": rate("bandwidth of one NIC, per direction", *BETWEEN),
    "node.topology": SpecField(
        TopologyText(),
        required=False,
        read_by=COLLECTIVES,
        meaning="board of the catalog, or output of nvidia-smi topo -m",
    ),
    "node.peer_access": text(
        "whether devices access each other's memory over PCIe",
        *PEER_ACCESS,
        required=False,
        read_by=COLLECTIVES,
    ),
    "fabric": text(
        "name of a fabric of the catalog; instead of a name, set the fields of its table",
        read_by=BETWEEN,
    ),
    "fabric.kind": text("kind of network between nodes", *FABRIC_KINDS),
    "fabric.topology": text("topology between nodes", *TOPOLOGIES),
    "fabric.latency": latency("latency of one message between NICs", *BETWEEN, into="latency_s"),
    "fabric.oversubscription": ratio(
        "bandwidth of leaf ports relative to their uplinks", (0.01, 1e3), *BETWEEN
    ),
    "fabric.leaf_nodes": count("nodes of one leaf switch", *BETWEEN),
    "fabric.in_network_reduction": flag("whether switches between nodes reduce", *BETWEEN),
}
KINDS: Final[dict[str, DeviceKind]] = {}
FIELDS: Final[dict[str, SpecField]] = {}  # of all kinds


def register_kind(kind: DeviceKind) -> None:
    """Register a kind of machine whose schema is not a module of `kinds`.

    Raises:
        InvalidSpecError: Its name is taken, or another kind reads one of its fields differently.
    """
    if kind.name in KINDS:
        raise InvalidSpecError(f"device kind {kind.name} already exists; rename it")
    merged = {path: _merged(FIELDS.get(path, own), own, path) for path, own in kind.fields.items()}
    KINDS[kind.name] = kind
    known = {path: field for path, field in FIELDS.items() if path not in NODE_FIELDS}
    FIELDS.clear()
    FIELDS.update({**known, **merged, **NODE_FIELDS})


def _merged(known: SpecField, own: SpecField, path: str) -> SpecField:
    """Return a field that several kinds have; choices are those of all of them."""
    reader, other = known.reader, own.reader
    if isinstance(reader, Text) and isinstance(other, Text):
        choices = tuple(dict.fromkeys((*reader.choices, *other.choices)))
        return replace(known, reader=replace(reader, choices=choices))
    if (reader, known.into) != (other, own.into):
        raise InvalidSpecError(f"{path} has another unit, range or attribute in another kind")
    return known


def kind_of(entries: Mapping[str, Entry], origin: str) -> DeviceKind:
    """Return the kind of the device of a spec.

    Args:
        origin: The file, for messages.

    Raises:
        InvalidSpecError: There is no such kind.
    """
    name = str(entries["device.kind"].value) if "device.kind" in entries else DEFAULT_KIND
    if name not in KINDS:
        raise InvalidSpecError(
            f"{origin}: device.kind = {repr_for_error(name)} is not one of {', '.join(KINDS)}"
            f"{did_you_mean(name, KINDS)}"
        )
    return KINDS[name]


def fields_of(kind: DeviceKind) -> dict[str, SpecField]:
    """Return the fields of systems of a kind by path, in the order in which they are shown."""
    return {**kind.fields, **NODE_FIELDS}


def is_section(path: str) -> bool:
    """Return whether a path is a table of fields."""
    return any(known.startswith(f"{path}.") for known in FIELDS)


def attributes_of(section: str, kind: DeviceKind) -> dict[str, str]:
    """Return the paths of the fields of a section, by attribute.

    Peaks, which are a mapping, and nested sections are omitted.

    Args:
        section: device, device.scale_up, node or fabric.

    Example:
        >>> from perfatlas.hardware.schema import KINDS, attributes_of
        >>> attributes_of("device", KINDS["gpu"])["tdp_w"]
        'device.tdp'
    """
    inside = ("device.peak.", "device.scale_up.") if section == "device" else ()
    return {
        field.into or path.rpartition(".")[2]: path
        for path, field in fields_of(kind).items()
        if path.startswith(f"{section}.") and not path.startswith(inside)
    }


def unit_of(path: str) -> str:
    """Return the SI unit of a field, "" for counts and text.

    Args:
        path: A key of `FIELDS`.
    """
    reader = FIELDS[path].reader
    return reader.unit if isinstance(reader, Number) else ""


for _module in pkgutil.iter_modules(kinds.__path__):
    register_kind(importlib.import_module(f"{kinds.__name__}.{_module.name}").KIND)
