"""What a device and a system are; every number SI, each with its source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.quantities import Source


@dataclass(frozen=True, kw_only=True)
class ScaleUp:
    """The load-store domain a device sits in (NVLink, Infinity Fabric, ICI, PCIe).

    Args:
        domain_size: Devices in one domain.
        links: Links per device.
        bandwidth: Per device and direction over all links [bytes/s].
        latency_s: One hop, device to device [s].
        in_network_reduction: The switch reduces (NVLS).
        kind: nvlink, pcie, infinity_fabric, ici or upi.
    """

    domain_size: int
    links: int
    bandwidth: float
    latency_s: float
    in_network_reduction: bool
    kind: str


@dataclass(frozen=True, kw_only=True)
class Device:
    """One accelerator as software addresses it (one rank).

    Args:
        name: Catalog name.
        vendor: Who makes it.
        architecture: Kernel family of the silicon: ampere, ada, hopper, blackwell,
            blackwell_workstation, cdna3, cdna4, tpu, cpu, other.
        calibration_relative: Device whose kernel calibration it borrows, "" for none.
        peak_flop_per_s: Dense peaks {bf16, fp16, tf32, fp32, fp64, fp8, fp4, int8} [FLOP/s].
            An absent format is not supported natively.
        sm_count: SMs, CUs or cores that schedule work.
        packages: Packages per device.
        dies: Compute dies per device.
        flop_per_clock_per_sm: Dense bf16 FLOP per SM and clock (fp16 where there is no bf16);
            SMs x peak clock x this is the bf16 peak.
        peak_clock_hz: Clock of the headline tensor peak.
        boost_clock_hz: Highest clock.
        sustained_clock_hz: Clock kernels run at by default in pricing.
        exponentials_per_sm_clock: exp2 results per SM and clock.
        l2_bytes: Last-level cache on the device.
        shared_memory_bytes: Scratchpad per SM.
        memory_bytes: Device memory visible to software.
        memory_bandwidth: Device memory peak [bytes/s].
        scale_up: The domain.
        host_link_bandwidth: To the host, per direction [bytes/s].
        tdp_w: Board power limit.
        idle_w: Power at rest.
        year: First shipment.
        sources: Dotted path of the TOML ("device.memory.bandwidth") -> source.
        overridden: Dotted paths of fields the user changed.
    """

    name: str
    vendor: str
    architecture: str
    calibration_relative: str
    peak_flop_per_s: Mapping[str, float]
    sm_count: int
    packages: int
    dies: int
    flop_per_clock_per_sm: float
    peak_clock_hz: float
    boost_clock_hz: float
    sustained_clock_hz: float
    exponentials_per_sm_clock: float
    l2_bytes: float
    shared_memory_bytes: float
    memory_bytes: float
    memory_bandwidth: float
    scale_up: ScaleUp
    host_link_bandwidth: float
    tdp_w: float
    idle_w: float
    year: int
    sources: Mapping[str, Source]
    overridden: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Node:
    """A server: devices, NICs and host, apart from the chip."""

    name: str
    devices: int
    nics: int
    nic_bandwidth: float  # one NIC, per direction [bytes/s]


@dataclass(frozen=True, kw_only=True)
class Fabric:
    """The scale-out network between nodes, apart from the node.

    Args:
        kind: infiniband, ethernet, ici.
        topology: rail_optimized_fat_tree, fat_tree, torus or none.
        latency_s: End to end between two NICs [s].
        oversubscription: Downlink to uplink ratio of the leaf, 1 is full bisection.
        leaf_nodes: Nodes that reach each other below the uplinks of a leaf, or of their rails'.
        in_network_reduction: Whether the switches between nodes add (SHARP).
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
    """What a user names: a device in its node on its fabric.

    Args:
        name: As the user wrote it, overrides included; it resolves to the same system again.
        device: The accelerator.
        node: The server.
        fabric: The network between servers.
        sources: Dotted path of the TOML ("node.nic_bandwidth") -> source.
        notes: What the reader of an answer must know.
        overridden: Dotted paths of fields the user changed.
    """

    name: str
    device: Device
    node: Node
    fabric: Fabric
    sources: Mapping[str, Source]
    notes: tuple[str, ...] = ()
    overridden: tuple[str, ...] = ()
