"""Fields of a hardware spec: dotted path, dimension and plausible range."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from perfatlas.files import Field, Flag, Number, Text, Value
from perfatlas.hardware.paths import PEER_ACCESS, TopologyText

FORMATS: Final = ("bf16", "fp16", "tf32", "fp32", "fp64", "fp8", "fp4", "int8")
# Formats computed by the matrix units; their dense peaks scale with the units' width.
MATRIX_FORMATS: Final = ("bf16", "fp16", "tf32", "fp8", "fp4", "int8")
ARCHITECTURES: Final = (
    "volta",
    "turing",
    "ampere",
    "ada",
    "hopper",
    "blackwell",
    "blackwell_workstation",
    "cdna3",
    "cdna4",
    "tpu",
    "cpu",
    "other",
)
LINK_KINDS: Final = ("nvlink", "nvlink_mesh", "pcie", "infinity_fabric", "ici", "upi")
FABRIC_KINDS: Final = ("infiniband", "ethernet", "ici")
TOPOLOGIES: Final = ("rail_optimized_fat_tree", "fat_tree", "torus", "none")


# Consumers of a field.
OPERATORS: Final = ("matrix products", "attention", "experts")
KERNELS: Final = (*OPERATORS, "elementwise operators")
INSIDE: Final = ("collectives inside a scale-up domain",)
BETWEEN: Final = ("collectives between nodes",)
COLLECTIVES: Final = (*INSIDE, *BETWEEN)
MEMORY: Final = ("KV cache capacity",)
OFFLOADING: Final = ("KV cache offloading",)
RULES: Final = ("rules of engines",)
POWER: Final = ("power and energy",)


@dataclass(frozen=True)
class SpecField(Field[Value]):
    """A field of a spec; `into` is its attribute, by default the last part of the path.

    Args:
        read_by: What may use its value; empty for descriptive fields.
        default: Value [SI] of a device that does not state it; None for none.
    """

    read_by: tuple[str, ...] = ()
    default: float | None = None


def _text(*choices: str, required: bool = True, read_by: tuple[str, ...] = ()) -> SpecField:
    return SpecField(Text(choices=choices), required=required, read_by=read_by)


def _number(
    dimension: str,
    unit: str,
    bounds: tuple[float, float],
    *read_by: str,
    into: str = "",
    default: float | None = None,
) -> SpecField:
    whole = dimension == "whole"
    reader = Number(
        dimension="count" if whole else dimension,
        unit=unit,
        least=bounds[0],
        most=bounds[1],
        whole=whole,
    )
    required = default is None
    return SpecField(reader, required=required, read_by=read_by, into=into, default=default)


def _optional(field: SpecField) -> SpecField:
    return replace(field, required=False)


def _count(*read_by: str) -> SpecField:
    return _number("whole", "", (1, 1e9), *read_by)


def _bytes(*read_by: str, into: str = "", default: float | None = None) -> SpecField:
    return _number("bytes", "B", (1e3, 1e16), *read_by, into=into, default=default)


def _rate(*read_by: str, into: str = "", default: float | None = None) -> SpecField:
    return _number("bytes_per_s", "B/s", (1e6, 1e18), *read_by, into=into, default=default)


def _peak(*read_by: str) -> SpecField:
    return _optional(_number("flop_per_s", "FLOP/s", (1e8, 1e20), *read_by))


def _clock(*read_by: str, into: str = "", default: float | None = None) -> SpecField:
    return _number("hz", "Hz", (1e6, 1e11), *read_by, into=into, default=default)


def _latency(*read_by: str, into: str = "", default: float | None = None) -> SpecField:
    return _number("s", "s", (0.0, 1.0), *read_by, into=into, default=default)


def _power(*read_by: str, into: str = "", default: float | None = None) -> SpecField:
    return _number("w", "W", (0.01, 1e6), *read_by, into=into, default=default)


def _flag(*read_by: str) -> SpecField:
    return SpecField(Flag(), required=True, read_by=read_by)


# Ranges are wide: they catch a missing unit ("6" for 6 TB/s), not an unusual chip.
FIELDS: Final[dict[str, SpecField]] = {
    "device.vendor": _text(),
    "device.architecture": _text(*ARCHITECTURES, read_by=(*RULES, *POWER)),
    "device.calibration_relative": _text(required=False, read_by=(*KERNELS, *COLLECTIVES, *POWER)),
    "device.year": _number("whole", "", (1990, 2100)),
    "device.peak.bf16": _peak(*OPERATORS),
    "device.peak.fp16": _peak("fp16 operators"),
    "device.peak.tf32": _peak(),
    "device.peak.fp32": _peak(),
    "device.peak.fp64": _peak(),
    "device.peak.fp8": _peak("fp8 operators"),
    "device.peak.fp4": _peak("fp4 operators"),
    "device.peak.int8": _peak("int8 operators"),
    "device.sm_count": _count(*OPERATORS, *POWER),
    "device.packages": _count(),
    "device.dies": _count(),
    "device.flop_per_clock_per_sm": _optional(_number("count", "", (0.001, 1e9), *OPERATORS)),
    "device.clock.peak": _clock(*KERNELS, *POWER, into="peak_clock_hz"),
    "device.clock.boost": _clock(*POWER, into="boost_clock_hz"),
    "device.clock.sustained": _clock(*KERNELS, into="sustained_clock_hz"),
    "device.exponentials_per_sm_clock": _number("count", "", (0.001, 1e6), "attention"),
    "device.l2": _bytes("elementwise operators", into="l2_bytes"),
    "device.shared_memory": _bytes(into="shared_memory_bytes"),
    "device.memory.capacity": _bytes(*MEMORY, into="memory_bytes"),
    "device.memory.bandwidth": _rate(*KERNELS, into="memory_bandwidth"),
    "device.scale_up.domain_size": _count(*BETWEEN),
    "device.scale_up.links": _number("whole", "", (0, 1e6)),
    "device.scale_up.bandwidth": _rate(*COLLECTIVES),
    "device.scale_up.latency": _latency(into="latency_s"),
    "device.scale_up.in_network_reduction": _flag(*COLLECTIVES),
    "device.scale_up.kind": _text(*LINK_KINDS, read_by=(*COLLECTIVES, *POWER)),
    "device.host_link.bandwidth": _rate(*OFFLOADING, into="host_link_bandwidth"),
    "device.overhead_ratio": _number("count", "", (1e-6, 1e6), *KERNELS, *COLLECTIVES, default=1.0),
    "device.tdp": _power(*KERNELS, *POWER, into="tdp_w"),
    "device.idle": _power(*POWER, into="idle_w"),
    "node": _text(read_by=BETWEEN),
    "node.devices": _count(*BETWEEN),
    "node.nics": _count(*BETWEEN),
    "node.nic_bandwidth": _rate(*BETWEEN),
    "node.topology": SpecField(TopologyText(), required=False, read_by=COLLECTIVES),
    "node.peer_access": _text(*PEER_ACCESS, required=False, read_by=COLLECTIVES),
    "fabric": _text(read_by=BETWEEN),
    "fabric.kind": _text(*FABRIC_KINDS),
    "fabric.topology": _text(*TOPOLOGIES),
    "fabric.latency": _latency(*BETWEEN, into="latency_s"),
    "fabric.oversubscription": _number("count", "", (0.01, 1e3), *BETWEEN),
    "fabric.leaf_nodes": _count(*BETWEEN),
    "fabric.in_network_reduction": _flag(*BETWEEN),
}
SECTIONS: Final = frozenset(
    path.rsplit(".", depth)[0] for path in FIELDS for depth in range(1, path.count(".") + 1)
)


def attributes_of(section: str) -> dict[str, str]:
    """Return the paths of the fields of a section, by attribute.

    Peaks, which are a mapping, and nested sections are omitted.

    Args:
        section: device, device.scale_up, node or fabric.

    Example:
        >>> from perfatlas.hardware.schema import attributes_of
        >>> attributes_of("device")["tdp_w"]
        'device.tdp'
    """
    inside = ("device.peak.", "device.scale_up.") if section == "device" else ()
    return {
        field.into or path.rpartition(".")[2]: path
        for path, field in FIELDS.items()
        if path.startswith(f"{section}.") and not path.startswith(inside)
    }


def unit_of(path: str) -> str:
    """Return the SI unit of a field, "" for counts and text.

    Args:
        path: A key of `FIELDS`.
    """
    reader = FIELDS[path].reader
    return reader.unit if isinstance(reader, Number) else ""
