"""Devices, nodes, fabrics and the systems made of them; knows nothing of operators."""

from __future__ import annotations

from perfatlas.hardware.alternatives import alternatives
from perfatlas.hardware.citations import cited_sources
from perfatlas.hardware.describe import describe
from perfatlas.hardware.device import Device, System
from perfatlas.hardware.resolve import resolve_system, system_names

__all__ = [
    "Device",
    "System",
    "alternatives",
    "cited_sources",
    "describe",
    "resolve_system",
    "system_names",
]
