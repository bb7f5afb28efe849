"""References of a system's values, as lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, get_args

from perfatlas.hardware.schema import KINDS
from perfatlas.quantities import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfatlas.hardware.device import System
    from perfatlas.quantities import Source

MOST_LINES: Final = 8
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


def _text(source: Source) -> str:
    is_marked = source.ref.startswith((_ASSUMED, _OVERRIDE))
    return f"{_ASSUMED}{source.ref}" if source.kind == "assumed" and not is_marked else source.ref


def cited_sources(system: System) -> tuple[str, ...]:
    """Return the references of the values that an estimate uses, as "field(s): ref".

    Fields with the same reference share a line. User overrides come first, then datasheet and
    measured values, then derived and assumed ones; within a kind, the line with most fields.

    Returns:
        At most `MOST_LINES` distinct lines.

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
        text = _text(source)
        fields = labels.setdefault(text, [])
        if label not in fields:
            fields.append(label)
        rank = -1 if source.ref == _OVERRIDE else _BEST_FIRST.index(source.kind)
        ranks[text] = min(rank, ranks.get(text, rank))
    best = sorted(labels, key=lambda text: (ranks[text], -len(labels[text])))
    return tuple(f"{', '.join(labels[text])}: {text}" for text in best[:MOST_LINES])
