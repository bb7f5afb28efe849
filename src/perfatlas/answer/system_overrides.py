"""Warnings about overrides of a system that no prediction of an answer reads."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas import collectives
from perfatlas.formats import get_format
from perfatlas.hardware import FIELDS
from perfatlas.measurements.calibrations import find_calibration

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from perfatlas.hardware import System
    from perfatlas.step import Candidates

POWER: Final = "power and energy"
OFFLOADING: Final = "KV cache offloading"
SECOND_MEMORY: Final = "weight_offload and kv_offload"
IN_DOMAIN: Final = "collectives inside a scale-up domain"
BETWEEN_NODES: Final = "collectives between nodes"
ROUTES: Final = "routes of flows between nodes"
PRODUCTS: Final = "matrix products"
# Numbers of the calibrations of products that contain a field.
CONTAINED: Final = {
    "device.shared_memory": "efficiency_compute",
    "device.l2": "efficiency_bandwidth",
}
DOMAINS: Final = frozenset(("device.scale_up.domain_size", "node", "node.devices"))
STEPS: Final = (
    *("matrix products", "attention", "experts", "elementwise operators"),
    *(POWER, "power of nodes", "KV cache capacity", "rules of engines"),
)


def unread_overrides(system: System, readers: Collection[str]) -> list[str]:
    """Return a sentence for each override of a system that nothing in an answer reads.

    Args:
        readers: What the answer predicts, by the names that fields declare as their readers.

    Limits: A field that is read is not named, even where another value of it gives an equal answer.

    Example:
        >>> from perfatlas.answer import unread_overrides
        >>> from perfatlas.hardware import resolve_system
        >>> unread_overrides(resolve_system("h200_sxm{device.idle=70W}"), ("attention",))
        ['device.idle has no effect on this answer: it applies to power and energy']
    """
    notes = []
    for path in system.overridden:
        if text := _contained(system, path, readers):
            notes.append(text)
            continue
        read_by = FIELDS[path].read_by
        if set(readers).isdisjoint(read_by):
            *most, last = read_by or ("",)
            listed = f"{', '.join(most)} and {last}" if most else last
            why = f"it applies to {listed}" if listed else "no prediction uses it"
            notes.append(f"{path} has no effect on this answer: {why}")
    return notes


def _contained(system: System, path: str, readers: Collection[str]) -> str:
    """Return a sentence on an override that the fitted numbers of products contain, else ""."""
    if path not in CONTAINED or PRODUCTS not in readers:
        return ""
    match = find_calibration(system.device, "gemm", "", "bf16")
    if match is None:
        return ""
    name, cell = CONTAINED[path], match.calibration
    share = cell.parameters[name]
    acts = ", ".join(FIELDS[path].read_by)
    return (
        f"{path} does not change fitted products and attention, only {acts}: {name} of {cell.id}"
        f" ({share:.2f}) contains it, so that products could be at most {1.0 - share:.0%} faster"
        " with a larger one; the interval is wider"
    )


def format_readers(*names: str) -> set[str]:
    """Return the operators in some number formats, as readers of peaks."""
    formats = [get_format(name, arithmetic=True) for name in names]
    peaks = {peak for row in formats for peak in (row.tensor_peak, row.substitute_peak)}
    return {f"{peak} operators" for peak in peaks}


def collective_readers(system: System, gpus: float) -> set[str]:
    """Return the collectives of a group of GPUs, as readers of links."""
    if gpus <= 1:
        return set()
    scale_up = system.device.scale_up
    leaves = gpus > scale_up.domain_size or not DOMAINS.isdisjoint(system.overridden)
    host = {OFFLOADING} if leaves or scale_up.kind == collectives.HOST_LINK else set()
    return {IN_DOMAIN, *host, *((BETWEEN_NODES,) if leaves else ())}


def unread_of_steps(question: Candidates, further: Iterable[str] = ()) -> list[Sequence[str]]:
    """Return sentences on the overrides that no prediction of the steps of a candidate reads (C).

    Args:
        further: Readers beside the steps.
    """
    placement, formats = question.placement, question.formats
    if not any(system.overridden for system in placement.systems):
        return [()] * question.size
    gpus_C = np.full(question.size, np.inf) if question.pooled else question.plan.gpus_per_replica
    readers = {*STEPS, *further, *format_readers(*formats.names)}
    if placement.offloads:
        readers.add(SECOND_MEMORY)

    @cache
    def unread(index: int, gpus: float) -> list[str]:
        system = placement.systems[index]
        return unread_overrides(system, readers | collective_readers(system, gpus))

    return [unread(*key) for key in zip(placement.index_C.tolist(), gpus_C.tolist(), strict=True)]
