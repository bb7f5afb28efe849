"""A heap of requests by time or step that supports removal of any member.

The position of each member is stored in its request, so that a preempted one is removed in O(log
n).

Shape legend: H capacity of a heap, N requests.
"""

from __future__ import annotations

from typing import Any, Final

from numpy.typing import NDArray

from perfatlas.compiled import part, record_type

Rows = NDArray[Any]


class HeapNode:
    """A member of a heap, ordered by key, then tie."""

    key: int
    tie: int
    item: int


NODE: Final = record_type(HeapNode)


@part
def put(heap_H: Rows, request_N: Rows, size: int, node: tuple[int, int, int]) -> None:
    """Add a member to a heap of `size`.

    Args:
        heap_H: Nodes (H,), ordered by key, then tie.
        request_N: Requests (N,), which store their positions.
        size: Number of members before.
        node: Key, tie, request.
    """
    _settle_up(heap_H, request_N, size, node)


@part
def drop(heap_H: Rows, request_N: Rows, size: int, slot: int) -> None:
    """Remove the member at a position from a heap of `size`.

    Args:
        heap_H: Nodes (H,).
        size: Number of members before.
        slot: Position of the member; 0 is the minimum.
    """
    last = size - 1
    if slot == last:
        return
    moved = heap_H[last]
    node = (moved.key, moved.tie, moved.item)
    up = (slot - 1) >> 1
    if slot > 0 and _earlier(node, heap_H[up]):
        _settle_up(heap_H, request_N, slot, node)
    else:
        _settle_down(heap_H, request_N, last, (slot, node))


@part
def _earlier(node: tuple[int, int, int], other: HeapNode) -> bool:
    return bool(node[0] < other.key or (node[0] == other.key and node[1] < other.tie))


@part
def _set(heap_H: Rows, request_N: Rows, slot: int, node: tuple[int, int, int]) -> None:
    row = heap_H[slot]
    row.key = node[0]
    row.tie = node[1]
    row.item = node[2]
    request_N[node[2]].heap_slot = slot


@part
def _settle_up(heap_H: Rows, request_N: Rows, slot: int, node: tuple[int, int, int]) -> None:
    while slot > 0:
        up = (slot - 1) >> 1
        above = heap_H[up]
        if not _earlier(node, above):
            break
        _set(heap_H, request_N, slot, (above.key, above.tie, above.item))
        slot = up
    _set(heap_H, request_N, slot, node)


@part
def _settle_down(
    heap_H: Rows, request_N: Rows, size: int, at: tuple[int, tuple[int, int, int]]
) -> None:
    index, node = at
    while True:
        child = 2 * index + 1
        if child >= size:
            break
        row = heap_H[child]
        if child + 1 < size:
            other = heap_H[child + 1]
            if _earlier((other.key, other.tie, other.item), row):
                row = other
                child += 1
        if _earlier(node, row):
            break
        _set(heap_H, request_N, index, (row.key, row.tie, row.item))
        index = child
    _set(heap_H, request_N, index, node)
