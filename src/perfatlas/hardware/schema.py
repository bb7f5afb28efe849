"""The fields of a hardware spec: dotted path, dimension and plausible range of each."""

from __future__ import annotations

from typing import Final

from perfatlas.files import Field, Flag, Number, Text, Value

FORMATS: Final = ("bf16", "fp16", "tf32", "fp32", "fp64", "fp8", "fp4", "int8")
# Formats whose dense peak is made by the matrix units and scales with their width.
MATRIX_FORMATS: Final = ("bf16", "fp16", "tf32", "fp8", "fp4", "int8")
ARCHITECTURES: Final = (
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
LINK_KINDS: Final = ("nvlink", "pcie", "infinity_fabric", "ici", "upi")
FABRIC_KINDS: Final = ("infiniband", "ethernet", "ici")
TOPOLOGIES: Final = ("rail_optimized_fat_tree", "fat_tree", "torus", "none")


def _text(*choices: str, required: bool = True) -> Field[Value]:
    return Field(Text(choices=choices), required=required)


def _number(
    dimension: str, unit: str, least: float, most: float, *, required: bool = True
) -> Field[Value]:
    whole = dimension == "whole"
    reader = Number(
        dimension="count" if whole else dimension, unit=unit, least=least, most=most, whole=whole
    )
    return Field(reader, required=required)


# Ranges are wide: they catch a forgotten unit ("6" for 6 TB/s), not an unusual chip.
_COUNT: Final = _number("whole", "", 1, 1e9)
_BYTES: Final = _number("bytes", "B", 1e3, 1e16)
_RATE: Final = _number("bytes_per_s", "B/s", 1e6, 1e18)
_PEAK: Final = _number("flop_per_s", "FLOP/s", 1e8, 1e20, required=False)
_CLOCK: Final = _number("hz", "Hz", 1e6, 1e11)
_LATENCY: Final = _number("s", "s", 0.0, 1.0)
_POWER: Final = _number("w", "W", 0.01, 1e6)
_FLAG: Final[Field[Value]] = Field(Flag(), required=True)

FIELDS: Final[dict[str, Field[Value]]] = {
    "device.vendor": _text(),
    "device.architecture": _text(*ARCHITECTURES),
    "device.calibration_relative": _text(required=False),
    "device.year": _number("whole", "", 1990, 2100),
    **{f"device.peak.{name}": _PEAK for name in FORMATS},
    "device.sm_count": _COUNT,
    "device.packages": _COUNT,
    "device.dies": _COUNT,
    "device.flop_per_clock_per_sm": _number("count", "", 0.001, 1e9, required=False),
    "device.clock.peak": _CLOCK,
    "device.clock.boost": _CLOCK,
    "device.clock.sustained": _CLOCK,
    "device.exponentials_per_sm_clock": _number("count", "", 0.001, 1e6),
    "device.l2": _BYTES,
    "device.shared_memory": _BYTES,
    "device.memory.capacity": _BYTES,
    "device.memory.bandwidth": _RATE,
    "device.scale_up.domain_size": _COUNT,
    "device.scale_up.links": _number("whole", "", 0, 1e6),
    "device.scale_up.bandwidth": _RATE,
    "device.scale_up.latency": _LATENCY,
    "device.scale_up.in_network_reduction": _FLAG,
    "device.scale_up.kind": _text(*LINK_KINDS),
    "device.host_link.bandwidth": _RATE,
    "device.tdp": _POWER,
    "device.idle": _POWER,
    "node": _text(),
    "node.devices": _COUNT,
    "node.nics": _COUNT,
    "node.nic_bandwidth": _RATE,
    "fabric": _text(),
    "fabric.kind": _text(*FABRIC_KINDS),
    "fabric.topology": _text(*TOPOLOGIES),
    "fabric.latency": _LATENCY,
    "fabric.oversubscription": _number("count", "", 0.01, 1e3),
    "fabric.leaf_nodes": _COUNT,
    "fabric.in_network_reduction": _FLAG,
}
SECTIONS: Final = frozenset(
    path.rsplit(".", depth)[0] for path in FIELDS for depth in range(1, path.count(".") + 1)
)


def unit_of(path: str) -> str:
    """Return the SI unit to print of a field, "" for counts and words.

    Args:
        path: A key of `FIELDS`.
    """
    reader = FIELDS[path].reader
    return reader.unit if isinstance(reader, Number) else ""
