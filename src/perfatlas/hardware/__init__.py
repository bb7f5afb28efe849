"""Devices, nodes, fabrics and the systems made of them; knows nothing of operators."""

from __future__ import annotations

from perfatlas.hardware.alternatives import alternatives
from perfatlas.hardware.citations import cited_sources
from perfatlas.hardware.describe import SpecRow, describe
from perfatlas.hardware.device import Device, Fabric, Node, ScaleUp, System
from perfatlas.hardware.resolve import resolve_system, system_names

__all__ = [
    "Device",
    "Fabric",
    "Node",
    "ScaleUp",
    "SpecRow",
    "System",
    "alternatives",
    "describe",
    "resolve_system",
    "system_names",
]
