"""A system as rows for people: every value with where it comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from perfatlas.hardware.schema import FIELDS, unit_of
from perfatlas.quantities import format_quantity

if TYPE_CHECKING:
    from perfatlas.files import Value
    from perfatlas.hardware.device import System


class SpecRow(NamedTuple):
    """One value of a system: dotted field, value as text, and its source."""

    field: str
    value: str
    kind: str
    ref: str
    note: str


def _values(system: System) -> dict[str, Value]:
    device, up = system.device, system.device.scale_up
    return {
        "device.vendor": device.vendor,
        "device.architecture": device.architecture,
        "device.calibration_relative": device.calibration_relative,
        "device.year": str(device.year),
        **{f"device.peak.{name}": peak for name, peak in device.peak_flop_per_s.items()},
        "device.sm_count": device.sm_count,
        "device.packages": device.packages,
        "device.dies": device.dies,
        "device.flop_per_clock_per_sm": device.flop_per_clock_per_sm,
        "device.clock.peak": device.peak_clock_hz,
        "device.clock.boost": device.boost_clock_hz,
        "device.clock.sustained": device.sustained_clock_hz,
        "device.exponentials_per_sm_clock": device.exponentials_per_sm_clock,
        "device.l2": device.l2_bytes,
        "device.shared_memory": device.shared_memory_bytes,
        "device.memory.capacity": device.memory_bytes,
        "device.memory.bandwidth": device.memory_bandwidth,
        "device.scale_up.domain_size": up.domain_size,
        "device.scale_up.links": up.links,
        "device.scale_up.bandwidth": up.bandwidth,
        "device.scale_up.latency": up.latency_s,
        "device.scale_up.in_network_reduction": up.in_network_reduction,
        "device.scale_up.kind": up.kind,
        "device.host_link.bandwidth": device.host_link_bandwidth,
        "device.tdp": device.tdp_w,
        "device.idle": device.idle_w,
        "node": system.node.name,
        "node.devices": system.node.devices,
        "node.nics": system.node.nics,
        "node.nic_bandwidth": system.node.nic_bandwidth,
        "fabric": system.fabric.name,
        "fabric.kind": system.fabric.kind,
        "fabric.topology": system.fabric.topology,
        "fabric.latency": system.fabric.latency_s,
        "fabric.oversubscription": system.fabric.oversubscription,
        "fabric.leaf_nodes": system.fabric.leaf_nodes,
        "fabric.in_network_reduction": system.fabric.in_network_reduction,
    }


def _text(path: str, value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    unit = unit_of(path)
    return format_quantity(value, unit, digits=4) if unit else f"{value:,.6g}"


def describe(system: System) -> list[SpecRow]:
    """Return one row per stated value of a system, in the order of the schema.

    Example:
        >>> from perfatlas.hardware import describe
        >>> from perfatlas.hardware import resolve_system
        >>> rows = {row.field: row.value for row in describe(resolve_system("h200_sxm"))}
        >>> rows["device.memory.bandwidth"]
        '4.8 TB/s'
    """
    values = _values(system)
    rows = []
    for path in FIELDS:
        if path in system.sources:
            source = system.sources[path]
            text = _text(path, values[path])
            rows.append(SpecRow(path, text, source.kind, source.ref, source.note))
    return rows
