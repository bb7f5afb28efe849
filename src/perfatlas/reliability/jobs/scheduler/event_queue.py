"""A heap of items by time, with changeable times; ties are broken by item number.

Shape legend: H heap slots (the first is the size), I items.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from perfatlas.compiled import inlined, part
from perfatlas.reliability.jobs.model import NEVER

Ints = NDArray[np.int64]


@inlined
def earliest(heap_H: Ints, time_I: Ints) -> int:
    """Return the time of the next item, NEVER for an empty heap."""
    return int(time_I[heap_H[1]]) if heap_H[0] else NEVER


@part
def plan(heap_H: Ints, spot_I: Ints, time_I: Ints, item: int, time: int) -> None:
    """Insert an item, or change its time.

    Args:
        spot_I: Position of each item in it, 0 absent (I,).
        time: Its time [ticks].
    """
    time_I[item] = time
    index = spot_I[item]
    if not index:
        heap_H[0] += 1
        index = heap_H[0]
    index = _up(heap_H, spot_I, time_I, item, index)
    _down(heap_H, spot_I, time_I, item, index)


@part
def cancel(heap_H: Ints, spot_I: Ints, time_I: Ints, item: int) -> None:
    """Remove an item, if present.

    Args:
        spot_I: Position of each item in it, 0 absent (I,).
    """
    index = spot_I[item]
    if not index:
        return
    last = heap_H[heap_H[0]]
    heap_H[0] -= 1
    spot_I[item] = 0
    if last != item:
        index = _up(heap_H, spot_I, time_I, last, index)
        _down(heap_H, spot_I, time_I, last, index)


@part
def _up(heap_H: Ints, spot_I: Ints, time_I: Ints, item: int, slot: int) -> int:
    time = time_I[item]
    while slot > 1:
        above = heap_H[slot >> 1]
        if time_I[above] < time or (time_I[above] == time and above < item):
            break
        heap_H[slot] = above
        spot_I[above] = slot
        slot >>= 1
    heap_H[slot] = item
    spot_I[item] = slot
    return slot


@part
def _down(heap_H: Ints, spot_I: Ints, time_I: Ints, item: int, slot: int) -> None:
    time, size = time_I[item], heap_H[0]
    while 2 * slot <= size:
        child = 2 * slot
        below = heap_H[child]
        if child < size:
            other = heap_H[child + 1]
            if time_I[other] < time_I[below] or (time_I[other] == time_I[below] and other < below):
                child, below = child + 1, other
        if time < time_I[below] or (time == time_I[below] and item < below):
            break
        heap_H[slot] = below
        spot_I[below] = slot
        slot = child
    heap_H[slot] = item
    spot_I[item] = slot
