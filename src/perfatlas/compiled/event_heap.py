"""A binary heap of future events, earliest first.

Shape legend: H capacity of a heap.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from perfatlas.compiled.parts import inlined

NODE: Final = np.dtype([("time", "f8"), ("birth", "f8"), ("item", "i8")], align=True)
Rows = NDArray[Any]


@inlined
def push(heap_H: Rows, size: int, time: float, birth: float, item: int) -> None:
    """Add a node to a heap that is not full.

    Args:
        heap_H: Nodes (H,).
        size: Number of nodes before.
        time: Time of the event [ticks].
        birth: Time at which it was created, stored with it [ticks].
    """
    index = size
    while index > 0:
        up = (index - 1) >> 1
        if heap_H[up].time <= time:
            break
        heap_H[index].time = heap_H[up].time
        heap_H[index].birth = heap_H[up].birth
        heap_H[index].item = heap_H[up].item
        index = up
    heap_H[index].time = time
    heap_H[index].birth = birth
    heap_H[index].item = item


@inlined
def drop(heap_H: Rows, size: int) -> None:
    """Remove the earliest node from a heap.

    Args:
        heap_H: Nodes (H,).
        size: Number of nodes before, at least one.
    """
    last = size - 1
    time, birth, item = heap_H[last].time, heap_H[last].birth, heap_H[last].item
    index = 0
    while True:
        child = 2 * index + 1
        if child >= last:
            break
        if child + 1 < last and heap_H[child + 1].time < heap_H[child].time:
            child += 1
        if time <= heap_H[child].time:
            break
        heap_H[index].time = heap_H[child].time
        heap_H[index].birth = heap_H[child].birth
        heap_H[index].item = heap_H[child].item
        index = child
    heap_H[index].time = time
    heap_H[index].birth = birth
    heap_H[index].item = item
