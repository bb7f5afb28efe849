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
    """The scale-up (load-store) domain of a device: NVLink, Infinity Fabric, ICI, PCIe.

    Args:
        links: Links per device.
        bandwidth: Per device and direction over all links [bytes/s].
        latency_s: One hop, device to device [s].
        in_network_reduction: Whether the switch reduces (NVLS).
        kind: nvlink, nvlink_mesh (without a switch), pcie, infinity_fabric, ici, upi,
            c2c or c2c_mesh (links whose transfers a compiler schedules).
    """

    domain_size: int
    links: int
    bandwidth: float
    latency_s: float
    in_network_reduction: bool
    kind: str

    @property
    def link_type(self) -> str:
        """The type of its links, with a switch or without."""
        return self.kind.removesuffix("_mesh")


@dataclass(frozen=True, kw_only=True)
class Device:
    """One accelerator as software addresses it (one rank).

    Args:
        name: Catalog name.
        architecture: Architecture, one of those of its kind.
        calibration_relative: Device whose kernel calibration is used, "" for none.
        peak_flop_per_s: Dense peaks {bf16, fp16, tf32, fp32, fp64, fp8, fp4, int8} [FLOP/s].
            Absent formats have no native support.
        packages: Packages per device.
        dies: Compute dies per device.
        peak_clock_hz: Clock at which the datasheet's tensor peak is stated.
        boost_clock_hz: Maximum clock.
        sustained_clock_hz: Clock at which kernels are priced by default.
        memory_bytes: Device memory visible to software.
        memory_bandwidth: Peak device memory bandwidth [bytes/s].
        scale_up: The scale-up domain.
        host_link_bandwidth: Bandwidth to the host, per direction [bytes/s].
        tdp_w: Board power limit.
        calibrated_tdp_w: That of the catalog or file before a user's changes, at which kernels
            were measured.
        idle_w: Idle power.
        year: First shipment.
        sources: Source by dotted TOML path ("device.memory.bandwidth").
        overridden: Dotted paths of the fields that the user changed.
        kind: Kind of machine, whose schema is in `kinds` and whose prices are in `machines`.
        further: Numbers of fields that have no attribute here, by name [SI]: those of its kind, and
            those that have a default.
    """

    name: str
    vendor: str
    architecture: str
    calibration_relative: str
    peak_flop_per_s: Mapping[str, float]
    packages: int
    dies: int
    peak_clock_hz: float
    boost_clock_hz: float
    sustained_clock_hz: float
    memory_bytes: float
    memory_bandwidth: float
    scale_up: ScaleUp
    host_link_bandwidth: float
    tdp_w: float
    calibrated_tdp_w: float
    idle_w: float
    year: int
    sources: Mapping[str, Source]
    overridden: tuple[str, ...] = ()
    kind: str = DEFAULT_KIND
    further: Mapping[str, float] = field(default_factory=dict)

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
    """A server: devices and NICs, independent of the device type.

    Args:
        name: Catalog name.
        devices: GPUs.
        nics: NICs of the network between nodes.
        nic_bandwidth: One NIC, per direction [bytes/s].
        topology: Board, file or printed matrix of the paths between GPUs; "" if unknown.
        peer_access: Whether GPUs read each other's memory over PCIe; "auto" follows NCCL's rule.
        paths: Paths between GPUs (GPUs, GPUs); empty if unknown.
    """

    name: str
    devices: int
    nics: int
    nic_bandwidth: float
    topology: str = ""
    peer_access: str = "auto"
    paths: Matrix = ()


@dataclass(frozen=True, kw_only=True)
class Fabric:
    """The scale-out network between nodes, independent of the node type.

    Args:
        kind: infiniband, ethernet, ici.
        topology: rail_optimized_fat_tree, fat_tree, torus or none.
        latency_s: End-to-end latency between two NICs [s].
        oversubscription: Downlink to uplink ratio of a leaf; 1 is full bisection bandwidth.
        leaf_nodes: Nodes below one leaf switch (or one set of rail leaves).
        in_network_reduction: Whether the switches reduce (SHARP).
    """

    name: str
    kind: str
    topology: str
    latency_s: float
    oversubscription: float
    leaf_nodes: int
    in_network_reduction: bool


@dataclass(frozen=True, kw_only=True)
class System:
    """A complete system: a device in a node on a fabric.

    Args:
        name: Name as the user wrote it, including overrides; resolves to the same system.
        device: The accelerator.
        node: The server.
        fabric: The network between servers.
        sources: Source by dotted TOML path ("node.nic_bandwidth").
        notes: Remarks to show with an answer.
        overridden: Dotted paths of the fields that the user changed.
    """

    name: str
    device: Device
    node: Node
    fabric: Fabric
    sources: Mapping[str, Source]
    notes: tuple[str, ...] = ()
    overridden: tuple[str, ...] = ()
