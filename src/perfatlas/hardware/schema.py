"""The fields of a hardware spec: dotted path, dimension and plausible range of each."""

from __future__ import annotations

from typing import Final, NamedTuple

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


class Field(NamedTuple):
    """One field of a spec.

    Args:
        dimension: A dimension of `quantities.UNITS`, or "text" or "flag".
        unit: SI unit to print, "" for counts.
        least: Smallest plausible value [SI]; a value below it is a slip of the unit.
        most: Largest plausible value [SI].
        whole: Must be a whole number.
        choices: Allowed words of a text field, empty for free text.
        required: A full spec must state it.
    """

    dimension: str
    unit: str = ""
    least: float = 0.0
    most: float = 0.0
    whole: bool = False
    choices: tuple[str, ...] = ()
    required: bool = True


def _text(*choices: str, required: bool = True) -> Field:
    return Field("text", choices=choices, required=required)


# Ranges are wide: they catch a forgotten unit ("6" for 6 TB/s), not an unusual chip.
_COUNT: Final = Field("count", "", 1, 1e9, whole=True)
_BYTES: Final = Field("bytes", "B", 1e3, 1e16)
_RATE: Final = Field("bytes_per_s", "B/s", 1e6, 1e18)
_PEAK: Final = Field("flop_per_s", "FLOP/s", 1e8, 1e20, required=False)
_CLOCK: Final = Field("hz", "Hz", 1e6, 1e11)
_LATENCY: Final = Field("s", "s", 0.0, 1.0)
_POWER: Final = Field("w", "W", 0.01, 1e6)

FIELDS: Final[dict[str, Field]] = {
    "device.vendor": _text(),
    "device.architecture": _text(*ARCHITECTURES),
    "device.calibration_relative": _text(required=False),
    "device.year": Field("count", "", 1990, 2100, whole=True),
    **{f"device.peak.{name}": _PEAK for name in FORMATS},
    "device.sm_count": _COUNT,
    "device.packages": _COUNT,
    "device.dies": _COUNT,
    "device.flop_per_clock_per_sm": Field("count", "", 0.001, 1e9, required=False),
    "device.clock.peak": _CLOCK,
    "device.clock.boost": _CLOCK,
    "device.clock.sustained": _CLOCK,
    "device.exponentials_per_sm_clock": Field("count", "", 0.001, 1e6),
    "device.l2": _BYTES,
    "device.shared_memory": _BYTES,
    "device.memory.capacity": _BYTES,
    "device.memory.bandwidth": _RATE,
    "device.scale_up.domain_size": _COUNT,
    "device.scale_up.links": Field("count", "", 0, 1e6, whole=True),
    "device.scale_up.bandwidth": _RATE,
    "device.scale_up.latency": _LATENCY,
    "device.scale_up.in_network_reduction": Field("flag"),
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
    "fabric.oversubscription": Field("count", "", 0.01, 1e3),
    "fabric.leaf_nodes": _COUNT,
    "fabric.in_network_reduction": Field("flag"),
}
SECTIONS: Final = frozenset(
    path.rsplit(".", depth)[0] for path in FIELDS for depth in range(1, path.count(".") + 1)
)
