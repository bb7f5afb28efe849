"""Description of a system as rows: each value with its source."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from perfatlas.hardware.schema import KINDS, attributes_of, fields_of, unit_of
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


def field_values(system: System) -> dict[str, Value]:
    """Return the values of a system [SI], by field.

    Example:
        >>> from perfatlas.hardware import field_values, resolve_system
        >>> field_values(resolve_system("h200_sxm"))["device.memory.bandwidth"]
        4800000000000.0
    """
    device, kind = system.device, KINDS[system.device.kind]
    parts = {"device": device, "device.scale_up": device.scale_up}
    parts |= {"node": system.node, "fabric": system.fabric}
    values: dict[str, Value] = {"node": system.node.name, "fabric": system.fabric.name}
    for section, part in parts.items():
        found = {**device.further, **vars(part)}
        values |= {path: found[name] for name, path in attributes_of(section, kind).items()}
    values |= {f"device.peak.{name}": peak for name, peak in device.peak_flop_per_s.items()}
    return values | {"device.year": str(device.year)}


def _text(path: str, value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    unit = unit_of(path)
    return format_quantity(value, unit, digits=4) if unit else f"{value:,.6g}"


def describe(system: System) -> list[SpecRow]:
    """Return one row per value of a system, in schema order.

    Example:
        >>> from perfatlas.hardware import describe
        >>> from perfatlas.hardware import resolve_system
        >>> rows = {row.field: row.value for row in describe(resolve_system("h200_sxm"))}
        >>> rows["device.memory.bandwidth"]
        '4.8 TB/s'
    """
    values = field_values(system)
    rows = []
    for path in fields_of(KINDS[system.device.kind]):
        if path in system.sources:
            source = system.sources[path]
            text = _text(path, values[path])
            rows.append(SpecRow(path, text, source.kind, source.ref, source.note))
    return rows
