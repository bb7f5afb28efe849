"""Devices, nodes, fabrics and systems; all values in SI units, each with its source."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from perfatlas.hardware.schema import DEFAULT_KIND

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.hardware.paths import Matrix
    from perfatlas.quantities import Source


@dataclass(frozen=True, kw_only=True)
class ScaleUp:
    """The scale-up (load-store) domain of a device: NVLink, Infinity Fabric, ICI, PCIe."""

    domain_size: int
    links: int  # Links per device
    bandwidth: float  # Per device and direction over all links [bytes/s]
    latency_s: float  # One hop, device to device [s]
    in_network_reduction: bool  # Whether the switch reduces (NVLS)
    # nvlink, nvlink_mesh (without a switch), pcie, infinity_fabric, ici, upi, c2c or c2c_mesh
    # (links whose transfers a compiler schedules)
    kind: str

    @property
    def link_type(self) -> str:
        """The type of its links, with a switch or without."""
        return self.kind.removesuffix("_mesh")


@dataclass(frozen=True, kw_only=True)
class Device:
    """One accelerator as software addresses it (one rank)."""

    name: str  # Catalog name
    vendor: str
    architecture: str  # Architecture, one of those of its kind
    calibration_relative: str  # Device whose kernel calibration is used, "" for none
    # Dense peaks {bf16, fp16, tf32, fp32, fp64, fp8, fp4, int8} [FLOP/s]. Absent formats have no
    # native support.
    peak_flop_per_s: Mapping[str, float]
    packages: int  # Packages per device
    dies: int  # Compute dies per device
    peak_clock_hz: float  # Clock at which the datasheet's tensor peak is stated
    boost_clock_hz: float  # Maximum clock
    sustained_clock_hz: float  # Clock at which kernels are priced by default
    memory_bytes: float  # Device memory visible to software
    memory_bandwidth: float  # Peak device memory bandwidth [bytes/s]
    scale_up: ScaleUp  # The scale-up domain
    host_link_bandwidth: float  # Bandwidth to the host, per direction [bytes/s]
    tdp_w: float  # Board power limit
    # That of the catalog or file before a user's changes, at which kernels were measured
    calibrated_tdp_w: float
    idle_w: float  # Idle power
    year: int  # First shipment
    sources: Mapping[str, Source]  # Source by dotted TOML path ("device.memory.bandwidth")
    overridden: tuple[str, ...] = ()  # Dotted paths of the fields that the user changed
    # Kind of machine, whose schema is in `kinds` and whose prices are in `machines`
    kind: str = DEFAULT_KIND
    interposer: str = ""  # That of its package, "" for the usual one
    # Numbers of fields that have no attribute here, by name [SI]: those of its kind, and those that
    # have a default
    further: Mapping[str, float] = field(default_factory=dict)

    @property
    def peak_ratio(self) -> float:
        """Highest clock over that of the datasheet's peak where kernels run above it, else 1."""
        exceeds = self.sustained_clock_hz > self.peak_clock_hz
        return self.boost_clock_hz / self.peak_clock_hz if exceeds else 1.0

    def __hash__(self) -> int:
        """Return a hash of the numbers that users change, so that results can be cached."""
        return hash(
            (
                *(self.name, self.kind, self.overridden, self.dies, self.scale_up),
                *(self.memory_bytes, self.memory_bandwidth, self.tdp_w, self.idle_w),
                *(self.peak_clock_hz, self.boost_clock_hz, self.sustained_clock_hz),
                frozenset(self.peak_flop_per_s.items()),
                frozenset(self.further.items()),
            )
        )

    def number(self, name: str) -> float:
        """Return a numeric field [SI].

        Args:
            name: An attribute, or a name in `further`.
        """
        return float(self.further[name] if name in self.further else getattr(self, name))


@dataclass(frozen=True, kw_only=True)
class Node:
    """A server: devices and NICs, independent of the device type."""

    name: str  # Catalog name
    devices: int  # GPUs
    nics: int  # NICs of the network between nodes
    nic_bandwidth: float  # One NIC, per direction [bytes/s]
    topology: str = ""  # Board, file or printed matrix of the paths between GPUs; "" if unknown
    # Whether GPUs read each other's memory over PCIe; "auto" follows NCCL's rule
    peer_access: str = "auto"
    switch_optics: str = "none"  # Of the switches between nodes: none, pluggable or co_packaged
    paths: Matrix = ()  # Paths between GPUs (GPUs, GPUs); empty if unknown


@dataclass(frozen=True, kw_only=True)
class Fabric:
    """The scale-out network between nodes, independent of the node type."""

    name: str
    kind: str  # infiniband, ethernet, ici
    topology: str  # rail_optimized_fat_tree, fat_tree, dragonfly or dragonfly_plus
    latency_s: float  # End-to-end latency between two NICs [s]
    oversubscription: float  # Downlink to uplink ratio of a leaf; 1 is full bisection bandwidth
    leaf_nodes: int  # Nodes below one leaf switch (or one set of rail leaves)
    in_network_reduction: bool  # Whether the switches reduce (SHARP)
    radix: int = 0  # Ports of a switch at the rate of a NIC, 0 if unknown
    pod_nodes: int = 0  # Nodes of a pod or a group of a dragonfly, 0 without
    pod_oversubscription: float = 1.0  # NICs of a pod to its links to other pods
    pods: int = 0  # Pods or groups of the machine, 0 for those that its jobs fill
    planes: int = 1  # Separate networks, each with a port of every NIC
    switch_latency_s: float = 0.0  # One more switch on the way [s]


@dataclass(frozen=True, kw_only=True)
class System:
    """A complete system: a device in a node on a fabric."""

    name: str  # Name as the user wrote it, including overrides; resolves to the same system
    device: Device  # The accelerator
    node: Node  # The server
    fabric: Fabric  # The network between servers
    sources: Mapping[str, Source]  # Source by dotted TOML path ("node.nic_bandwidth")
    notes: tuple[str, ...] = ()  # Remarks to show with an answer
    overridden: tuple[str, ...] = ()  # Dotted paths of the fields that the user changed
    # Numbers between which sources of a value disagree, by dotted TOML path [SI]
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
