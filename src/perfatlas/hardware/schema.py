"""Fields of a hardware spec: dotted path, dimension and plausible range."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from perfatlas.files import Number, Text
from perfatlas.hardware import device_fields, kinds
from perfatlas.hardware.paths import PEER_ACCESS, TopologyText
from perfatlas.quantities import InvalidSpecError, did_you_mean, repr_for_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.files import Entry

DEFAULT_KIND: Final = "gpu"  # of a device that states none
SWITCH_OPTICS: Final = ("none", "pluggable", "co_packaged")
FABRIC_KINDS: Final = ("infiniband", "ethernet", "ici", "c2c")
RAILS: Final = "rail_optimized_fat_tree"  # NIC r of every node is on leaf switch r of its leaf
DRAGONFLIES: Final = ("dragonfly", "dragonfly_plus")  # whose pods are groups, linked all to all
TOPOLOGIES: Final = (RAILS, "fat_tree", *DRAGONFLIES)
# Fields of nodes and fabrics.
NODE_FIELDS: Final[Mapping[str, device_fields.SpecField]] = {
    "node": device_fields.text(
        "name of a node of the catalog; instead of a name, set the fields of the table node",
        read_by=device_fields.BETWEEN,
    ),
    "node.devices": device_fields.count("devices of a node", *device_fields.BETWEEN),
    "node.nics": device_fields.count(
        "NICs of a node in the network between nodes", *device_fields.BETWEEN
    ),
    "node.nic_bandwidth": device_fields.rate(
        "bandwidth of one NIC, per direction", *device_fields.BETWEEN
    ),
    "node.topology": device_fields.SpecField(
        TopologyText(),
        required=False,
        read_by=device_fields.COLLECTIVES,
        meaning="board of the catalog, or output of nvidia-smi topo -m",
    ),
    "node.peer_access": device_fields.text(
        "whether devices access each other's memory over PCIe",
        *PEER_ACCESS,
        required=False,
        read_by=device_fields.COLLECTIVES,
    ),
    "node.switch_optics": device_fields.text(
        "optics of the switches between nodes, whose power counts with a node; none if left out",
        *SWITCH_OPTICS,
        required=False,
        read_by=device_fields.NODE_POWER,
    ),
    "fabric": device_fields.text(
        "name of a fabric of the catalog; instead of a name, set the fields of its table",
        read_by=device_fields.BETWEEN,
    ),
    "fabric.kind": device_fields.text("kind of network between nodes", *FABRIC_KINDS),
    "fabric.topology": device_fields.text(
        "topology between nodes", *TOPOLOGIES, read_by=device_fields.BETWEEN
    ),
    "fabric.radix": device_fields.optional(
        device_fields.number(
            "ports of a switch at the rate of a NIC; nodes of a leaf follow unless they are set",
            ("whole", ""),
            (2, 1e6),
            *device_fields.BETWEEN,
        )
    ),
    "fabric.latency": device_fields.latency(
        "latency of one message between NICs", *device_fields.BETWEEN, into="latency_s"
    ),
    "fabric.oversubscription": device_fields.ratio(
        "bandwidth of leaf ports relative to their uplinks", (0.01, 1e3), *device_fields.BETWEEN
    ),
    "fabric.leaf_nodes": device_fields.count(
        "nodes of one leaf switch, or of one set of rail leaves", *device_fields.BETWEEN
    ),
    "fabric.pod_nodes": device_fields.optional(
        device_fields.count(
            "nodes of one pod of leaves and spines, or of one group of a dragonfly",
            *device_fields.BETWEEN,
        )
    ),
    "fabric.pod_oversubscription": device_fields.optional(
        device_fields.ratio(
            "bandwidth of the NICs of a pod relative to its links to other pods",
            (0.01, 1e3),
            *device_fields.BETWEEN,
        )
    ),
    "fabric.pods": device_fields.optional(
        device_fields.count("pods of the machine, or groups of a dragonfly", *device_fields.FLOWS)
    ),
    "fabric.planes": device_fields.optional(
        device_fields.number(
            "separate networks, each with a port of every NIC, such as 2 of a dual-plane fabric",
            ("whole", ""),
            (1, 64),
            *device_fields.FLOWS,
        )
    ),
    "fabric.switch_latency": device_fields.optional(
        device_fields.latency(
            "latency of one more switch, of which a message passes two for each tier above leaves",
            *device_fields.BETWEEN,
            into="switch_latency_s",
        )
    ),
    "fabric.in_network_reduction": device_fields.flag(
        "whether switches between nodes reduce", *device_fields.BETWEEN
    ),
}
KINDS: Final[dict[str, device_fields.DeviceKind]] = {}
FIELDS: Final[dict[str, device_fields.SpecField]] = {}  # of all kinds


def register_kind(kind: device_fields.DeviceKind) -> None:
    """Register a kind of machine whose schema is not a module of `kinds`.

    Raises:
        InvalidSpecError: Its name is taken, or another kind reads one of its fields differently.
    """
    if kind.name in KINDS:
        raise InvalidSpecError(f"device kind {kind.name} already exists; rename it")
    merged = {
        path: _merged(FIELDS.get(path, added), added, path) for path, added in kind.fields.items()
    }
    KINDS[kind.name] = kind
    fields = {path: field for path, field in FIELDS.items() if path not in NODE_FIELDS}
    FIELDS.clear()
    FIELDS.update({**fields, **merged, **NODE_FIELDS})


def _merged(
    current: device_fields.SpecField, added: device_fields.SpecField, path: str
) -> device_fields.SpecField:
    """Return a field that several kinds have; choices are those of all of them."""
    reader, other = current.reader, added.reader
    if isinstance(reader, Text) and isinstance(other, Text):
        choices = tuple(dict.fromkeys((*reader.choices, *other.choices)))
        return replace(current, reader=replace(reader, choices=choices))
    if (reader, current.into) != (other, added.into):
        raise InvalidSpecError(f"{path} has another unit, range or attribute in another kind")
    return current


def kind_of(entries: Mapping[str, Entry], origin: str) -> device_fields.DeviceKind:
    """Return the kind of the device of a spec."""
    name = str(entries["device.kind"].value) if "device.kind" in entries else DEFAULT_KIND
    if name not in KINDS:
        raise InvalidSpecError(
            f"{origin}: device.kind = {repr_for_error(name)} is not one of {', '.join(KINDS)}"
            f"{did_you_mean(name, KINDS)}"
        )
    return KINDS[name]


def fields_of(kind: device_fields.DeviceKind) -> dict[str, device_fields.SpecField]:
    """Return the fields of systems of a kind by path, in the order in which they are shown."""
    return {**kind.fields, **NODE_FIELDS}


def is_section(path: str) -> bool:
    """Return whether a path is a table of fields."""
    return any(field.startswith(f"{path}.") for field in FIELDS)


def attributes_of(section: str, kind: device_fields.DeviceKind) -> dict[str, str]:
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
