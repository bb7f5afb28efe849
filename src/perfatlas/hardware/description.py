"""Description of a system as rows: each value with its source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, get_args

from perfatlas.hardware.schema import KINDS, attributes_of, fields_of, unit_of
from perfatlas.quantities import Kind, format_quantity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfatlas.files import Value
    from perfatlas.hardware.device import System
    from perfatlas.quantities import Source

MAX_LINES: Final = 8


# Values that an estimate depends on after those of the device, most influential first.
_LINKS: Final[dict[str, str]] = {
    "device.scale_up.bandwidth": "scale-up",
    "device.scale_up.latency": "scale-up latency",
    "node.nic_bandwidth": "NICs",
    "node.nics": "NICs",
    "fabric.latency": "fabric latency",
}


_BEST_FIRST: Final = get_args(Kind)  # datasheet, measured, derived, assumed


_ASSUMED: Final = "assumed: "


_OVERRIDE: Final = "user override"


def _used(system: System) -> Iterable[tuple[str, Source]]:
    """Yield (label, source) of the values that an estimate on this system depends on."""
    alone = system.device.scale_up.domain_size == 1
    labels = {**KINDS[system.device.kind].cited, **_LINKS}
    for path, label in labels.items():
        if path in system.sources and not (alone and path.startswith("device.scale_up.")):
            yield label, system.sources[path]


def _cited_text(source: Source) -> str:
    is_marked = source.ref.startswith((_ASSUMED, _OVERRIDE))
    return f"{_ASSUMED}{source.ref}" if source.kind == "assumed" and not is_marked else source.ref


def cited_sources(system: System) -> tuple[str, ...]:
    """Return the references of the values that an estimate uses, as "field(s): ref".

    Fields with the same reference share a line. User overrides come first, then datasheet and
    measured values, then derived and assumed ones; within a kind, the line with most fields.

    Returns:
        At most `MAX_LINES` distinct lines.

    Example:
        >>> from perfatlas.hardware import cited_sources
        >>> from perfatlas.hardware import resolve_system
        >>> lines = cited_sources(resolve_system("b200_sxm{device.memory.bandwidth=6TB/s}"))
        >>> lines[0]
        'memory bandwidth: user override'
    """
    labels: dict[str, list[str]] = {}
    ranks: dict[str, int] = {}
    for label, source in _used(system):
        text = _cited_text(source)
        fields = labels.setdefault(text, [])
        if label not in fields:
            fields.append(label)
        rank = -1 if source.ref == _OVERRIDE else _BEST_FIRST.index(source.kind)
        ranks[text] = min(rank, ranks.get(text, rank))
    best = sorted(labels, key=lambda text: (ranks[text], -len(labels[text])))
    return tuple(f"{', '.join(labels[text])}: {text}" for text in best[:MAX_LINES])


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
        attributes = {**device.further, **vars(part)}
        values |= {path: attributes[name] for name, path in attributes_of(section, kind).items()}
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
