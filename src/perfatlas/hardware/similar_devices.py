"""Alternative devices to suggest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.hardware.resolve import resolve_system, system_names

if TYPE_CHECKING:
    from perfatlas.hardware.device import Device


def alternatives(device: Device) -> dict[str, float]:
    """Return the memory of other catalog accelerators of its kind by name [bytes], nearest first.

    Devices of the same vendor come first, then the others, each in order of memory. CPUs are
    not listed.

    Example:
        >>> from perfatlas.hardware import alternatives
        >>> from perfatlas.hardware import resolve_system
        >>> list(alternatives(resolve_system("mi300x").device))[:2]
        ['mi325x', 'mi355x']
    """
    others = [resolve_system(name).device for name in system_names()]
    others = [other for other in others if other.kind == device.kind and other.name != device.name]
    others = [other for other in others if "cpu" not in (other.architecture, other.name)]
    others.sort(key=lambda o: (o.vendor != device.vendor, o.memory_bytes, o.name))
    return {other.name: other.memory_bytes for other in others}
